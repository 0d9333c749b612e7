"""Many clients call a server through a proxy, while the process of the server is killed and started again."""

import asyncio
import contextlib
import os
import signal
import socket
import sys
import textwrap
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from dragoman import AsyncClient, Server
from dragoman.errors import RpcError
from scenarios.proxied_http import serving_itself
from scenarios.raw_http import serving

CALLS = 10
KILLED_AFTER = (2, 5, 7)
PROGRAM = """
    import os, sys
    from dragoman import Server

    server = Server("counting")

    @server.tool
    async def count(number: int) -> int:
        with open(sys.argv[1], "a") as file:
            file.write(f"{number}\\n")
        return os.getpid()

    server.run(*sys.argv[2:3], **({"port": int(sys.argv[3])} if sys.argv[3:] else {}))
"""


async def call_while_the_target_is_killed(
    folder: Path, *, clients: int, kills: int, carriers: tuple[str, str] = ("asgi", "stdio")
) -> None:
    """Let clients of both eras call, and see that each call is answered once and served at most once.

    The proxy serves as an ASGI application or by itself ("http"), and its target on stdio or over HTTP.
    """
    program, book = folder / "counting.py", folder / "book"
    program.write_text(textwrap.dedent(PROGRAM))
    command = [sys.executable, str(program), str(book)]
    async with contextlib.AsyncExitStack() as stack:
        target = command if carriers[1] == "stdio" else await stack.enter_async_context(_running(command))
        await _call_through(Server.proxy(target), book, clients, kills, serving if carriers[0] == "asgi" else _own)


@contextlib.asynccontextmanager
async def _running(command: list[str]) -> AsyncIterator[str]:
    """Serve a program over HTTP, start it again whenever it ends, and give its URL."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    processes = []

    async def run() -> None:
        quiet = asyncio.subprocess.DEVNULL
        while True:
            processes.append(await asyncio.create_subprocess_exec(*command, "http", str(port), stderr=quiet))
            await processes[-1].wait()

    running = asyncio.create_task(run())
    try:
        while True:
            with contextlib.suppress(OSError):
                (await asyncio.open_connection("127.0.0.1", port))[1].close()
                break
            await asyncio.sleep(0.05)
        yield f"http://127.0.0.1:{port}/mcp"
    finally:
        running.cancel()
        with contextlib.suppress(ProcessLookupError):
            processes[-1].kill()
        await processes[-1].wait()


@contextlib.asynccontextmanager
async def _own(app: Any) -> AsyncIterator[str]:
    async with serving_itself(app) as port:
        yield f"http://127.0.0.1:{port}/mcp"


async def _call_through(proxy: Server, book: Path, clients: int, kills: int, serving: Any) -> None:
    killed: set[int] = set()
    lost: list[str] = []

    async def work(client: AsyncClient, first: int) -> int:
        answered = 0
        for number in range(first, first + CALLS):
            try:
                process = int((await client.call_tool("count", {"number": number})).text)
            except RpcError as error:
                lost.append(str(error))
            else:
                answered += 1
                if number % CALLS in KILLED_AFTER and len(killed) < kills and process not in killed:
                    killed.add(process)
                    os.kill(process, signal.SIGKILL)
        return answered

    async with serving(proxy.asgi()) as url:
        everybody = [AsyncClient(url, mode=("handshake", "stateless")[place % 2]) for place in range(clients)]
        work_of_all = (work(client, CALLS * place) for place, client in enumerate(everybody))
        answered = sum(await asyncio.gather(*work_of_all))
        await asyncio.gather(*(client.stop() for client in everybody))
    written = book.read_text().split()  # noqa: ASYNC240
    assert len(killed) >= 2
    assert answered + len(lost) == clients * CALLS
    assert len(written) == len(set(written)), "a call was served twice"
    assert len(written) >= answered
    assert len(lost) < clients * CALLS / 2
    assert all("was lost" in text or "cannot be reached" in text for text in lost)
