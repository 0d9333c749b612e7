"""What `check_store` checks with other processes: they see each other's changes, and one of them is killed.

The other process runs this module as a program. It reads `make_store` from its standard input, and then a command per
line: the name of a method of `_Commands`, and its arguments. It answers each command with a line.
"""

from __future__ import annotations

import asyncio
import base64
import pickle
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import msgspec

from dragoman.stores.contract import Store
from dragoman.testing.stores.probe import LONG, Probe, fresh, increment

EACH = 250


async def check_processes(probe: Probe, make_store: Callable[[], Store]) -> None:
    """Check what several processes must see of each other."""
    try:
        program = pickle.dumps(make_store)
    except Exception as error:
        raise AssertionError(
            f"the store reaches beyond this process, so other processes must be able to make it: give check_store() a"
            f" function of a module, or a functools.partial of a class ({error})"
        ) from error
    async with _process(probe, program) as first, _process(probe, program) as second:
        for check in (_values, _counting, _log, _messages, _waking):
            await check(probe, first, second)
        await _killed_holder(probe, first)


class _Process:
    """Another process that uses the storage."""

    def __init__(self, probe: Probe, process: asyncio.subprocess.Process) -> None:
        self._probe = probe
        self._process = process

    async def do(self, *words: Any) -> Any:
        """Let the process run a command, and return its answer."""
        await self.begin(*words)
        return await self.answer()

    async def begin(self, *words: Any) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(msgspec.json.encode(words) + b"\n")
        await self._process.stdin.drain()

    async def answer(self) -> Any:
        assert self._process.stdout is not None
        line = await self._probe.within("the work of another process", self._process.stdout.readline())
        assert line, "another process must be able to use the store; it ended with an error (see its standard error)"
        return msgspec.json.decode(line)

    async def kill(self) -> None:
        """End the process with SIGKILL, unless it has ended."""
        if self._process.returncode is None:
            self._process.kill()
        await self._process.wait()


@asynccontextmanager
async def _process(probe: Probe, program: bytes) -> AsyncGenerator[_Process, None]:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", __name__), stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
    )
    other = _Process(probe, process)
    try:
        assert await other.do(sys.path, base64.b64encode(program).decode()) == "ready", (
            "another process must be able to make the store"
        )
        yield other
    finally:
        await other.kill()


async def _values(probe: Probe, first: _Process, second: _Process) -> None:
    namespace = fresh("values")
    revision = await first.do("set", namespace, "key", "value")
    assert await second.do("get", namespace, "key") == ["value", revision], (
        "other processes must see a value that was set"
    )
    assert await probe.one.state(namespace).get("key") == (b"value", revision), (
        "a value must be the same in each process"
    )


async def _counting(probe: Probe, first: _Process, second: _Process) -> None:
    namespace = fresh("values")
    for process in (first, second):
        await process.begin("increment", namespace, EACH)
    await increment(probe.one.state(namespace), "counter", EACH)
    for process in (first, second):
        await process.answer()
    found = await probe.other.state(namespace).get("counter")
    counted = 0 if found is None else int(found.value)
    assert counted == 3 * EACH, f"{3 * EACH} increments by 3 processes must count {3 * EACH}, not {counted}"


async def _log(probe: Probe, first: _Process, second: _Process) -> None:
    stream = fresh("stream")
    await first.do("append", stream, 1, 50)
    await second.do("append", stream, 51, 50)
    numbers = [number for number, _ in await probe.one.log(stream).after(0)]
    assert numbers == list(range(1, 101)), f"every process must read the events of the others in order: {numbers}"


async def _messages(probe: Probe, first: _Process, second: _Process) -> None:
    group = fresh("group")
    names = [await process.do("join", group) for process in (first, second)]
    bus = probe.one.bus(group)
    await probe.within("open()", bus.open(lambda message: b"main " + message))
    try:
        replies = await probe.within("publish()", bus.publish(b"hello"))
        assert sorted(replies) == sorted(f"{name} hello".encode() for name in names), (
            f"every process must reply: {replies}"
        )
        replies = await probe.within("publish()", bus.publish(b"hello", names[1]))
        assert replies == [f"{names[1]} hello".encode()], f"publish(to=) must reach one process: {replies}"
        heard = await first.do("publish", "hello")
        expected = sorted(["main hello", f"{names[1]} hello"])
        assert sorted(heard) == expected, f"a process must reach all others: {heard}"
    finally:
        await probe.within("close()", bus.close())


