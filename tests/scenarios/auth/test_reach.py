"""Names that lead inside a private network: addresses are checked when the connection is made."""

import asyncio
import datetime as dt
import logging
import socket
import ssl
import time
from contextlib import asynccontextmanager

import aiohttp.connector
import pytest
from aiohttp import web
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from dragoman.auth import MemoryStorage, OAuth
from dragoman.auth.client.discovery import discover
from dragoman.auth.client.stored_records import AuthorizationServer, ClientInformation, Tokens
from dragoman.auth.fetcher import FetchedReply, Fetcher
from dragoman.errors import AuthError, InsecureUrl

pytestmark = pytest.mark.covers("SEC-07")

PUBLIC = "https://mcp.example.com/mcp"


@pytest.fixture
def names(monkeypatch):
    """Return where names lead; a list of answers is given one after the other, and the last one from then on."""
    known = {}
    real = socket.getaddrinfo

    def resolve(host, port, *around, **more):
        if host not in known:
            return real(host, port, *around, **more)
        answers = known[host]
        addresses = answers.pop(0) if len(answers) > 1 else answers[0]
        return [(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", (one, port)) for one in addresses]

    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    for variable in ("HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.delenv(variable, raising=False)
    return known


@asynccontextmanager
async def listening():
    """Listen on this machine, and count who comes."""
    came = []

    async def serve(reader, writer):
        came.append(writer.get_extra_info("sockname")[0])
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1], came
    finally:
        server.close()


@pytest.mark.parametrize("addresses", [["127.0.0.1"], ["127.0.0.1", "10.255.255.1"], ["169.254.169.254", "127.0.0.1"]])
@pytest.mark.parametrize("method", ["get", "post"])
async def test_a_name_that_leads_inside_is_not_connected_to(addresses, method, names):
    names["auth.example.com"] = [addresses]
    async with listening() as (port, came), Fetcher(server=PUBLIC) as fetch:
        url = f"https://auth.example.com:{port}/token"
        with pytest.raises(InsecureUrl, match=r"leads inside a private network, where https://mcp\.example\.com/mcp"):
            await (fetch.get(url) if method == "get" else fetch.post_form(url, {"code": "the-code"}, {}))
        assert not came


@pytest.mark.parametrize("host", ["①②⑦.⓪.⓪.①", "\uff11\uff12\uff17。0。0。1", "127.0.0.1", "[::ffff:127.0.0.1]"])
async def test_an_address_that_is_spelled_as_no_check_expects_it_is_not_connected_to(host, names):
    async with listening() as (port, came), Fetcher(server=PUBLIC) as fetch:
        with pytest.raises(InsecureUrl, match="leads inside a private network"):
            await fetch.get(f"https://{host}:{port}/")
        assert not came


async def test_a_name_that_leads_elsewhere_at_each_look_is_not_connected_to_inside(names):
    names["auth.example.com"] = [["192.0.2.1"], ["127.0.0.1"]]
    async with listening() as (port, came), Fetcher(server=PUBLIC) as fetch:
        assert socket.getaddrinfo("auth.example.com", port)[0][4][0] == "192.0.2.1"
        with pytest.raises(InsecureUrl, match="leads inside"):
            await fetch.get(f"https://auth.example.com:{port}/")
        assert not came


@pytest.mark.parametrize("was_inside", [False, True])
async def test_a_refresh_token_goes_inside_only_for_a_server_that_was_found_there(was_inside, names, caplog):
    names["auth.example.com"] = [["127.0.0.1"]]
    own = MemoryStorage()
    auth = OAuth(storage=own)
    async with listening() as (port, came):
        keeper = auth.bind(PUBLIC)
        authority = AuthorizationServer(
            issuer="https://auth.example.com",
            resource=PUBLIC,
            token_endpoint=f"https://auth.example.com:{port}/token",
            in_private_network=was_inside,
        )
        await keeper.save_client(ClientInformation(client_id="c", issuer=authority.issuer))
        await keeper.save_tokens(
            Tokens(access_token="old", refresh_token="r", expires_at=time.time() - 1, authorization_server=authority)
        )
        with caplog.at_level(logging.WARNING):
            await auth.headers("POST", PUBLIC)
        assert bool(came) is was_inside
        assert ("leads inside a private network" in caplog.text) is not was_inside


def certificates(*hosts):
    """Return contexts for a server with these names, and for clients that trust it."""
    key, now = ec.generate_private_key(ec.SECP256R1()), dt.datetime.now(dt.UTC)
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "test")])
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(days=1))
        .not_valid_after(now + dt.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(host) for host in hosts]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    private = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    return made.public_bytes(serialization.Encoding.PEM), key.private_bytes(*private)


