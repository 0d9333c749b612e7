"""No token, secret or code shows in a log, an error, or what is printed."""

import logging
import re
from base64 import b64encode
from urllib.parse import quote_plus

import pytest
from aiohttp import web

from auth.visiting import REDIRECT, person, visit
from auth.world import world
from dragoman.auth import ClientCredentials, FileStorage, WorkloadIdentity
from dragoman.errors import AuthError

pytestmark = pytest.mark.covers("OAU-44")

SECRETS = re.compile(
    r"the-code-|access-token-|refresh-token-|registered-secret-|the-own-secret|the-platform-token|[A-Za-z0-9_-]{86}"
)


def everything(error):
    """Return what a traceback of an error shows."""
    shown = []
    while error is not None:
        shown += [str(error), repr(error)]
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    return " ".join(shown)


@pytest.mark.covers("LOA-14")
@pytest.mark.parametrize("scheme", ["Bearer", "DPoP"])
async def test_a_login_and_its_renewals_log_nothing_secret(scheme, caplog, capfd, tmp_path):
    with caplog.at_level(logging.DEBUG):
        async with world(scheme=scheme, auth_methods=["client_secret_post"]) as there:
            _, auth = person(storage=FileStorage(tmp_path))
            await visit(auth, there.url)
            there.expire_everything()
            await visit(auth, there.url)
            there.settings.token_error = {"error": "server_error"}
            there.settings.echoes_secrets = True
            there.expire_everything()
            with pytest.raises(AuthError) as raised:
                await visit(auth, there.url)
            there.settings.token_error = {"error": "invalid_grant"}
            with pytest.raises(AuthError):
                await visit(auth, there.url)
    shown = caplog.text + everything(raised.value) + "".join(capfd.readouterr()) + repr(vars(auth))
    assert not SECRETS.findall(shown)
    assert "server_error" in everything(raised.value)


@pytest.mark.parametrize("kind", ["person", "program", "workload"])
@pytest.mark.parametrize("error", ["invalid_client", "invalid_grant", "access-token-in-the-code"])
async def test_a_server_that_echoes_what_it_was_sent_is_not_quoted(kind, error, caplog):
    made = {
        "person": lambda: person(client_id="c", client_secret="the-own-secret")[1],
        "program": lambda: ClientCredentials("c", "the-own-secret", token_endpoint_auth_method="client_secret_post"),
        "workload": lambda: WorkloadIdentity("the-platform-token"),
    }[kind]()
    with caplog.at_level(logging.DEBUG):
        async with world(token_error={"error": error.replace("access-token-", "")}, echoes_secrets=True) as there:
            there.clients["c"] = {"client_secret": "the-own-secret", "redirect_uris": [REDIRECT]}
            with pytest.raises(AuthError) as raised:
                await visit(made, there.url)
    assert not SECRETS.findall(caplog.text + everything(raised.value))


ECHOES = {
    "plain": str,
    "in capitals": str.upper,
    "as in a URL": quote_plus,
    "as base64": lambda secret: b64encode(secret.encode()).decode(),
    "in a pair": lambda secret: b64encode(f"c:{quote_plus(secret)}".encode()).decode(),
    "half of it": lambda secret: secret[: len(secret) // 2],
}


def echoing(there, echo, member):
    """Let an authorization server refuse everything with a secret that it was ever sent or gave."""
    known = []

    def refuse(request, form):
        known.extend(form[name] for name in ("code", "code_verifier", "refresh_token", "assertion") if name in form)
        known.extend([*there.access, *there.refresh])
        known.extend(client["client_secret"] for client in there.clients.values())
        refusal = {"error": "invalid_request", "error_description": "no", member: f"bad: {echo(known[-1])}"}
        return web.json_response(refusal, status=400)

    there._token = refuse
    return known


@pytest.mark.covers("SEC-05")
@pytest.mark.parametrize("member", ["error", "error_description"])
@pytest.mark.parametrize("echo", ECHOES)
@pytest.mark.parametrize("kind", ["person", "own client", "program", "workload"])
async def test_an_authorization_server_that_echoes_a_secret_puts_it_into_no_error_and_no_log(
    kind, echo, member, caplog
):
    auth = {
        "person": lambda: person()[1],
        "own client": lambda: person(client_id="c", client_secret="the-own-secret-0123456789")[1],
        "program": lambda: ClientCredentials("c", "the-own-secret-0123456789"),
        "workload": lambda: WorkloadIdentity("the-platform-token-0123456789"),
    }[kind]()
    with caplog.at_level(logging.DEBUG):
        async with world(auth_methods=["client_secret_basic"]) as there:
            if kind != "workload":
                there.clients["c"] = {"client_secret": "the-own-secret-0123456789", "redirect_uris": [REDIRECT]}
            await visit(auth, there.url)
            known = echoing(there, ECHOES[echo], member)
            there.expire_everything()
            with pytest.raises(AuthError) as raised:
                await visit(auth, there.url)
    shown = caplog.text + everything(raised.value) + repr(vars(raised.value))
    assert not [secret for secret in known if ECHOES[echo](secret) in shown]
    assert "left out" in shown or "unreadable" in shown


@pytest.mark.parametrize("token", ["", "two words", "line\nbreak", "é", 5, None])
async def test_a_token_that_cannot_stand_in_a_header_is_refused_and_not_quoted(token):
    async with world(token_error={"access_token": token, "token_type": "Bearer"}, token_status=200) as there:
        with pytest.raises(AuthError, match="without an access token that can be used"):
            await visit(person()[1], there.url)


async def test_an_authorization_server_that_cannot_be_reached_is_named_without_its_query():
    async with world(metadata={"token_endpoint": "http://127.0.0.1:1/token?key=the-own-secret"}) as there:
        with pytest.raises(AuthError, match=r"http://127.0.0.1:1/token cannot be asked") as raised:
            await visit(person()[1], there.url)
        assert not SECRETS.findall(everything(raised.value))
