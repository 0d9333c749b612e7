"""Many clients call a server through a proxy, while the process of the server is killed and started again."""

import asyncio
import os
import signal
import sys
import textwrap
from pathlib import Path

from dragoman import AsyncClient, Server
from dragoman.errors import RpcError
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

    server.run()
"""


async def call_while_the_target_is_killed(folder: Path, *, clients: int, kills: int) -> None:
    """Let clients of both eras call, and see that each call is answered once and served at most once."""
    program, book = folder / "counting.py", folder / "book"
    program.write_text(textwrap.dedent(PROGRAM))
    proxy = Server.proxy([sys.executable, str(program), str(book)])
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
    written = book.read_text().split()
    assert len(killed) >= 2
    assert answered + len(lost) == clients * CALLS
    assert len(written) == len(set(written)), "a call was served twice"
    assert len(written) >= answered
    assert len(lost) < clients * CALLS / 2
    assert all("was lost" in text or "cannot be reached" in text for text in lost)