async def _waking(probe: Probe, first: _Process, second: _Process) -> None:
    namespace = fresh("tasks")
    tasks = probe.one.tasks(namespace)
    await first.begin("wait", namespace)
    made = await tasks.create(fresh("task"), b"", owner="ann")
    claim = await first.answer()
    assert claim == made.id, "wait() must return when another process made a task ready"
    changes = tasks.watch(made.id)
    await probe.within("the first step of watch()", anext(changes))
    await second.do("finish", namespace, made.id)

    async def is_finished() -> None:
        while (found := await tasks.get(made.id)) is None or found.phase != "finished":
            await anext(changes)

    await probe.within("watch() of a task that another process changed", is_finished())
    await changes.aclose()


async def _killed_holder(probe: Probe, holder: _Process) -> None:
    namespace, stream = fresh("tasks"), fresh("stream")
    tasks = probe.one.tasks(namespace)
    made = await tasks.create(fresh("task"), b"", owner="ann")
    token = await holder.do("hold", namespace, probe.ttl)
    revision = await holder.do("set", namespace, "key", "acknowledged")
    await holder.do("append", stream, 1, 10)
    await holder.kill()
    promise = "the task of a killed process must be claimed by another when its lease has run out"
    heir = await probe.taken_over(tasks, promise)
    assert (heir.id, heir.was_lost) == (made.id, True), f"the task of a killed process must be called lost: {heir}"
    assert heir.token > token, f"the task of a killed process must get a higher token: {token}, then {heir.token}"
    assert not await tasks.renew(made.id, token, LONG), "the token of a killed process must be refused"
    found = await probe.one.state(namespace).get("key")
    assert found == (b"acknowledged", revision), "a killed process must leave the values that it was acknowledged"
    events = await probe.one.log(stream).after(0)
    assert len(events) == 10, f"a killed process must leave the events that it was acknowledged: {len(events)} of 10"


class _Commands:
    """The commands of the other process."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def run(self, line: bytes) -> bytes:
        command, *args = msgspec.json.decode(line)
        work: Awaitable[Any] = getattr(self, command)(*args)
        return msgspec.json.encode(await work)

    async def set(self, namespace: str, key: str, value: str) -> int:
        return await self._store.state(namespace).set(key, value.encode())

    async def get(self, namespace: str, key: str) -> list[Any]:
        found = await self._store.state(namespace).get(key)
        return [] if found is None else [found.value.decode(), found.revision]

    async def increment(self, namespace: str, times: int) -> None:
        await increment(self._store.state(namespace), "counter", times)

    async def append(self, stream: str, first: int, count: int) -> None:
        log = self._store.log(stream)
        for number in range(first, first + count):
            log.append(number, b"%d" % number)
        await log.flush()

    async def join(self, group: str) -> str:
        self._bus = self._store.bus(group)
        await self._bus.open(lambda message: self._bus.name.encode() + b" " + message)
        return self._bus.name

    async def publish(self, message: str) -> list[str]:
        return [reply.decode() for reply in await self._bus.publish(message.encode())]

    async def wait(self, namespace: str) -> str:
        tasks = self._store.tasks(namespace)
        while (claim := await tasks.claim(LONG)) is None:
            await tasks.wait(LONG)
        return claim.id

    async def finish(self, namespace: str, id: str) -> None:
        await self._store.tasks(namespace).finish(id, b"done")

    async def hold(self, namespace: str, lease: float) -> int:
        claim = await self._store.tasks(namespace).claim(lease)
        return 0 if claim is None else claim.token


async def _serve() -> None:
    path, program = msgspec.json.decode(sys.stdin.buffer.readline())
    sys.path[:] = path
    # The pickle comes from the process that started this one.
    commands = _Commands(pickle.loads(base64.b64decode(program))())  # noqa: S301
    answer = b'"ready"'
    while True:
        sys.stdout.buffer.write(answer + b"\n")
        sys.stdout.buffer.flush()
        line = await asyncio.to_thread(sys.stdin.buffer.readline)
        if not line:
            return
        answer = await commands.run(line)


if __name__ == "__main__":
    asyncio.run(_serve())
