"""`/healthz` and `/readyz`: while a server starts, serves, loses its store, and drains."""

import asyncio
import contextlib
import signal
from typing import Any

import aiohttp
import pytest

from dragoman import Server, stores
from dragoman.errors import StoreUnavailable
from dragoman.server import ExtensionRow, ServerExtension
from scenarios.http.test_uvicorn import running, stateless
from scenarios.http_crew import DEADLINE, crew, until

WAITING = """
    import asyncio, os, sys
    from dragoman import Server

    server = Server("waiting")


    @server.tool
    async def wait(gate: str) -> str:
        open(f"{gate}-began", "w").close()
        while not os.path.exists(gate):
            await asyncio.sleep(0.01)
        return "waited"


    server.run("http", port=int(sys.argv[1]), workers=int(sys.argv[2]), health=True)
"""


async def probe(port: int, path: str) -> tuple[int, Any]:
    """Ask by a connection of its own."""
    connector = aiohttp.TCPConnector(force_close=True)
    async with (
        aiohttp.ClientSession(connector=connector, timeout=aiohttp.ClientTimeout(DEADLINE)) as http,
        http.get(f"http://127.0.0.1:{port}{path}") as response,
    ):
        return response.status, await response.json()


@pytest.mark.parametrize("workers", [1, 2])
async def test_a_server_that_drains_says_so_and_answers_what_it_has(workers):
    async with crew(workers, WAITING) as processes:
        await processes.ready()
        assert await probe(processes.port, "/healthz") == (200, {"status": "ok"})
        assert await probe(processes.port, "/readyz") == (200, {"status": "ok"})
        body, headers = stateless("tools/call", {"name": "wait", "arguments": {"gate": "gate"}})
        headers["accept"] = "application/json, text/event-stream"
        async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(DEADLINE)) as http:
            calling = asyncio.create_task(_text(http, processes.url, body, headers))
            await until((processes.folder / "gate-began").exists)
            processes.child.send_signal(signal.SIGTERM)

            async def drains() -> bool:
                with contextlib.suppress(aiohttp.ClientError):  # the connection of a worker that has ended
                    return (await probe(processes.port, "/readyz")) == (503, _UNREADY | {"reason": "draining"})
                return False

            await until(drains)
            assert await probe(processes.port, "/healthz") == (200, {"status": "ok"})
            assert not calling.done()
            (processes.folder / "gate").touch()
            assert "waited" in await calling
        assert await processes.ended() == 0
        assert processes.stderr == ""


_UNREADY = {"status": "unavailable"}


async def _text(http: aiohttp.ClientSession, url: str, body: bytes, headers: dict[str, str]) -> str:
    async with http.post(url, data=body, headers=headers) as response:
        return await response.text()


async def test_a_server_without_health_has_no_such_paths_and_methods_are_checked():
    async with (
        running(Server("a").asgi()) as port,
        aiohttp.ClientSession() as http,
        http.get(f"http://127.0.0.1:{port}/healthz") as missing,
    ):
        assert missing.status == 404
    async with running(Server("a").asgi(health=True)) as port, aiohttp.ClientSession() as http:
        async with http.post(f"http://127.0.0.1:{port}/readyz") as refused:
            assert (refused.status, refused.headers["allow"]) == (405, "GET, HEAD")
        async with http.head(f"http://127.0.0.1:{port}/readyz") as head:
            assert (head.status, head.headers["cache-control"]) == (200, "no-store")


class Away(stores.Memory):
    """A store that can be away."""

    is_away = False

    def state(self, namespace: str, **options: Any) -> Any:
        if self.is_away:
            raise StoreUnavailable("The store is away")
        return super().state(namespace, **options)


async def test_a_server_whose_store_is_away_is_not_ready_until_it_is_back():
    store = Away()
    async with running(Server("a", store=store).asgi(health=True)) as port:
        assert (await probe(port, "/readyz"))[0] == 200

        async def says(status: int, body: dict[str, str]) -> bool:
            return await probe(port, "/readyz") == (status, body)

        store.is_away = True
        await until(lambda: says(503, _UNREADY | {"reason": "store unreachable"}))
        assert (await probe(port, "/healthz"))[0] == 200
        store.is_away = False
        await until(lambda: says(200, {"status": "ok"}))


async def test_a_probe_begins_a_mounted_server_and_a_start_that_fails_is_not_ready(caplog):
    begun = []

    class Slow(ServerExtension):
        rows = (ExtensionRow(id="com.example/slow"),)

        @contextlib.asynccontextmanager
        async def serving(self, server):
            begun.append(server.name)
            if server.name == "broken":
                raise ValueError("no database")
            yield

    for name, status in (("fine", 200), ("broken", 503)):
        app = Server(name, extensions=[Slow()]).asgi(health=True)
        async with running(app, lifespan="off") as port:
            assert (await probe(port, "/readyz"))[0] == status
        await app.close()
    assert begun == ["fine", "broken"]
    assert "no database" in caplog.text
