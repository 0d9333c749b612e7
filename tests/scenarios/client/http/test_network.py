"""A client behind a proxy, and with certificates of its own."""

import asyncio
import shutil
import ssl
import subprocess
from pathlib import Path

import aiohttp
import pytest

from dragoman import AsyncClient
from dragoman.client import Network
from dragoman.errors import ConnectError, TransportError
from dragoman.transports.web import http
from scenarios.http_peer import DEADLINE
from scenarios.raw_http import RawServer, answering, called, fine, modern, reply, result, saying

HOST = "mcp.example"


# Proxies.


async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while piece := await reader.read(65536):
        writer.write(piece)
        await writer.drain()
    writer.close()


class Proxy:
    """A proxy before one server, whatever host is named: by CONNECT, or by the whole address."""

    def __init__(self, server: RawServer, *, status: int = 200) -> None:
        self.heads: list[str] = []
        self._behind = server
        self._status = status
        self._serving: set[asyncio.Task] = set()

    async def _watched(self, reader, writer) -> None:
        self._serving.add(asyncio.current_task())
        try:
            await self._serve(reader, writer)
        except (OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            writer.close()
            self._serving.discard(asyncio.current_task())

    async def _serve(self, reader, writer) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        self.heads.append(head.decode())
        if self._status != 200:
            writer.write(reply(self._status))
            return
        there, out = await asyncio.open_connection("127.0.0.1", self._behind.port)
        try:
            if head.startswith(b"CONNECT"):
                writer.write(b"HTTP/1.1 200 Connected\r\n\r\n")
            else:
                out.write(head.replace(f"http://{HOST}".encode(), b"", 1))
            await asyncio.gather(pump(reader, out), pump(there, writer))
        finally:
            out.close()

    async def __aenter__(self) -> "Proxy":
        self._server = await asyncio.start_server(self._watched, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_) -> None:
        self._server.close()
        for task in list(self._serving):
            task.cancel()
        if self._serving:
            await asyncio.wait(list(self._serving), timeout=DEADLINE)


@pytest.mark.covers("CHT-21")
async def test_requests_go_through_a_proxy_with_its_credentials():
    async with answering(modern(fine)) as server, Proxy(server) as proxy:
        network = Network(proxy=f"http://me:secret@127.0.0.1:{proxy.port}")
        async with AsyncClient(f"http://{HOST}/mcp", mode="stateless", network=network, auth="mine") as client:
            assert (await client.call_tool("any")).text == "done"
    assert proxy.heads[0].startswith(f"POST http://{HOST}/mcp HTTP/1.1\r\n")
    assert "Proxy-Authorization: Basic bWU6c2VjcmV0" in proxy.heads[0]
    assert server.requests[0].headers["authorization"] == "Bearer mine"


@pytest.mark.covers("CHT-21")
@pytest.mark.parametrize("trusts", [True, False])
async def test_the_proxy_of_the_environment_is_taken_where_it_is_trusted(trusts, monkeypatch):
    async with answering(modern(fine)) as server, Proxy(server) as proxy:
        monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{proxy.port}")
        monkeypatch.delenv("no_proxy", raising=False)
        monkeypatch.delenv("NO_PROXY", raising=False)
        client = AsyncClient("http://mcp.invalid/mcp", mode="stateless", network=Network(trust_env=trusts))
        if trusts:
            await client.start()
        else:
            with pytest.raises(ConnectError, match="is the address right"):
                await client.start()
        await client.stop()
    assert [head.split("\r\n")[0] for head in proxy.heads] == ["POST http://mcp.invalid/mcp HTTP/1.1"] * trusts


@pytest.mark.covers("CHT-31")
async def test_the_environment_is_asked_once_for_a_connection_and_no_thread_for_a_request(monkeypatch):
    asked = []

    def ask(*given):
        asked.append(given)
        return found(*given)

    found = http.proxy_for
    monkeypatch.setattr(http, "proxy_for", ask)
    async with answering(modern(fine)) as server, AsyncClient(server.url, mode="stateless") as client:
        for _ in range(5):
            await client.call_tool("any")
        assert asyncio.get_running_loop()._default_executor is None
    assert len(asked) == 1


@pytest.mark.covers("CHT-21", "CHT-17")
async def test_a_proxy_that_refuses_or_is_not_there_is_named_as_the_cause(authority):
    async with answering(modern(fine)) as server, Proxy(server, status=407) as proxy:
        gone = Network(proxy="http://127.0.0.1:1")
        for network in (Network(proxy=f"http://me:secret@127.0.0.1:{proxy.port}"), gone):
            client = AsyncClient(f"https://{HOST}/mcp", mode="stateless", network=network)
            with pytest.raises(ConnectError, match="is the proxy right") as caught:
                await client.start()
            assert "secret" not in str(caught.value)
            await client.stop()
        assert proxy.heads[0].startswith(f"CONNECT {HOST}:443 HTTP/1.1\r\n")
        assert not server.requests


# Certificates.


class Authority:
    """Certificates made for a test, by the openssl command."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        # From Python 3.13 on the use of the key and the authority must be named.
        usage = ("-addext", "keyUsage=critical,keyCertSign,cRLSign")
        self._run(
            "req", "-x509", "-days", "2", "-subj", "/CN=test authority", *usage, *self._new("ca"), "-out", "ca.pem"
        )
        for name in ("server", "client"):
            self._run("req", "-subj", f"/CN={name}", *self._new(name), "-out", f"{name}.csr")
            names = f"subjectAltName=IP:127.0.0.1,DNS:{HOST}\nauthorityKeyIdentifier=keyid\n"
            (folder / "names").write_text(names)
            signing = ("-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-extfile", "names")
            self._run("x509", "-req", "-days", "2", "-in", f"{name}.csr", *signing, "-out", f"{name}.pem")

    def _new(self, name: str) -> tuple[str, ...]:
        return ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-keyout", f"{name}.key")

    def _run(self, *arguments: str) -> None:
        subprocess.run(["openssl", *arguments], cwd=self.folder, check=True, capture_output=True, timeout=60)

    def server(self, *, wants_client: bool = False) -> ssl.SSLContext:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(self.folder / "ca.pem"))
        context.load_cert_chain(self.folder / "server.pem", self.folder / "server.key")
        context.verify_mode = ssl.CERT_REQUIRED if wants_client else ssl.CERT_NONE
        return context

    def client(self, *, certified: bool = False) -> ssl.SSLContext:
        context = ssl.create_default_context(cafile=str(self.folder / "ca.pem"))
        if certified:
            context.load_cert_chain(self.folder / "client.pem", self.folder / "client.key")
        return context


@pytest.fixture(scope="module")
def authority(tmp_path_factory) -> Authority:
    if shutil.which("openssl") is None:
        pytest.skip("certificates are made with the openssl command, which is not there")
    return Authority(tmp_path_factory.mktemp("certificates"))


@pytest.mark.covers("CHT-29")
async def test_a_certificate_of_an_authority_of_ones_own_is_trusted_when_told_so(authority):
    async with answering(modern(fine), authority.server()) as server:
        network = Network(ssl=authority.client())
        async with AsyncClient(server.url, mode="stateless", network=network) as client:
            assert (await client.call_tool("any")).text == "done"


@pytest.mark.covers("CHT-29")
@pytest.mark.parametrize("module", ["asyncio", "uvloop"])
def test_long_answers_over_tls_arrive_on_every_loop_and_share_a_connection(authority, module):
    async def long(request, writer):
        return reply(200, result(request, called("x" * 1_000_000)))

    async def use():
        async with answering(modern(long), authority.server()) as server:
            network = Network(ssl=authority.client())
            async with AsyncClient(server.url, mode="stateless", network=network) as client:
                for _ in range(3):
                    assert len((await client.call_tool("any")).text) == 1_000_000
            assert server.connections == 1

    pytest.importorskip(module).run(asyncio.wait_for(use(), DEADLINE))


@pytest.mark.covers("CHT-29", "CHT-17")
async def test_a_certificate_that_is_not_trusted_is_no_connection_and_the_remedy_is_named(authority):
    async with answering(modern(fine), authority.server()) as server:
        client = AsyncClient(server.url, mode="stateless")
        with pytest.raises(ConnectError, match=r"certificate.*network=Network\(ssl=\.\.\.\)"):
            await client.start()
        await client.stop()
        assert not server.requests


@pytest.mark.covers("CHT-29")
@pytest.mark.parametrize("certified", [True, False])
async def test_a_server_may_want_a_certificate_of_the_client(authority, certified):
    async with answering(modern(fine), authority.server(wants_client=True)) as server:
        network = Network(ssl=authority.client(certified=certified))
        client = AsyncClient(server.url, mode="stateless", network=network)
        if certified:
            async with client:
                assert (await client.call_tool("any")).text == "done"
        else:
            with pytest.raises(TransportError):
                await client.start()
            await client.stop()
            assert not server.requests


@pytest.mark.covers("CHT-29", "CHT-21")
async def test_certificates_are_looked_at_through_a_proxy_too(authority):
    async with answering(modern(fine), authority.server()) as server, Proxy(server) as proxy:
        network = Network(proxy=f"http://127.0.0.1:{proxy.port}", ssl=authority.client())
        async with AsyncClient(f"https://{HOST}/mcp", mode="stateless", network=network, auth="mine") as client:
            assert (await client.call_tool("any")).text == "done"
    assert proxy.heads[0].startswith(f"CONNECT {HOST}:443")
    assert not [head for head in proxy.heads if "mine" in head]


@pytest.mark.covers("CHT-01")
async def test_a_session_of_the_author_serves_clients_and_outlives_them():
    async with answering(modern(fine)) as server, aiohttp.ClientSession() as session:
        for _ in range(2):
            async with AsyncClient(server.url, mode="stateless", network=Network(session=session)) as client:
                await client.call_tool("any")
            assert not session.closed
        assert server.connections == 1


@pytest.mark.covers("CHT-25")
async def test_credentials_never_go_to_another_origin():
    async with answering(modern(fine)) as other:
        async with answering(saying(reply(307, location=other.url))) as server:
            client = AsyncClient(server.url.replace("//", "//me:secret@"), mode="handshake", headers={"X-Key": "mine"})
            with pytest.raises(TransportError, match="which is not followed"):
                await client.start()
            await client.stop()
        assert other.connections == 0
