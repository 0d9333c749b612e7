"""What is refused before anything is sent."""

import subprocess
import sys

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

import dragoman.auth
from dragoman.auth import (
    Authorization,
    ClientCredentials,
    CrossAppAccess,
    MemoryStorage,
    OAuth,
    TokenExchange,
    WorkloadIdentity,
)
from dragoman.errors import (
    AuthError,
    InsecureRedirectUri,
    InsecureUrl,
    InvalidClientMetadataUrl,
    InvalidCredentials,
    UnregisteredRedirectUri,
)

CALLBACK = "http://127.0.0.1:3000/callback"


SECRET = "the-secret-that-nobody-sees"


def pem(key):
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()


@pytest.mark.covers("OAU-16")
def test_the_redirect_uri_must_be_one_of_the_clients_metadata():
    with pytest.raises(UnregisteredRedirectUri) as raised:
        OAuth(redirect_uri=CALLBACK, client_metadata={"redirect_uris": ["http://127.0.0.1:4000/callback"]})
    assert isinstance(raised.value, ValueError)
    OAuth(redirect_uri=CALLBACK, client_metadata={"redirect_uris": [CALLBACK]})
    OAuth(client_metadata={"redirect_uris": [CALLBACK]}, callback_handler=lambda: ("c", "s"))


@pytest.mark.covers("SEC-01", "OAU-45")
@pytest.mark.parametrize(
    "make",
    [
        OAuth,
        lambda **given: ClientCredentials("c", "s", **given),
        lambda **given: CrossAppAccess("c", "s", assertion_provider=lambda audience, resource: "a", **given),
        lambda **given: WorkloadIdentity("token", **given),
    ],
)
def test_an_issuer_that_is_not_secure_is_refused(make):
    with pytest.raises(InsecureUrl, match="issuer"):
        make(issuer="http://login.example.com")


@pytest.mark.covers("OAU-17", "LOA-11")
def test_an_unsafe_redirect_uri_is_refused():
    with pytest.raises(InsecureRedirectUri):
        OAuth(redirect_uri="http://example.com/callback")
    with pytest.raises(InsecureRedirectUri):
        OAuth(client_metadata={"redirect_uris": ["http://foo.localhost/callback"]})


@pytest.mark.covers("OAU-14")
def test_an_impossible_metadata_document_is_refused():
    with pytest.raises(InvalidClientMetadataUrl):
        OAuth(client_id_metadata_document_url="https://example.com/")


def test_a_callback_handler_needs_a_redirect_uri():
    with pytest.raises(ValueError, match="redirect_uri"):
        OAuth(callback_handler=lambda: ("c", "s"))


@pytest.mark.covers("CCR-02")
@pytest.mark.parametrize(
    ("client_id", "secret", "options"),
    [
        ("c", SECRET, {"token_endpoint_auth_method": "none"}),
        ("c", SECRET, {"token_endpoint_auth_method": "tls_client_auth"}),
        ("", SECRET, {}),
        ("  ", SECRET, {}),
        ("c", None, {}),
        ("c", " ", {}),
        ("c", SECRET, {"private_key": "x"}),
    ],
)
def test_credentials_that_cannot_be_used_are_refused(client_id, secret, options):
    with pytest.raises(InvalidCredentials) as raised:
        ClientCredentials(client_id, secret, **options)
    assert isinstance(raised.value, ValueError)
    assert SECRET not in str(raised.value)


@pytest.mark.covers("CCR-03")
@pytest.mark.parametrize(
    ("secret", "key", "algorithm"),
    [
        (SECRET, "good", "ES256"),
        (None, None, "ES256"),
        (None, "good", None),
        (None, "good", "HS256"),
        (None, "good", "RS256"),
        (None, "-----BEGIN PRIVATE KEY-----\nthe-secret\n-----END PRIVATE KEY-----", "ES256"),
        (None, "", "ES256"),
        (None, b"", "ES256"),
        (None, " ", "RS256"),
        (None, "public", "ES256"),
        (None, "P-384", "ES256"),
    ],
)
def test_a_key_that_cannot_sign_is_refused_at_once(secret, key, algorithm):
    private = ec.generate_private_key(ec.SECP256R1())
    keys = {
        "good": pem(private),
        "public": private.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode(),
        "P-384": pem(ec.generate_private_key(ec.SECP384R1())),
    }
    with pytest.raises(InvalidCredentials) as raised:
        ClientCredentials(
            "c",
            secret,
            token_endpoint_auth_method="private_key_jwt",
            private_key=keys.get(key, key),
            signing_algorithm=algorithm,
        )
    assert "the-secret" not in str(raised.value)


@pytest.mark.covers("CCR-06")
def test_access_across_applications_needs_every_piece():
    with pytest.raises(InvalidCredentials):
        CrossAppAccess("", SECRET, assertion_provider=lambda audience, resource: "x")
    with pytest.raises(InvalidCredentials):
        CrossAppAccess("c", " ", assertion_provider=lambda audience, resource: "x")
    with pytest.raises(InvalidCredentials):
        CrossAppAccess("c", SECRET, assertion_provider="x")
    with pytest.raises(InsecureUrl):
        TokenExchange("http://idp.example.com/token", "id-token", client_id="c")
    with pytest.raises(InvalidCredentials):
        WorkloadIdentity(" ")


@pytest.mark.covers("SEC-01", "SEC-03")
async def test_credentials_belong_to_the_first_address_and_to_no_other():
    auth = ClientCredentials("c", SECRET, storage=MemoryStorage())
    with pytest.raises(InsecureUrl, match="must be https"):
        await auth.headers("POST", "http://example.com/mcp")
    assert await auth.headers("POST", "https://example.com/mcp?a=1&b=2") == {}
    assert await auth.headers("GET", "https://EXAMPLE.com:443/mcp?b=2&a=1") == {}
    for url in (
        "https://evil.example.com/mcp?a=1&b=2",
        "https://example.com/mcp",
        "https://example.com/other?a=1&b=2",
        "https://example.com:8443/mcp?a=1&b=2",
        "http://localhost/mcp?a=1&b=2",
    ):
        with pytest.raises(InsecureUrl) as raised:
            await auth.headers("POST", url)
        assert "a=1" not in str(raised.value)
        with pytest.raises(InsecureUrl):
            await auth.challenged(401, {}, "POST", url)


def test_the_names_of_the_room_are_there_and_load_late():
    assert all(getattr(dragoman.auth, name) for name in dragoman.auth.__all__)
    assert set(dragoman.auth.__all__) <= set(dir(dragoman.auth))
    with pytest.raises(AttributeError):
        _ = dragoman.auth.Nothing
    assert isinstance(OAuth(storage=MemoryStorage()), Authorization)
    script = "import sys, dragoman.auth; print('aiohttp' in sys.modules, 'joserfc' in sys.modules)"
    shown = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True)
    assert shown.stdout.split() == ["False", "False"]


@pytest.mark.covers("LOA-14")
def test_no_authorization_shows_its_secret():
    made = [
        ClientCredentials("c", SECRET),
        OAuth(client_id="c", client_secret=SECRET, storage=MemoryStorage()),
        WorkloadIdentity(SECRET),
        CrossAppAccess("c", SECRET, assertion_provider=lambda audience, resource: "x"),
    ]
    assert SECRET not in repr(made)
    assert not issubclass(AuthError, ValueError)
