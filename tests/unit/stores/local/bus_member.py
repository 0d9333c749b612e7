"""A process on a bus: it replies to each message with its name and the message, and ends on request."""

import asyncio
import sys
from pathlib import Path

from dragoman.stores import Local


async def main(folder: str, group: str) -> None:
    ended = asyncio.Event()
    bus = Local(Path(folder)).bus(group)

    def receive(message: bytes) -> bytes:
        if message == b"end":
            ended.set()
        return bus.name.encode() + b" " + message

    await bus.open(receive)
    print(bus.name, flush=True)  # noqa: T201
    await asyncio.wait_for(ended.wait(), 60)
    await bus.close()


asyncio.run(main(*sys.argv[1:]))
