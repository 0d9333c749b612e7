"""What tests of the store Redis share: names, waiting, and a look into the server."""

from __future__ import annotations

import asyncio
import os
import re
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import aclosing

import hiredis

from dragoman.errors import StoreUnavailable
from dragoman.stores.contract import State, Store
from redis_server import RedisServer

DEADLINE = 60.0


def fresh() -> str:
    """Return a name that nothing else uses."""
    return os.urandom(8).hex()


async def until(condition: Callable[[], bool], seconds: float = DEADLINE) -> None:
    """Wait until a condition is true."""
    async with asyncio.timeout(seconds):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.01)


async def answering(store: Store) -> float:
    """Wait until a store answers, and return how many seconds that took."""
    began = time.monotonic()
    async with asyncio.timeout(DEADLINE):
        while True:
            try:
                await store.now()
            except StoreUnavailable:
                await asyncio.sleep(0.01)
            else:
                return time.monotonic() - began


async def increment(state: State, key: str, times: int) -> None:
    """Add 1 to a number so many times, against other writers."""
    for _ in range(times):
        done = None
        while done is None:
            found = await state.get(key)
            count, revision = (0, 0) if found is None else (int(found.value), found.revision)
            done = await state.compare_and_set(key, b"%d" % (count + 1), revision)


async def use_everything(store: Store) -> None:
    """Use each part of a store once."""
    name = fresh()
    state, log, bus, tasks = store.state(name), store.log(name), store.bus(name), store.tasks(name)
    assert await state.set("key", b"value", ttl=60)
    assert await state.delete("key")
    log.append(1, b"event")
    await log.flush()
    assert await log.after(0) == [(1, b"event")]
    await log.delete()
    await bus.open(lambda _: b"")
    assert await bus.publish(b"message") == []
    await bus.close()
    made = await tasks.create(name, b"", owner=name, ttl=60)
    async with aclosing(tasks.watch(name)) as changes:
        await anext(changes)
        await tasks.wait(0)
        await tasks.wait(0)
        claimed = await tasks.claim(60)
        assert claimed is not None
        assert await tasks.renew(name, claimed.token, 60)
        assert await tasks.release(name, claimed.token)
        await anext(changes)
    assert (await tasks.list(name))[0].id == made.id
    assert await tasks.finish(name, b"done")
    assert await tasks.sweep() == 0
    assert await store.now() >= made.created_at


class Client:
    """A blocking connection of a test to a server."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), DEADLINE)
        self._reader = hiredis.Reader()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def call(self, *words: str | bytes | int) -> object:
        """Run a command, and return its reply."""
        self._socket.sendall(hiredis.pack_command(words))
        while (reply := self._reader.gets()) is False:
            received = self._socket.recv(65536)
            assert received, "the server closed the connection"
            self._reader.feed(received)
        return reply


def call(server: RedisServer, *words: str | bytes | int) -> object:
    """Run a command on a server, and return its reply."""
    with Client(server.port) as client:
        return client.call(*words)


def authenticated(server: RedisServer, password: str, *words: str) -> None:
    """Run a command on a server that wants a password."""
    with Client(server.port) as client:
        assert client.call("AUTH", password) == b"OK"
        assert client.call(*words) == b"OK"


def connections(server: RedisServer, process: int) -> int:
    """Return how many connections a process has to a server."""
    listed = call(server, "CLIENT", "LIST")
    assert isinstance(listed, bytes)
    return len(re.findall(rb"name=dragoman-%d " % process, listed))


def contents(port: int) -> Iterator[bytes]:
    """Yield every key and every value of a server."""
    with Client(port) as client:
        for key in client.call("KEYS", "*"):  # type: ignore[attr-defined]
            yield key
            kind = client.call("TYPE", key)
            reading: dict[object, tuple[str | bytes | int, ...]] = {
                b"string": ("GET", key),
                b"hash": ("HGETALL", key),
                b"list": ("LRANGE", key, 0, -1),
                b"zset": ("ZRANGE", key, 0, -1),
                b"stream": ("XRANGE", key, "-", "+"),
            }
            yield repr(client.call(*reading[kind])).encode()
