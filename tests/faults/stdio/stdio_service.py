"""A service that does what each line tells it, to be run as a process; the words are the methods of `Commands`."""

# ruff: noqa: ASYNC220, ASYNC221, ASYNC251, T201 - these handlers misbehave on purpose

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from contextlib import nullcontext
from pathlib import Path

from dragoman.protocol.lines import LineDecoder
from dragoman.runtime.offload import offload
from dragoman.transports.contract import Sink
from dragoman.transports.stdio.serving import claim, run_stdio, serve_stdio


class Commands:
    """One connection: each line is a word and its argument, and runs in a task of its own."""

    def __init__(self, sink: Sink) -> None:
        self.sink = sink
        self.lines = LineDecoder(1 << 24)
        self.tasks: set[asyncio.Task[None]] = set()
        self.released = asyncio.Event()

    def receive(self, chunk: bytes) -> None:
        self.obey(self.lines.receive(chunk))

    def receive_end(self) -> None:
        self.obey(self.lines.finish())

    async def drain(self) -> None:
        while self.tasks:
            await asyncio.wait(self.tasks)

    def close(self) -> None:
        for task in self.tasks:
            task.cancel()

    def obey(self, lines: list) -> None:
        for line in lines:
            word, _, argument = line.partition(b" ")
            task = asyncio.ensure_future(getattr(self, word.decode())(argument))
            self.tasks.add(task)
            task.add_done_callback(self.tasks.discard)

    async def echo(self, argument: bytes) -> None:
        self.sink.send(argument)

    async def size(self, argument: bytes) -> None:
        self.sink.send(b"%d" % len(argument))

    async def repeat(self, argument: bytes) -> None:
        self.sink.send(b"x" * int(argument))

    async def flood(self, argument: bytes) -> None:
        while True:
            self.sink.send(b"x" * int(argument))
            room = asyncio.ensure_future(self.sink.wait_for_room())
            await asyncio.sleep(0)
            if not room.done():
                print("waiting for room", file=sys.stderr, flush=True)
            await room

    async def print(self, argument: bytes) -> None:
        print(argument.decode())
        self.sink.send(b"printed")

    async def write(self, argument: bytes) -> None:
        os.write(1, argument + b"\n")
        self.sink.send(b"written")

    async def child(self, argument: bytes) -> None:
        subprocess.run(["sh", "-c", 'echo "$1"; cat', "sh", argument], check=True)
        self.sink.send(b"run")

    async def orphan(self, argument: bytes) -> None:
        self.sink.send(b"%d" % subprocess.Popen(["sleep", "3600"], stderr=subprocess.DEVNULL).pid)

    async def read(self, argument: bytes) -> None:
        self.sink.send(repr(sys.stdin.read()).encode())

    async def held(self, argument: bytes) -> None:
        self.sink.send(b"holding")
        await self.released.wait()
        self.sink.send(argument)

    async def release(self, argument: bytes) -> None:
        self.released.set()

    async def in_thread(self, argument: bytes) -> None:
        self.sink.send(b"in thread")
        self.sink.send(await offload(bytes.upper, argument))

    async def stuck_thread(self, argument: bytes) -> None:
        self.sink.send(b"stuck")
        await offload(time.sleep, 3600)

    async def stuck_printing(self, argument: bytes) -> None:
        self.sink.send(b"stuck")
        await offload(print_forever)

    async def stuck_executor(self, argument: bytes) -> None:
        self.sink.send(b"stuck")
        await asyncio.to_thread(time.sleep, 3600)

    async def stuck_task(self, argument: bytes) -> None:
        self.sink.send(b"stuck")
        while True:
            try:
                await asyncio.sleep(3600)
            except asyncio.CancelledError:
                self.sink.send(b"refused to be cancelled")

    async def stuck_loop(self, argument: bytes) -> None:
        self.sink.send(b"stuck")
        for _ in range(3):
            await asyncio.sleep(0)
        time.sleep(3600)

    async def memory(self, argument: bytes) -> None:
        self.sink.send(b"%d" % resident_bytes(os.getpid()))


def print_forever() -> None:
    while True:
        print("still here")


def resident_bytes(process: int) -> int:
    return int(Path(f"/proc/{process}/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE")


class Service:
    serving = staticmethod(nullcontext)

    def connect(self, sink: Sink) -> Commands:
        return Commands(sink)


def main(how: str, grace: str) -> None:
    if how == "noisy":
        sys.stdout.write("before the claim\n")
        claim()
        print("after the claim")
    if how == "uvloop":
        import uvloop

        uvloop.run(serve_stdio(Service(), grace=float(grace)))
    else:
        run_stdio(Service(), grace=float(grace))


if __name__ == "__main__":
    main(*sys.argv[1:])
