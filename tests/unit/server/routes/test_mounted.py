"""`serve_mounted`: an ASGI application on an exchange."""

import asyncio

import pytest

from dragoman.server.routes.mounted import serve_mounted
from dragoman.transports.http.asgi import AsgiExchange


async def answered(app, method: str = "GET", root_path: str = "") -> list[dict]:
    """Let an application answer a request in this process, and return what is sent."""
    sent = []

    async def receive():
        await asyncio.Event().wait()

    async def send(message):
        sent.append(message)

    scope = {"type": "http", "method": method, "path": "/admin/x", "headers": [], "root_path": root_path}
    await serve_mounted(app, AsgiExchange(scope, receive, send), "/admin", b"body")
    return sent


async def test_one_body_and_its_head_are_sent_with_the_framing_of_the_server():
    seen = []

    async def app(scope, receive, send):
        seen.extend([scope["root_path"], await receive()])
        await send(
            {"type": "http.response.start", "status": 201, "headers": [(b"X-A", b"1"), (b"Content-Length", b"9")]}
        )
        await send({"type": "http.response.body", "body": b"abc"})
        seen.append(await receive())

    start, body = await answered(app, root_path="/api/")
    assert (start["status"], start["headers"]) == (201, [(b"x-a", b"1"), (b"content-length", b"3")])
    assert body["body"] == b"abc"
    assert seen == [
        "/api/admin",
        {"type": "http.request", "body": b"body", "more_body": False},
        {"type": "http.disconnect"},
    ]


@pytest.mark.parametrize(("method", "bodies"), [("GET", [b"a", b"b", b""]), ("HEAD", [b""])])
async def test_parts_are_sent_as_they_come_and_none_to_head(method, bodies):
    async def app(scope, receive, send):
        await send({"type": "http.response.start", "status": 200})
        for part in (b"a", b"b"):
            await send({"type": "http.response.body", "body": part, "more_body": True})
        await send({"type": "http.response.body"})
        await send({"type": "http.response.trailers"})

    start, *parts = await answered(app, method)
    assert start["status"] == 200
    assert b"content-length" not in dict(start["headers"])
    assert [part["body"] for part in parts] == bodies


async def test_an_application_without_an_answer_is_a_failure():
    async def app(scope, receive, send): ...

    assert (await answered(app))[0]["status"] == 500


async def test_an_exception_is_passed_on():
    async def app(scope, receive, send):
        raise ValueError("lost")

    with pytest.raises(ValueError, match="lost"):
        await answered(app)
