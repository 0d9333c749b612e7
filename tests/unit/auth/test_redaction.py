"""What others say, as it may be shown."""

from base64 import b64encode, urlsafe_b64encode
from urllib.parse import quote, quote_plus

import pytest

from dragoman.auth.redaction import LEFT_OUT, MAX_SECRETS, Secrets

SECRET = "S3cr3t/of+the client~42"


def knowing(*values):
    secrets = Secrets()
    secrets.add(*values)
    return secrets


@pytest.mark.covers("SEC-05", "OAU-44")
@pytest.mark.parametrize(
    "echo",
    [
        SECRET,
        f"the client sent {SECRET}!",
        SECRET.upper(),
        SECRET[:10],
        SECRET[8:],
        quote(SECRET),
        quote_plus(SECRET),
        quote(quote(SECRET)[:-1]),
        "\n".join(SECRET),
        SECRET.replace("/", "\\/"),
        b64encode(SECRET.encode()).decode(),
        b64encode(f"reports:{quote_plus(SECRET)}".encode()).decode(),
        "Basic " + b64encode(f"a:{SECRET}".encode()).decode().rstrip("="),
        "x" + urlsafe_b64encode(SECRET.encode()).decode(),
        quote(b64encode(SECRET.encode()).decode()),
        "x" * 180 + SECRET,
    ],
)
def test_a_secret_is_found_however_it_is_repeated(echo):
    assert knowing("another", SECRET).quoted(echo) == LEFT_OUT


@pytest.mark.covers("SEC-05")
@pytest.mark.parametrize(("secret", "echo"), [("p4ss", "it was p4ss."), ("!?!?", "it was !?!?"), ("pâss", "P\u00c2SS")])
def test_a_short_secret_is_found_as_a_whole(secret, echo):
    assert knowing(secret).quoted(echo) == LEFT_OUT


@pytest.mark.covers("SEC-05")
def test_what_has_no_secret_is_quoted_short_and_printable():
    secrets = knowing(SECRET, "p4ss", "s", None)
    assert secrets.quoted("This application is\nunknown\x1b[1m (AADSTS700016), YWJjZGVmZ2g=") == (
        "This application is unknown [1m (AADSTS700016), YWJjZGVmZ2g="
    )
    assert len(secrets.quoted("x" * 1000)) == 200
    assert SECRET not in repr(secrets)


def test_only_the_latest_secrets_are_kept():
    secrets = knowing(*(f"secret-{number:08}" for number in range(MAX_SECRETS + 1)))
    assert not secrets.are_in("secret-")
    assert not secrets.are_in("00000000")
    assert secrets.are_in("secret-00000001")
