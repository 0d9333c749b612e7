"""The Python servers that `streamable_http.py` measures, each the smallest of its kind, and served by uvicorn alike.

python http_servers.py (bare|dragoman|mcp|mcp-stateless) PORT
"""

import sys
from collections.abc import Callable
from importlib import import_module
from typing import Any

SERVER_INFO = {"io.modelcontextprotocol/serverInfo": {"name": "bench", "version": "1"}}


async def add(a: int, b: int) -> int:
    """Adds two numbers."""
    return a + b


def unchecked_answer() -> Callable[[bytes], bytes]:
    """Return a function from a call to the bytes that dragoman answers: decode, add, encode, and nothing is checked."""
    from msgspec import Raw, Struct, field, json

    class Arguments(Struct):
        a: int
        b: int

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
        structured: Any = field(name="structuredContent")

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
        total = request.params.arguments.a + request.params.arguments.b
        content = [Text("text", str(total))]
        if len(request.params.meta):
            return encode(Response("2.0", request.id, StatelessResult(content, total, SERVER_INFO, "complete")))
        return encode(Response("2.0", request.id, Result(content, {"result": total})))

    return answer


def bare() -> Any:
    """Return an application that reads, answers and writes."""
    answer = unchecked_answer()

    async def app(scope: Any, receive: Any, send: Any) -> None:  # noqa: ARG001
        body, more = b"", True
        while more:
            message = await receive()
            body += message.get("body", b"")
            more = message.get("more_body", False)
        data = answer(body)
        head = [(b"content-type", b"application/json"), (b"content-length", str(len(data)).encode())]
        await send({"type": "http.response.start", "status": 200, "headers": head})
        await send({"type": "http.response.body", "body": data})

    return app


def dragoman() -> Any:
    """Return what dragoman serves, to both eras."""
    from dragoman import Server

    server = Server("bench", version="1")
    server.tool(add)
    return server.asgi()


def mcp(**options: Any) -> Any:
    """Return what the official SDK serves."""
    server: Any = import_module("mcp.server.mcpserver").MCPServer("bench", log_level="ERROR")
    server.add_tool(add)
    return server.streamable_http_app(**options)


def main(side: str, port: str) -> None:
    """Serve one side."""
    import uvicorn

    apps: dict[str, Callable[[], Any]] = {
        "bare": bare,
        "dragoman": dragoman,
        "mcp": mcp,
        "mcp-stateless": lambda: mcp(stateless_http=True, json_response=True),
    }
    lifespan: Any = "on" if side.startswith("mcp") else "off"
    uvicorn.run(
        apps[side](),
        port=int(port),
        log_level="warning",
        lifespan=lifespan,
        loop="uvloop",
        http="httptools",
        timeout_graceful_shutdown=1,
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
