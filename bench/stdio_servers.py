"""The servers that `stdio.py` measures, each the smallest of its kind.

python stdio_servers.py (bare|bare-asyncio|dragoman|mcp)
"""

import os
import sys
from collections.abc import Callable
from importlib import import_module
from typing import Any


async def add(a: int, b: int) -> int:
    """Adds two numbers."""
    return a + b


def add_in_thread(a: int, b: int) -> int:
    """Adds two numbers, in a worker thread where the library has them."""
    return a + b


def add_inline(a: int, b: int) -> int:
    """Adds two numbers in place."""
    return a + b


def unchecked_answers() -> Callable[[bytes], bytes]:
    """Return a function from a chunk of requests to their answers: decode, call, encode, and nothing is checked."""
    from msgspec import Struct, json

    class Arguments(Struct):
        a: int
        b: int

    class Params(Struct):
        arguments: Arguments | None = None

    class Request(Struct):
        id: int | None = None
        params: Params | None = None

    class Text(Struct):
        text: str
        type: str = "text"

    class Result(Struct):
        content: list[Text]
        structuredContent: dict[str, int]  # noqa: N815 - as it is written on the wire

    class Response(Struct):
        id: int
        result: Result | dict[str, str]
        jsonrpc: str = "2.0"

    decode, encode = json.Decoder(Request).decode, json.Encoder().encode
    rest = b""

    def answer(chunk: bytes) -> bytes:
        nonlocal rest
        *lines, rest = (rest + chunk).split(b"\n")
        answers: list[bytes] = []
        for line in lines:
            request = decode(line)
            if request.id is None:
                continue
            result: Result | dict[str, str] = {}
            if request.params is not None and request.params.arguments is not None:
                total = add_inline(request.params.arguments.a, request.params.arguments.b)
                result = Result([Text(str(total))], {"result": total})
            answers.append(encode(Response(request.id, result)) + b"\n")
        return b"".join(answers)

    return answer


def bare() -> None:
    """Read, answer, write, in a loop."""
    answer = unchecked_answers()
    while chunk := os.read(0, 1 << 18):
        write_all(answer(chunk))


def bare_asyncio() -> None:
    """Read, answer, write, by callbacks of an event loop."""
    import asyncio

    answer = unchecked_answers()

    async def serve() -> None:
        ended = asyncio.Event()

        class Input(asyncio.Protocol):
            def data_received(self, data: bytes) -> None:
                write_all(answer(data))

            def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - the loop gives it
                ended.set()

        await asyncio.get_running_loop().connect_read_pipe(Input, sys.stdin)
        await ended.wait()

    asyncio.run(serve())


def write_all(data: bytes) -> None:
    """Write to stdout, however many pieces it takes."""
    view = memoryview(data)
    while view:
        view = view[os.write(1, view) :]


def dragoman() -> None:
    """Serve the three kinds of tools that dragoman has."""
    from dragoman import Server

    server = Server("bench")
    server.tool(add)
    server.tool(add_in_thread)
    server.tool(inline=True)(add_inline)
    server.run()


def mcp() -> None:
    """Serve the two kinds of tools that the official SDK has."""
    server: Any = import_module("mcp.server.mcpserver").MCPServer("bench", log_level="ERROR")
    server.add_tool(add)
    server.add_tool(add_in_thread)
    server.run("stdio")


if __name__ == "__main__":
    {"bare": bare, "bare-asyncio": bare_asyncio, "dragoman": dragoman, "mcp": mcp}[sys.argv[1]]()
