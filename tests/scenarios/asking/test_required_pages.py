"""Pages that the user must visit first: `UrlElicitationRequired` in every version, and the mistakes of its author."""

import traceback
from typing import Any

import pytest

from dragoman import Context, ElicitUrl, Server, UrlElicitationRequired, types
from dragoman.server import CallNext
from dragoman.testing import WirePeer
from scenarios.server.test_mistakes import INTERNAL, call
from scenarios.wire import ask, text

VISIT = {"mode": "url", "elicitationId": "1", "url": "https://example.com/login?n=1", "message": "Sign in at"}


def locked(*entries: Any) -> Server:
    server = Server("locked", secret="a secret of sixteen")

    @server.tool
    async def get() -> str:
        raise UrlElicitationRequired(list(entries))

    @server.prompt(name="get")
    async def prompt() -> str:
        raise UrlElicitationRequired(list(entries))

    return server


@pytest.mark.covers("ELI-05")
def test_before_2025_11_25_the_page_is_told_in_the_text():
    result = call(locked(VISIT), era="2025-06-18")
    assert result["isError"] is True
    assert text(result).endswith("\nSign in at https://example.com/login?n=1")
    error = ask(locked(VISIT), "prompts/get", {"name": "get"}, "2025-06-18")["error"]
    assert error["code"] == -32603
    assert "https://example.com/login?n=1" in error["message"]


@pytest.mark.covers("ELI-05")
@pytest.mark.parametrize("method", ["tools/call", "prompts/get"])
async def test_a_page_that_is_demanded_again_after_consent_ends_the_request_with_its_url(method):
    asked = 0
    params: types.Json = {"name": "get"}
    async with WirePeer(locked(VISIT), "stateless", capabilities={"elicitation": {"url": {}}}) as peer:
        response = await peer.request(method, params)
        while response.get("result", {}).get("resultType") == "input_required":
            asked += 1
            answers = {key: {"action": "accept"} for key in response["result"]["inputRequests"]}
            state = response["result"]["requestState"]
            response = await peer.request(method, {**params, "inputResponses": answers, "requestState": state})
    assert asked == 1
    if method == "tools/call":
        assert response["result"]["isError"] is True
        assert "https://example.com/login?n=1" in text(response["result"])
    else:
        assert response["error"]["code"] == -32603
        assert "https://example.com/login?n=1" in response["error"]["message"]


@pytest.mark.covers("ELI-05")
@pytest.mark.parametrize("era", ["2025-06-18", "2025-11-25", "2026-07-28"])
@pytest.mark.parametrize(
    ("entries", "mistake"),
    [
        ([], "UrlElicitationRequired needs an ElicitUrl for each page"),
        ([VISIT, "https://x.org"], "Entry 2 of UrlElicitationRequired must be an ElicitUrl, or a dict with message"),
        ([{"message": "x"}], "Entry 1 of UrlElicitationRequired needs an absolute url, not None"),
        ([{"url": "/login", "message": "x"}], "Entry 1 of UrlElicitationRequired needs an absolute url, not '/login'"),
        ([{"url": "https://x.org"}], "Entry 1 of UrlElicitationRequired: Object missing required field `message`"),
        ([{**VISIT, "mode": "form"}], "Entry 1 of UrlElicitationRequired has the mode 'form'"),
        ([{**VISIT, "link": "x"}], "Entry 1 of UrlElicitationRequired has no 'link'; it takes"),
    ],
    ids=str,
)
def test_malformed_page_is_reported_with_the_mistake_and_the_authors_line(entries, mistake, era, caplog):
    assert call(locked(*entries), era=era) == INTERNAL
    (record,) = caplog.records
    assert record.exc_info is not None
    assert str(record.exc_info[1]).startswith(mistake)
    assert "raise UrlElicitationRequired" in "".join(traceback.format_exception(record.exc_info[1]))


@pytest.mark.parametrize("pages", [None, "https://example.com", VISIT, ElicitUrl("Sign in", "https://x.org")], ids=type)
def test_pages_that_are_no_list_are_refused_where_they_are_raised(pages):
    with pytest.raises(TypeError, match=r"takes a list, such as \[ElicitUrl\(message, url\)\], not"):
        UrlElicitationRequired(pages)


@pytest.mark.covers("ELI-05")
@pytest.mark.parametrize("raised_by", ["tool", "middleware"])
@pytest.mark.parametrize("era", ["2025-06-18", "2025-11-25", "stateless"])
async def test_page_may_be_an_elicit_url(era, raised_by):
    page = ElicitUrl("Sign in at", "https://example.com/login", "1")
    server = locked(page)
    if raised_by == "middleware":

        @server.middleware
        async def refuse(ctx: Context, call_next: CallNext) -> object:
            if ctx.method == "tools/call":
                raise UrlElicitationRequired([page])
            return await call_next()

    async with WirePeer(server, era, capabilities={"elicitation": {"url": {}}}) as peer:
        response = await peer.request("tools/call", {"name": "get"})
    if era == "2025-11-25":
        expected = {"mode": "url", "elicitationId": "1", "url": "https://example.com/login", "message": "Sign in at"}
        assert response["error"]["code"] == -32042
        assert response["error"]["data"]["elicitations"] == [expected]
    elif era == "stateless":
        assert response["result"]["resultType"] == "input_required"
        (asked,) = response["result"]["inputRequests"].values()
        assert asked["params"]["url"] == "https://example.com/login"
    else:
        message = response["error"]["message"] if raised_by == "middleware" else text(response["result"])
        assert message.endswith("\nSign in at https://example.com/login")


async def test_completion_may_require_a_page():
    server = Server("locked")

    @server.on_complete
    async def complete(ref, argument, arguments):
        raise UrlElicitationRequired([ElicitUrl("Sign in at", "https://example.com/login", "1")])

    @server.prompt
    def get(tone: str) -> str:
        return tone

    params = {"ref": {"type": "ref/prompt", "name": "get"}, "argument": {"name": "tone", "value": ""}}
    async with WirePeer(server, "2025-11-25") as peer:
        error = (await peer.request("completion/complete", params))["error"]
    assert error["code"] == -32042
    assert error["data"]["elicitations"][0]["url"] == "https://example.com/login"


@pytest.mark.covers("ELI-05")
def test_entries_are_sent_in_the_words_of_the_wire():
    entry = {"url": "https://example.com", "message": "Visit", "elicitation_id": "7"}
    error = ask(locked(entry), "tools/call", {"name": "get"})["error"]
    assert error["code"] == -32042
    assert error["data"]["elicitations"] == [
        {"mode": "url", "elicitationId": "7", "url": "https://example.com", "message": "Visit"}
    ]
