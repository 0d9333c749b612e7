"""The Python servers that `stdio.py` measures, each the smallest of its kind.

python stdio_servers.py (bare|bare-asyncio|bare-thread|dragoman|mcp|fastmcp) [MORE_TOOLS]
"""

import os
import sys
from collections.abc import Callable


def unchecked_answers() -> Callable[[bytes], bytes]:
    """Return a function from a chunk of requests to their answers: decode, call, encode, and nothing is checked."""
    from msgspec import Struct, json

    class Arguments(Struct):
        a: int = 0
        b: int = 0
        text: str | None = None

    class Params(Struct):
        arguments: Arguments | None = None

    class Request(Struct):
        id: int | None = None
        params: Params | None = None

    class Text(Struct):
        text: str
        type: str = "text"

    class Result(Struct, omit_defaults=True):
        content: list[Text]
        structuredContent: dict[str, int] | None = None  # noqa: N815 - as it is written on the wire

    class Response(Struct):
        id: int
        result: Result | dict[str, str]
        jsonrpc: str = "2.0"

    decode, encode = json.Decoder(Request).decode, json.Encoder().encode
    pieces: list[bytes] = []

    def result(arguments: Arguments) -> Result:
        if arguments.text is not None:
            return Result([Text(arguments.text)])
        total = arguments.a + arguments.b
        return Result([Text(str(total))], {"result": total})

    def answer(chunk: bytes) -> bytes:
        pieces.append(chunk)
        if b"\n" not in chunk:
            return b""
        *lines, rest = b"".join(pieces).split(b"\n")
        pieces[:] = [rest]
        answers: list[bytes] = []
        for line in lines:
            request = decode(line)
            if request.id is None:
                continue
            arguments = None if request.params is None else request.params.arguments
            answers.append(encode(Response(request.id, {} if arguments is None else result(arguments))) + b"\n")
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


def bare_thread() -> None:
    """Read and write by callbacks of an event loop, and answer in a thread: nothing less gets there and back."""
    import asyncio
    import threading

    answer = unchecked_answers()
    given: list[bytes] = []
    turn = threading.Lock()
    turn.acquire()

    async def serve() -> None:
        loop, ended = asyncio.get_running_loop(), asyncio.Event()
        event = os.eventfd(0)

        def write() -> None:
            os.eventfd_read(event)
            write_all(given.pop())

        def work() -> None:
            while turn.acquire():
                given.append(answer(given.pop()))
                os.eventfd_write(event, 1)

        class Input(asyncio.Protocol):
            def data_received(self, data: bytes) -> None:
                given.append(data)
                turn.release()

            def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - the loop gives it
                ended.set()

        loop.add_reader(event, write)
        threading.Thread(target=work, daemon=True).start()
        await loop.connect_read_pipe(Input, sys.stdin)
        await ended.wait()

    asyncio.run(serve())


def write_all(data: bytes) -> None:
    """Write to stdout, however many pieces it takes."""
    view = memoryview(data)
    while view:
        view = view[os.write(1, view) :]


def small_dragoman() -> None:
    """Serve as an author would write it; `tools.py` imports asyncio, which is not ours to count."""
    from dragoman import Server

    server = Server("bench")

    @server.tool
    async def add(a: int, b: int) -> int:
        """Adds two numbers."""
        return a + b

    server.run()


def served(side: str, more: int) -> None:
    """Serve every tool with a library."""
    import tools

    if side == "dragoman":
        tools.dragoman(more).run()
    elif side == "mcp":
        tools.mcp(more).run("stdio")
    else:
        tools.fastmcp(more).run("stdio", show_banner=False)


def main(side: str, more: str = "0") -> None:
    """Be one side."""
    programs = {"bare": bare, "bare-asyncio": bare_asyncio, "bare-thread": bare_thread}
    programs["small-dragoman"] = small_dragoman
    if side in programs:
        programs[side]()
    else:
        served(side, int(more))


if __name__ == "__main__":
    main(*sys.argv[1:])
