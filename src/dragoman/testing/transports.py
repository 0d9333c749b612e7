"""`check_transport`: checks that a transport keeps the contract of `transports.contract`.

Each step opens a new transport and sends pings. The other side is a `Server`, or a program that echoes each message:
both answer a ping with a message that has the same id.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import msgspec

from dragoman.errors import TransportError
from dragoman.transports.contract import Transport

Checked = TypeVar("Checked", bound=Transport)
MANY = 100
LARGE = 1_000_000


async def check_transport(
    make: Callable[[], Checked],
    *,
    break_off: Callable[[Checked], Awaitable[None]] | None = None,
    large: int = LARGE,
    timeout: float = 10,
) -> None:
    """Check that a transport delivers each message once, complete and in order, and opens and closes correctly.

    Example:
        await check_transport(lambda: Memory(server.connect))

    `make` returns a transport that is not open. `break_off` ends the other side of an open transport; with it, the
    check covers this end too. `large` is the size of the largest message in bytes, and `timeout` the limit in seconds
    for each operation.

    Raises:
        AssertionError: the transport breaks the contract; the message says how.
    """
    for check in (_one_by_one, _in_order, _side_by_side, _large, _closing, _closing_while_sending, _opening_again):
        probe = _Probe(make(), timeout, large)
        await probe.run(check)
    if break_off is not None:
        probe = _Probe(make(), timeout, large)
        await probe.run(lambda probe: _breaking_off(probe, break_off))


class _Probe:
    """A transport under test, with the ids and the ends that it reported."""

    def __init__(self, transport: Transport, timeout: float, large: int) -> None:
        self.transport = transport
        self.large = large
        self.ids: list[int] = []
        self.ends: list[Exception | None] = []
        self._wrong: str | None = None
        self._timeout = timeout
        self._changed = asyncio.Event()

    async def run(self, check: Callable[[_Probe], Awaitable[None]]) -> None:
        before = asyncio.all_tasks()
        await self.open()
        try:
            await check(self)
        finally:
            await self.within("close()", self.transport.close())
        await asyncio.sleep(0)
        left = asyncio.all_tasks() - before
        assert not left, f"close() left tasks behind: {left}"
        assert self._wrong is None, self._wrong

    async def open(self) -> None:
        await self.within("open()", self.transport.open(self._receive, self._closed))

    async def within(self, what: str, work: Awaitable[Any]) -> Any:
        try:
            return await asyncio.wait_for(work, self._timeout)
        except TimeoutError:
            raise AssertionError(f"{what} did not come to an end within {self._timeout:g} seconds") from None

    def _receive(self, message: Any) -> None:
        if not isinstance(message, bytes) or b"\n" in message:
            self._wrong = f"receive() must be given one message as bytes without a newline, not {message[:80]!r}"
        try:
            found = msgspec.json.decode(message)
            self.ids.append(found["id"])
        except (msgspec.DecodeError, KeyError, TypeError):
            self._wrong = f"receive() must be given one whole JSON text, not {message[:80]!r}"
        self._changed.set()

    def _closed(self, error: Exception | None) -> None:
        self.ends.append(error)
        self._changed.set()

    async def ping(self, id: int, size: int = 0) -> None:
        message = {"jsonrpc": "2.0", "id": id, "method": "ping", "params": {"padding": "x" * size}}
        await self.within("send()", self.transport.send(msgspec.json.encode(message)))

    async def until(self, condition: Callable[[], bool], otherwise: Callable[[], str]) -> None:
        async def wait() -> None:
            while not condition() and self._wrong is None:
                self._changed.clear()
                await self._changed.wait()

        try:
            await asyncio.wait_for(wait(), self._timeout)
        except TimeoutError:
            raise AssertionError(otherwise()) from None

    async def answered(self, *ids: int) -> None:
        await self.until(
            lambda: len(self.ids) >= len(ids),
            lambda: f"{len(ids)} messages were sent, and {len(self.ids)} were answered",
        )
        assert self._wrong is None, self._wrong

    async def refuses(self, when: str) -> None:
        try:
            await self.ping(1)
        except TransportError:
            return
        except Exception as error:
            raise AssertionError(f"send() must raise a TransportError {when}, not {error!r}") from error
        raise AssertionError(f"send() must raise a TransportError {when}, and not lose the message")


async def _one_by_one(probe: _Probe) -> None:
    for id in range(1, 11):
        await probe.ping(id)
        await probe.answered(*range(1, id + 1))
    assert probe.ids == list(range(1, 11)), f"each message must be carried once: {probe.ids}"


async def _in_order(probe: _Probe) -> None:
    for id in range(MANY):
        await probe.ping(id)
    await probe.answered(*range(MANY))
    assert probe.ids == list(range(MANY)), f"messages must be carried once, in the order of sending: {probe.ids}"


async def _side_by_side(probe: _Probe) -> None:
    await asyncio.gather(*(probe.ping(id, 10_000) for id in range(MANY)))
    await probe.answered(*range(MANY))
    assert sorted(probe.ids) == list(range(MANY)), f"messages of many senders must be carried once: {sorted(probe.ids)}"


async def _large(probe: _Probe) -> None:
    await probe.ping(1, probe.large)
    await probe.ping(2)
    await probe.answered(1, 2)
    assert sorted(probe.ids) == [1, 2], f"a message of {probe.large} bytes must be carried whole"


async def _closing(probe: _Probe) -> None:
    close = probe.transport.close
    await probe.within("close() twice at a time", asyncio.gather(close(), close()))
    await probe.within("close() once more", close())
    assert not probe.ends, "`closed` must not be called for an end that was asked for"
    await probe.refuses("after close()")


async def _closing_while_sending(probe: _Probe) -> None:
    sending = [asyncio.ensure_future(probe.ping(id, probe.large)) for id in range(5)]
    await asyncio.sleep(0)
    await probe.within("close() while messages are sent", probe.transport.close())
    outcomes = await asyncio.gather(*sending, return_exceptions=True)
    wrong = [error for error in outcomes if error is not None and not isinstance(error, TransportError)]
    assert not wrong, f"send() must return or raise a TransportError when it is closed meanwhile, not {wrong[0]!r}"
    assert not probe.ends, "`closed` must not be called for an end that was asked for"


async def _opening_again(probe: _Probe) -> None:
    await probe.within("close()", probe.transport.close())
    await probe.open()
    await _one_by_one(probe)


async def _breaking_off(probe: _Probe, break_off: Callable[[Any], Awaitable[None]]) -> None:
    await _one_by_one(probe)
    await probe.within("break_off()", break_off(probe.transport))
    await probe.until(lambda: bool(probe.ends), lambda: "`closed` must be called when the other side ends")
    await probe.refuses("after the other side ended")
    await probe.within("close()", probe.transport.close())
    assert len(probe.ends) == 1, f"`closed` must be called once, not {len(probe.ends)} times"


__all__ = ["check_transport"]