served = {}


async def answer(request):
    return web.json_response(served)


@asynccontextmanager
async def serving_https(folder, monkeypatch, *hosts):
    """Serve a document over https as some hosts, and let clients trust that."""
    certificate, key = certificates(*hosts)
    (folder / "both.pem").write_bytes(certificate + key)
    own = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    own.load_cert_chain(folder / "both.pem")
    trusting = ssl.create_default_context(cadata=certificate.decode())
    monkeypatch.setattr(aiohttp.connector, "_SSL_CONTEXT_VERIFIED", trusting)
    app = web.Application()
    app.router.add_get("/{path:.*}", answer)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=own).start()
        yield runner.addresses[0][1]
    finally:
        await runner.cleanup()


async def test_a_server_that_is_inside_itself_may_name_an_authorization_server_there(names, tmp_path, monkeypatch):
    names["mcp.internal"] = names["auth.internal"] = [["127.0.0.1"]]
    async with (
        serving_https(tmp_path, monkeypatch, "mcp.internal", "auth.internal") as port,
        Fetcher(server=f"https://mcp.internal:{port}/mcp") as fetch,
    ):
        with pytest.raises(InsecureUrl, match="leads inside"):
            await fetch.get(f"https://auth.internal:{port}/")
        assert (await fetch.get(f"https://mcp.internal:{port}/")).status == 200
        assert fetch.in_private_network
        assert (await fetch.get(f"https://auth.internal:{port}/")).status == 200


@pytest.mark.covers("OAU-45")
@pytest.mark.parametrize("is_named", [True, False])
async def test_an_issuer_that_the_author_names_may_be_inside(is_named, names, tmp_path, monkeypatch):
    names["auth.internal"] = [["127.0.0.1"]]
    async with serving_https(tmp_path, monkeypatch, "auth.internal") as port:
        issuer = f"https://auth.internal:{port}"
        served.update({"issuer": issuer, "token_endpoint": f"{issuer}/token"})
        fetch = Told({"resource": PUBLIC, "authorization_servers": [issuer]})
        async with fetch:
            found = discover(fetch, PUBLIC, None, allowed_issuer=issuer if is_named else None)
            if is_named:
                assert (await found).in_private_network
            else:
                with pytest.raises(InsecureUrl, match="give it as issuer="):
                    await found
    served.clear()


class Told(Fetcher):
    """Reaches a server that is public, which there is none of here, and everything else for real."""

    def __init__(self, metadata):
        super().__init__(server=PUBLIC)
        self.metadata = metadata

    async def get(self, url):
        return (
            FetchedReply(200, {}, self.metadata)
            if url.startswith("https://mcp.example.com/")
            else await super().get(url)
        )


async def test_a_server_whose_name_leads_inside_without_proof_is_not_taken_for_one_there(names, tmp_path, monkeypatch):
    names["mcp.example.com"] = names["auth.internal"] = [["127.0.0.1"]]
    async with (
        serving_https(tmp_path, monkeypatch, "auth.internal") as port,
        Fetcher(server=f"https://mcp.example.com:{port}/mcp") as fetch,
    ):
        with pytest.raises(AuthError, match="cannot be asked"):
            await fetch.get(f"https://mcp.example.com:{port}/")
        with pytest.raises(InsecureUrl, match="leads inside"):
            await fetch.get(f"https://auth.internal:{port}/")
