"""A server in a Starlette or FastAPI application: its lifespan, and the routes of the application."""

import subprocess
import sys
import textwrap

import pytest
from fastapi import FastAPI
from starlette.applications import Starlette
from starlette.routing import Mount, Route
from starlette.testclient import TestClient

from dragoman import Server
from ports import free_port
from scenarios.http_peer import HttpPeer

DEADLINE = 30
HOST = """
    import sys
    from contextlib import asynccontextmanager

    import uvicorn
    from starlette.applications import Starlette
    from starlette.routing import Mount, Route

    from dragoman import Server

    async def opened():
        try:
            yield
        finally:
            print("closed", flush=True)

    mcp = Server("shop", lifespan=opened).asgi()

    @asynccontextmanager
    async def lifespan(app):
        await mcp.start()
        print("opened", flush=True)
        try:
            yield
        finally:
            await mcp.close()

    host = Starlette(routes=[Mount("/", mcp)], lifespan=lifespan)
    uvicorn.run(host, port=int(sys.argv[1]), log_level="warning")
"""


def test_host_lifespan_closes_the_server_on_sigterm(tmp_path):
    port = free_port()
    command = [sys.executable, "-c", textwrap.dedent(HOST), str(port)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=tmp_path) as host:
        assert host.stdout is not None
        assert host.stdout.readline() == "opened\n"
        host.terminate()
        assert host.communicate(timeout=DEADLINE)[0] == "closed\n"


async def test_lifespan_that_begins_with_the_first_request_is_logged_once(caplog):
    async def opened():
        yield

    app = Server("shop", lifespan=opened).asgi()
    host = Starlette(routes=[Mount("/", app)])
    peer = HttpPeer(host, "2026-07-28")
    for _ in range(2):
        await peer.request("tools/list")
    await app.close()
    [warning] = [text for record in caplog.records if "lifespan" in (text := record.getMessage())]
    assert warning.startswith("The lifespan of the server 'shop' begins with its first request")
    assert "Call `await app.start()` and `await app.close()` in the lifespan of the host" in warning


async def test_started_application_logs_no_warning_about_its_lifespan(caplog):
    async def opened():
        yield

    app = Server("shop", lifespan=opened).asgi()
    await app.start()
    await HttpPeer(app, "2026-07-28").request("tools/list")
    await app.close()
    assert "await app.start()" not in caplog.text


INITIALIZE = {
    "protocolVersion": "2025-11-25",
    "capabilities": {},
    "clientInfo": {"name": "test", "version": "0"},
}


def rest_application(*routes: Route) -> FastAPI:
    app = FastAPI(routes=list(routes))

    @app.get("/items")
    def items() -> list[str]:
        return ["pear"]

    return app


@pytest.mark.parametrize(
    ("method", "path"), [("GET", "/items"), ("GET", "/items/"), ("POST", "/items"), ("GET", "/unknown"), ("PUT", "/")]
)
def test_mcp_route_does_not_change_the_rest_routes(method, path):
    with_mcp = rest_application(Route("/mcp", Server("shop").asgi()))
    answers = [TestClient(app, follow_redirects=False).request(method, path) for app in (rest_application(), with_mcp)]
    plain, beside = [(answer.status_code, answer.headers, answer.content) for answer in answers]
    assert beside == plain


def test_mcp_route_is_not_in_the_openapi_document():
    app = rest_application(Route("/mcp", Server("shop").asgi()))
    assert list(app.openapi()["paths"]) == ["/items"]


@pytest.mark.parametrize("path", ["/mcp", "/tools/mcp"])
def test_server_answers_at_its_route(path):
    app = rest_application(Route(path, Server("shop").asgi(path, allowed_hosts=["testserver"])))
    message = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": INITIALIZE}
    response = TestClient(app).post(path, json=message, headers={"accept": "application/json, text/event-stream"})
    assert response.json()["result"]["serverInfo"]["name"] == "shop"
