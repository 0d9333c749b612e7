"""The Python servers that `streamable_http.py` measures, each the smallest of its kind, and served by uvicorn alike.

python http_servers.py SIDE PORT

dragoman is what `server.run("http")` serves, dragoman-asyncio the same where uvloop is not found, and dragoman-asgi the
same server as an application among others. A side that ends with -fastapi is mounted in a FastAPI with one middleware.
"""

import sys
from collections.abc import Callable
from importlib import import_module
from typing import Any

import tools

SERVER_INFO = {"io.modelcontextprotocol/serverInfo": {"name": "bench", "version": "1"}}
EVENT = (
    b'data: {"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"p","progress":%d,'
    b'"total":10}}\n\n'
)


def unchecked_answer() -> Callable[[bytes], bytes]:
    """Return a function from a call to the bytes that dragoman answers: decode, add, encode, and nothing is checked."""
    from msgspec import UNSET, Raw, Struct, UnsetType, field, json

    class Arguments(Struct):
        a: int = 0
        b: int = 0
        text: str | None = None

    class Params(Struct):
        arguments: Arguments
        meta: Raw = field(default=Raw(), name="_meta")

    class Request(Struct):
        id: int
        params: Params

    class Text(Struct):
        type: str
        text: str

    class Result(Struct):
        content: list[Text]
        structured: Any | UnsetType = field(name="structuredContent")

    class StatelessResult(Result):
        meta: Any = field(name="_meta")
        kind: str = field(name="resultType")

    class Response(Struct):
        jsonrpc: str
        id: int
        result: Result

    decode, encode = json.Decoder(Request).decode, json.Encoder().encode

    def answer(body: bytes) -> bytes:
        request = decode(body)
        arguments = request.params.arguments
        stateless = len(request.params.meta) > 0
        structured: Any = UNSET
        if arguments.text is not None:
            content = [Text("text", arguments.text)]
        else:
            total = arguments.a + arguments.b
            content = [Text("text", str(total))]
            structured = {"result": total}
        if stateless:
            return encode(Response("2.0", request.id, StatelessResult(content, structured, SERVER_INFO, "complete")))
        return encode(Response("2.0", request.id, Result(content, structured)))

    return answer


def bare() -> Any:
    """Return an application that reads, answers and writes."""
    answer = unchecked_answer()

    async def app(scope: Any, receive: Any, send: Any) -> None:  # noqa: ARG001
        pieces, more = [], True
        while more:
            message = await receive()
            pieces.append(message.get("body", b""))
            more = message.get("more_body", False)
        if b'"subscriptions/listen"' in pieces[0]:
            await listen(receive, send)
            return
        data = answer(b"".join(pieces))
        if b'"progressToken"' in pieces[0]:
            await stream(send, data)
            return
        head = [(b"content-type", b"application/json"), (b"content-length", str(len(data)).encode())]
        await send({"type": "http.response.start", "status": 200, "headers": head})
        await send({"type": "http.response.body", "body": data})

    async def stream(send: Any, data: bytes) -> None:
        head = [(b"content-type", b"text/event-stream")]
        await send({"type": "http.response.start", "status": 200, "headers": head})
        for step in range(1, tools.PROGRESS_EVENTS + 1):
            await send({"type": "http.response.body", "body": EVENT % step, "more_body": True})
        await send({"type": "http.response.body", "body": b"data: " + data + b"\n\n"})

    async def listen(receive: Any, send: Any) -> None:
        head = [(b"content-type", b"text/event-stream")]
        await send({"type": "http.response.start", "status": 200, "headers": head})
        await send({"type": "http.response.body", "body": b": open\n\n", "more_body": True})
        await receive()

    return app


def mounted(inner: Any) -> Any:
    """Return a FastAPI that serves an application, within the middleware that pages of other origins need."""
    fastapi: Any = import_module("fastapi")
    cors: Any = import_module("fastapi.middleware.cors")
    app = fastapi.FastAPI(lifespan=inner.router.lifespan_context if hasattr(inner, "router") else None)
    app.add_middleware(cors.CORSMiddleware, allow_origins=["https://app.example.com"])
    app.mount("/", inner)
    return app


def mcp(**options: Any) -> Any:
    """Return what the official SDK serves."""
    return tools.mcp().streamable_http_app(**options)


def fastmcp(**options: Any) -> Any:
    """Return what fastmcp serves."""
    return tools.fastmcp().http_app(path="/mcp", **options)


def main(side: str, port: str) -> None:
    """Serve one side."""
    if side == "dragoman-asyncio":
        sys.modules["uvloop"] = None  # type: ignore[assignment] # as if it were not installed
        side = "dragoman"
    if side == "dragoman":
        tools.dragoman().run("http", port=int(port))
        return
    import uvicorn

    apps: dict[str, Callable[[], Any]] = {
        "bare": bare,
        "dragoman-asgi": lambda: tools.dragoman().asgi(),
        "mcp": mcp,
        "mcp-stateless": lambda: mcp(stateless_http=True, json_response=True),
        "fastmcp": fastmcp,
        "fastmcp-stateless": lambda: fastmcp(stateless_http=True, json_response=True),
    }
    served = side.removesuffix("-fastapi")
    app = apps["dragoman-asgi" if served == "dragoman" else served]()
    if served != side:
        app = mounted(app)
    lifespan: Any = "off" if side in ("bare", "dragoman-asgi") else "on"
    uvicorn.run(
        app,
        port=int(port),
        log_level="warning",
        lifespan=lifespan,
        loop="uvloop",
        http="httptools",
        timeout_graceful_shutdown=1,
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
