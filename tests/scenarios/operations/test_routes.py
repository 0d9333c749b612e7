"""Routes and mounted applications beside MCP, over every carrier of HTTP."""

import asyncio
import logging

import aiohttp
import pytest

from dragoman import AsyncClient, Server
from dragoman.server import Response
from scenarios.http.test_uvicorn import running
from scenarios.http_crew import DEADLINE
from scenarios.http_routes import CARRIERS, browsing, shop

BIG = b"x" * 5000


@pytest.mark.parametrize("carrier", CARRIERS)
async def test_routes_and_applications_are_served_beside_mcp(carrier):
    async with browsing(carrier) as (http, url):
        async with http.put(f"{url}/orders/7?a=1", json={"b": 2}) as put:
            assert (put.status, put.content_type) == (200, "application/json")
            assert await put.json() == {"id": "7", "query": {"a": "1"}, "sent": {"b": 2}, "loop": False}
        async with http.get(f"{url}/page") as page:
            assert (page.status, await page.text()) == (203, "<h1>Page</h1>")
            assert (page.headers["x-from"], page.content_type) == ("page", "text/html")
        async with http.head(f"{url}/page") as head:
            assert (head.status, head.headers["content-length"], await head.read()) == (203, "13", b"")
        async with http.post(f"{url}/hook", data=b"event") as hooked:
            assert (hooked.status, await hooked.read()) == (204, b"")
        async with http.get(f"{url}/admin/parts") as parts:
            assert (parts.status, await parts.text()) == (201, "0 1 2 ")
        async with http.post(f"{url}/admin/echo", data=b"body") as echoed:
            root = "/api/admin" if carrier == "mounted" else "/admin"
            assert (echoed.status, await echoed.text()) == (200, f"{root} {root}/echo body")
        async with AsyncClient(f"{url}/mcp", auth="right") as client:
            assert (await client.call_tool("add", {"a": 1, "b": 2})).text == "3"


@pytest.mark.parametrize("carrier", CARRIERS)
async def test_what_a_route_does_not_serve_is_refused_with_the_status_of_http(carrier):
    async with browsing(carrier) as (http, url):
        async with http.post(f"{url}/page") as refused:
            assert (refused.status, refused.headers["allow"]) == (405, "GET, HEAD")
        async with http.get(f"{url}/nowhere") as missing:
            assert missing.status == 404
        async with http.get(f"{url}/admin/nowhere") as missing:
            assert (missing.status, await missing.text()) == (404, "Not Found")
        async with http.put(f"{url}/orders/7", data=b"[1]") as invalid:
            assert invalid.status == 400
            assert "not the expected JSON" in await invalid.text()
        for path in ("hook", "admin/echo"):
            async with http.post(f"{url}/{path}", data=BIG) as large:
                assert (large.status, await large.text()) == (413, "The body has more than 4096 bytes")
        for path in ("broken", "admin/fails"):
            async with http.get(f"{url}/{path}") as failed:
                assert failed.status == 500
                assert "secret" not in await failed.text()
        async with http.get(f"{url}/page") as page:
            assert page.status == 203


@pytest.mark.parametrize("carrier", ["run", "mounted"])
async def test_a_route_is_public_unless_it_says_otherwise_and_hosts_and_origins_are_checked(carrier):
    async with browsing(carrier) as (http, url):
        async with http.get(f"{url}/secret") as denied:
            assert denied.status == 401
            assert denied.headers["www-authenticate"].startswith("Bearer")
        async with http.get(f"{url}/secret", headers={"authorization": "Bearer right"}) as admitted:
            assert (admitted.status, await admitted.text()) == (200, "for alice")
        for path in ("page", "admin/parts"):
            async with http.get(f"{url}/{path}", headers={"host": "evil.example.com"}) as rebound:
                assert rebound.status in (400, 403, 421)
            async with http.get(f"{url}/{path}", headers={"origin": "https://evil.example.com"}) as foreign:
                assert foreign.status == 403
                assert "access-control-allow-origin" not in foreign.headers
        for path in ("healthz", "readyz"):
            async with http.get(f"{url}/{path}", headers={"host": "10.1.2.3"}) as probed:
                assert probed.status == 200


