"""`dragoman bridge` and `dragoman tap` between real clients and servers: over HTTP, and with a login."""

import asyncio
import contextlib
import sys
from urllib.parse import urlsplit

import aiohttp
import pytest

from auth.world import world
from dragoman import AsyncClient, Server
from dragoman.compose.session_file import SessionFile
from dragoman.errors import AuthError, DragomanError
from ports import free_port
from scenarios import proxied_server
from scenarios.command_line import BROWSER, environment
from scenarios.proxied_server import HANDSHAKE, converse, everything

DEADLINE = 60
server = Server("guarded")


@server.tool
def secret() -> str:
    """Tells a secret."""
    return "the tea is in the cellar"


@contextlib.asynccontextmanager
async def started(*words, home, **variables):
    """Start the command, and end it afterwards."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "dragoman", *words),
        env=environment(home, **variables),
        stderr=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    try:
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.terminate()
        await process.communicate()


@pytest.mark.parametrize("at_end", [True, False])
@pytest.mark.parametrize("mode", ["handshake", "stateless"])
async def test_a_command_is_served_over_http(at_end, mode, tmp_path):
    address = ["--http", f":{free_port()}"]
    command = ["--", sys.executable, proxied_server.__file__, "server", HANDSHAKE]
    words = [*command, *address] if at_end else [*address, *command]
    async with started("bridge", *words, home=tmp_path) as process, asyncio.timeout(DEADLINE):
        line = (await process.stderr.readline()).decode()
        assert "serving proxy" in line
        url = f"http://127.0.0.1{address[1]}/mcp"
        assert await converse(url, mode=mode) == await converse(everything(HANDSHAKE), mode="handshake")


async def test_a_person_logs_in_once_through_a_bridge_to_stdio(tmp_path):
    async with world() as there:
        there.inner = server.handle_json_async
        bridge = [sys.executable, "-m", "dragoman", "bridge", there.url]
        for _ in range(2):
            client = AsyncClient(bridge, env=environment(tmp_path, BROWSER=BROWSER))
            async with client:
                assert (await client.call_tool("secret")).text == "the tea is in the cellar"
        assert len(there.registrations) == 1


async def test_a_person_logs_in_through_a_bridge_to_http(tmp_path):
    async with world() as there:
        there.inner = server.handle_json_async
        port = free_port()
        words = ["bridge", there.url, "--http", f"127.0.0.1:{port}"]
        async with started(*words, home=tmp_path, BROWSER=BROWSER) as process, asyncio.timeout(DEADLINE):
            await process.stderr.readline()
            async with AsyncClient(f"http://127.0.0.1:{port}/mcp") as client:
                assert (await client.call_tool("secret")).text == "the tea is in the cellar"


@pytest.mark.parametrize("verb", ["tap", "bridge"])
async def test_a_page_cannot_use_the_login_of_a_person_through_a_tap_or_a_bridge(verb, tmp_path):
    async with world() as there, aiohttp.ClientSession() as page:
        there.inner = server.handle_json_async
        port = free_port()
        place = ["--login", "--listen"] if verb == "tap" else ["--http"]
        words = [verb, there.url, *place, f"127.0.0.1:{port}"]
        async with started(*words, home=tmp_path, BROWSER=BROWSER) as process, asyncio.timeout(DEADLINE):
            await (process.stdout if verb == "tap" else process.stderr).readline()
            url = f"http://127.0.0.1:{port}{urlsplit(there.url).path if verb == 'tap' else '/mcp'}"
            async with AsyncClient(url) as client:
                assert (await client.call_tool("secret")).text == "the tea is in the cellar"
            calls = len(there.requests)
            message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "secret"}}
            for headers, status in (
                ({"Host": f"rebound.example.com:{port}"}, 421),
                ({"Host": "rebound.example.com", "Origin": "http://rebound.example.com"}, 421),
                ({"Origin": "https://evil.example.com"}, 403),
                ({"Origin": "null"}, 403),
            ):
                sent = {"Accept": "application/json, text/event-stream", **headers}
                async with page.post(url, json=message, headers=sent) as response:
                    assert response.status == status
                    assert "cellar" not in await response.text()
            assert len(there.requests) == calls


async def test_a_tap_that_logs_in_refuses_an_address_that_other_machines_reach(tmp_path):
    words = ["tap", "https://api.example.com/mcp", "--login", "--listen", "0.0.0.0:0"]
    async with started(*words, home=tmp_path) as process, asyncio.timeout(DEADLINE):
        assert "--login needs a loopback address" in (await process.stderr.read()).decode()
        assert await process.wait() == 2


async def test_a_bridge_that_other_machines_reach_does_not_log_a_person_in(tmp_path):
    async with world() as there:
        there.inner = server.handle_json_async
        port = free_port()
        words = ["bridge", there.url, "--http", f"0.0.0.0:{port}"]
        async with started(*words, home=tmp_path, BROWSER=BROWSER) as process, asyncio.timeout(DEADLINE):
            await process.stderr.readline()
            with pytest.raises(DragomanError):
                async with AsyncClient(f"http://127.0.0.1:{port}/mcp") as client:
                    await client.call_tool("secret")
        assert there.registrations == []


async def test_a_tap_logs_in_for_its_host_and_the_session_file_has_no_token(tmp_path):
    path = tmp_path / "x.mcpsession"
    async with world() as there:
        there.inner = server.handle_json_async
        words = ["tap", there.url, "--login", "-o", str(path)]
        async with started(*words, home=tmp_path, BROWSER=BROWSER) as process, asyncio.timeout(DEADLINE):
            url = (await process.stdout.readline()).decode().strip()
            for _ in range(2):
                async with AsyncClient(url) as client:
                    assert (await client.call_tool("secret")).text == "the tea is in the cellar"
        assert len(there.registrations) == 1
    shown = "".join(str(record.as_json()) for record in SessionFile(path).records())
    assert "the tea is in the cellar" in shown
    assert not any(token in shown for token in there.access)


async def test_a_login_that_fails_is_told_to_the_host(tmp_path):
    async with world(is_dead=True) as there:
        words = ["tap", there.url, "--login", "-o", str(tmp_path / "x.mcpsession")]
        async with started(*words, home=tmp_path, BROWSER=BROWSER) as process, asyncio.timeout(DEADLINE):
            url = (await process.stdout.readline()).decode().strip()
            with pytest.raises(AuthError):
                async with AsyncClient(url) as client:
                    await client.call_tool("secret")