@pytest.mark.parametrize("carrier", ["run", "mounted"])
async def test_a_page_of_an_allowed_origin_may_use_a_route(carrier):
    origin = {"origin": "https://app.example.com"}
    async with browsing(carrier) as (http, url):
        asked = origin | {"access-control-request-method": "PUT"}
        async with http.options(f"{url}/orders/7", headers=asked) as preflight:
            assert preflight.status == 204
            assert preflight.headers["access-control-allow-methods"] == "GET, HEAD, PUT"
        async with http.get(f"{url}/page", headers=origin) as page:
            assert page.headers["access-control-allow-origin"] == "https://app.example.com"


async def test_an_error_of_a_route_is_reported_with_its_place(caplog):
    reported = []
    module = shop()
    module.server.configuration = module.server.configuration.over(
        type(module.server.configuration)(exception_reporter=lambda error, info: reported.append((str(error), info)))
    )
    async with running(module.server.asgi(auth=module.who)) as port, aiohttp.ClientSession() as http:
        async with http.get(f"http://127.0.0.1:{port}/broken") as failed:
            assert failed.status == 500
        async with http.get(f"http://127.0.0.1:{port}/admin/fails") as failed:
            assert failed.status == 500
    assert reported == [
        ("a secret text", {"place": "GET /broken"}),
        ("a secret text", {"place": "the application at /admin"}),
    ]


async def test_a_route_that_is_registered_after_the_application_was_made_is_served():
    server = Server("late")
    app = server.asgi()

    @server.route("/late")
    def late() -> str:
        return "here"

    assert await asked(app, "GET", "/late") == (200, b"here")
    assert await asked(app, "HEAD", "/late") == (200, b"")


async def test_the_author_may_have_another_health_and_two_functions_for_one_path():
    server = Server("own")

    @server.route("/healthz")
    def health() -> Response:
        return Response({"mine": True}, 418)

    @server.route("/readyz", "POST")
    def ready() -> str:
        return "posted"

    app = server.asgi(health=True)
    assert await asked(app, "GET", "/healthz") == (418, b'{"mine":true}')
    assert await asked(app, "POST", "/readyz") == (200, b"posted")
    assert (await asked(app, "GET", "/readyz"))[0] == 405


async def test_an_application_learns_that_its_client_is_gone():
    server, gone, began = Server("gone"), asyncio.Event(), asyncio.Event()

    async def endless(scope, receive, send):
        await receive()
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"begun", "more_body": True})
        began.set()
        assert (await receive())["type"] == "http.disconnect"
        gone.set()

    server.mount_asgi("/", endless)
    async with running(server.asgi()) as port:
        _, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET /x HTTP/1.1\r\nhost: localhost\r\n\r\n")
        await asyncio.wait_for(began.wait(), DEADLINE)
        writer.close()
        await asyncio.wait_for(gone.wait(), DEADLINE)
        await writer.wait_closed()


async def test_an_application_that_does_not_answer_gives_a_status(caplog):
    server = Server("silent")

    async def silent(scope, receive, send): ...

    server.mount_asgi("/silent", silent)
    with caplog.at_level(logging.ERROR):
        assert await asked(server.asgi(), "GET", "/silent") == (500, b"")


async def test_in_development_a_client_sees_the_exception_of_a_route():
    server = Server("open", debug=True)

    @server.route("/broken")
    def broken() -> str:
        raise ValueError("for the author")

    status, body = await asked(server.asgi(), "GET", "/broken")
    assert status == 500
    assert body.startswith(b"ValueError: for the author (")
    assert b"test_routes.py, line " in body


async def asked(app, method: str, path: str) -> tuple[int, bytes]:
    """Ask an application in this process."""
    sent = []

    async def receive():
        return {"type": "http.request", "body": b""}

    async def send(message):
        sent.append(message)

    scope = {"type": "http", "method": method, "path": path, "headers": [(b"host", b"localhost")], "query_string": b""}
    await asyncio.wait_for(app(scope, receive, send), DEADLINE)
    return sent[0]["status"], b"".join(message.get("body", b"") for message in sent[1:])
