"""`ParkedCalls`: calls of stateless clients that wait in this process, because a target with sessions asks questions.

A target of the handshake era asks its question while it serves a call. A client of the stateless era is asked by the
result of the call, and sends the call again with the answers. So the call to the target stays open in the process that
began it, and the sealed `requestState` names the process and the call. The answers may reach another process, which
sends them to the owner over the bus of the store, and gets the outcome back. While it waits, it asks the owner now and
then whether the call is still there, so that nothing waits for a process that has died.

A parked call has these states:

    waiting     a client waits for the outcome: the result, or further questions; no time is set
    parked      the client was sent questions; the call is dropped after ten minutes without answers
    ended       the target has answered, the client went away, the time is over, or a newer call needs the connection

Rejected: a process that restarts the call elsewhere. The target may have done half of it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import msgspec
from msgspec import UNSET, Raw, Struct

from dragoman import types
from dragoman.errors import DragomanError, RpcError, StoreUnavailable
from dragoman.forward.messages import RawObject, raw_object
from dragoman.protocol import jsonrpc
from dragoman.protocol.rounds import RequestBinding
from dragoman.runtime.tasks import cancel_and_wait, keep_until_done

if TYPE_CHECKING:
    from dragoman.server.request.call import Call
    from dragoman.server.server import Server
    from dragoman.stores.contract import Bus

PARKED_SECONDS = 600.0
ALIVE_SECONDS = 2.0
"""The seconds between two questions whether the owner of a call is alive."""
ATTEMPTS = 3
GONE_CODE = -32000
KNOWN = b"1"
GONE = (
    "The call that asked has ended: the answers came too late, its process has stopped, or newer calls needed its"
    " connection. Send the call anew"
)
_KEYS = {"sampling/createMessage": "sampling", "elicitation/create": "elicitation", "roots/list": "roots"}
_logger = logging.getLogger("dragoman.compose")


class CallMessage(Struct, array_like=True):
    """A message about a parked call, from one process to another."""

    call: str
    """The id of the parked call."""


class CallAnswered(CallMessage, tag=1):
    """A client sent answers to another process than the owner of the call."""

    answers: bytes
    worker: str
    """The process that waits for the outcome."""
    turn: str
    """Names this wait."""


class CallWanted(CallMessage, tag=2):
    """The sender still waits for the outcome of a call; the owner replies whether it has the call."""


class CallAbandoned(CallMessage, tag=3):
    """The client went away."""


class CallOutcome(CallMessage, tag=4):
    """The outcome of a call, for the process that waits."""

    turn: str
    result: bytes | None
    error: bytes | None = None


class SentError(Struct):
    """An error on its way between processes."""

    code: int
    message: str
    data: Any = UNSET


_decoder = msgspec.msgpack.Decoder(CallAnswered | CallWanted | CallAbandoned | CallOutcome)


class ParkedCall:
    """One call to the target, and the questions that have no answer yet."""

    def __init__(self, id: str, origin: Call, finished: Callable[[], None]) -> None:
        self.id = id
        self.origin = origin
        """The call whose channel receives what belongs to the request."""
        self.progress_token = origin.request.progress_token
        self._finished = finished
        self._questions: dict[str, tuple[jsonrpc.Request, asyncio.Future[Raw]]] = {}
        self._asked = asyncio.Event()
        self._count = 0
        self._task: asyncio.Task[Raw] | None = None
        self.timer: asyncio.TimerHandle | None = None
        """Ends the call if no answers come in time; None while a client waits."""

    def start(self, work: Coroutine[Any, Any, Raw]) -> None:
        """Begin the call to the target."""
        self._task = asyncio.get_running_loop().create_task(work)
        self._task.add_done_callback(self._ended)

    def _ended(self, _: asyncio.Task[Raw]) -> None:
        self.stop_timer()
        self._finished()

    def park(self) -> None:
        """Begin to wait for answers of a client, for a limited time."""
        self.stop_timer()
        self.timer = asyncio.get_running_loop().call_later(PARKED_SECONDS, self.cancel)

    def stop_timer(self) -> None:
        """Wait without a limit: a client waits for the outcome, or the call has ended."""
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None

    async def ask(self, request: jsonrpc.Request) -> Raw:
        """Ask a question of the target, and return the answer."""
        self._count += 1
        key = f"{_KEYS.get(request.method, 'question')}-{self._count}"
        answered: asyncio.Future[Raw] = asyncio.get_running_loop().create_future()
        self._questions[key] = request, answered
        self._asked.set()
        try:
            return await answered
        finally:
            self._questions.pop(key, None)
            if not self._questions:
                self._asked.clear()

    def answer(self, answers: RawObject) -> None:
        """Pass the answers of the client to the target; the client waits from now on."""
        self.stop_timer()
        for key, answer in answers.items():
            if key in self._questions:
                _, answered = self._questions.pop(key)
                if not answered.done():
                    answered.set_result(answer)
        if not self._questions:
            self._asked.clear()

    async def outcome(self) -> Raw | dict[str, types.Json]:
        """Wait for the result of the call, or for questions; return either."""
        assert self._task is not None
        asked = asyncio.get_running_loop().create_task(self._asked.wait())
        try:
            await asyncio.wait([self._task, asked], return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            self.cancel()
            raise
        finally:
            asked.cancel()
        if self._task.cancelled():
            raise RpcError(GONE_CODE, GONE)
        if self._task.done():
            return await self._task
        await asyncio.sleep(0)  # questions that are asked together belong to one round
        return {key: {"method": one.method, "params": one.params} for key, (one, _) in self._questions.items()}

    @property
    def is_ending(self) -> bool:
        """Whether the call was cancelled, and has not ended yet."""
        return self._task is not None and self._task.cancelling() > 0

    def cancel(self) -> None:
        """End the call to the target."""
        if self._task is not None:
            self._task.cancel()

    async def end(self) -> None:
        """End the call, and wait until it has ended."""
        if self._task is not None:
            await cancel_and_wait(self._task)


class ParkedCalls:
    """The calls that wait in this process, and the way to those of other processes."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._calls: dict[str, ParkedCall] = {}
        self._waiting: dict[str, asyncio.Future[CallOutcome]] = {}
        self._background: set[asyncio.Task[Any]] = set()
        self._bus: Bus | None = None
        self._joining = asyncio.Lock()

    def begin(self, call: Call, released: Callable[[], None]) -> ParkedCall:
        """Return a new call; `released` is called when it has ended."""
        id = uuid4().hex

        def finished() -> None:
            self._calls.pop(id, None)
            released()

        parked = self._calls[id] = ParkedCall(id, call, finished)
        return parked

    async def result(self, parked: ParkedCall, call: Call) -> Raw:
        """Return the result of a call, or the `input_required` result with its questions."""
        found = await parked.outcome()
        if not isinstance(found, dict):
            return found
        parked.park()
        payload = msgspec.json.encode([await self._name(call), parked.id])
        state = self._server.storage.key_ring.seal(_purpose(call), payload)
        required = {"resultType": "input_required", "inputRequests": found, "requestState": state}
        return Raw(jsonrpc.encode(required))

    def give_way(self, principal: str | None) -> bool:
        """End the call of a principal that has been parked longest, so that a new call can use its connection.

        Returns whether a connection will be free by this.

        Calls end one after the other: a call that waits may ask again before the connection of the last one is free.
        """
        calls = [call for call in self._calls.values() if call.origin.principal == principal]
        timers = [(call.timer.when(), call.id) for call in calls if call.timer is not None]
        if any(call.is_ending for call in calls):
            return True
        if timers:
            self._calls[min(timers)[1]].cancel()
        return bool(timers)

    def waits_for(self, call: Call) -> bool:
        """Tell whether a request has answers for a call that was parked, in any process."""
        return call.request.params.request_state is not None and self._payload(call) is not None

    def _payload(self, call: Call) -> bytes | None:
        return self._server.storage.key_ring.open(_purpose(call), call.request.params.request_state)

    async def resume(self, call: Call) -> Raw:
        """Answer the questions of a call, wherever it waits, and return its next outcome.

        The call has its connection already, so the answers need none.

        Raises:
            RpcError: the call has ended.
        """
        worker, id = msgspec.json.decode(self._payload(call) or b"", type=tuple[str, str])
        answers = raw_object(raw_object(call.request.raw_params).get("inputResponses", b""))
        if worker != await self._name(call):
            return await self._resume_elsewhere(worker, id, answers)
        parked = self._calls.get(id)
        if parked is None:
            raise RpcError(GONE_CODE, GONE)
        parked.origin.channel, parked.progress_token = call.channel, call.request.progress_token
        parked.origin.progress = None
        parked.answer(answers)
        return await self.result(parked, call)

    # Other processes.

    async def _name(self, call: Call) -> str:
        """Return the name of this process on the bus; a connection has all of its calls here, and needs none."""
        if call.channel.carrier is not None:
            return ""
        async with self._joining:
            if self._bus is None:
                group = self._server.storage.key_ring.seal("group", f"proxy\0{self._server.name}".encode())
                bus = self._server.store.bus(group)
                try:
                    await bus.open(self._receive)
                except StoreUnavailable as error:
                    _logger.warning("The store is away (%s): only this process can take answers to questions", error)
                self._bus = bus
        return self._bus.name

    def _receive(self, data: bytes) -> bytes:
        try:
            message = _decoder.decode(data)
        except msgspec.DecodeError:  # another release
            return b""
        if isinstance(message, CallOutcome):
            waiter = self._waiting.get(message.turn)
            if waiter is not None and not waiter.done():
                waiter.set_result(message)
            return KNOWN
        parked = self._calls.get(message.call)
        if parked is None:
            return b"0"
        if isinstance(message, CallAbandoned):
            parked.cancel()
        elif isinstance(message, CallAnswered):
            parked.answer(msgspec.json.decode(message.answers, type=dict[str, Raw]))
            work = self._reply(parked, message)
            keep_until_done(asyncio.get_running_loop().create_task(work), self._background)
        return KNOWN

    async def _reply(self, parked: ParkedCall, message: CallAnswered) -> None:
        outcome = CallOutcome(parked.id, message.turn, None)
        try:
            outcome.result = bytes(await self.result(parked, parked.origin))
        except RpcError as error:
            outcome.error = jsonrpc.encode(SentError(error.code, error.message, error.data))
        assert self._bus is not None
        await self._bus.publish(msgspec.msgpack.encode(outcome), message.worker)

    async def _resume_elsewhere(self, worker: str, id: str, answers: RawObject) -> Raw:
        bus, turn = self._bus, uuid4().hex
        gone = RpcError(GONE_CODE, GONE)
        if bus is None:
            raise gone
        waiter = self._waiting[turn] = asyncio.get_running_loop().create_future()
        message: CallMessage = CallAnswered(id, msgspec.json.encode(answers), bus.name, turn)
        is_known = True
        try:
            while not waiter.done():
                if not is_known:
                    raise gone
                is_known = await _is_known(bus, worker, message)
                message = CallWanted(id)
                # The owner forgets a call before it sends the outcome, so an unknown call gets a last wait.
                await asyncio.wait([waiter], timeout=ALIVE_SECONDS)
        except asyncio.CancelledError:
            work = bus.publish(msgspec.msgpack.encode(CallAbandoned(id)), worker)
            keep_until_done(asyncio.get_running_loop().create_task(work), self._background)
            raise
        finally:
            del self._waiting[turn]
        outcome = waiter.result()
        if outcome.error is not None:
            sent = msgspec.json.decode(outcome.error, type=SentError)
            raise RpcError.of(sent.code, sent.message, sent.data)
        return Raw(outcome.result or b"{}")

    async def close(self) -> None:
        """End every call."""
        for parked in list(self._calls.values()):
            try:
                await parked.end()
            except DragomanError as error:
                _logger.debug("A parked call ended: %s", error)
        for task in list(self._background):
            await cancel_and_wait(task)
        if self._bus is not None:
            await self._bus.close()


def _purpose(call: Call) -> str:
    """Return what a `requestState` is for: it is of no use for another request, principal or set of scopes."""
    request, scopes = call.request, " ".join(sorted(call.scopes or ()))
    binding = RequestBinding.of(request.method.name, request.raw_params, call.principal, server=call.server.name)
    return f"proxy {binding.method} {binding.params} {binding.principal.hex()} {scopes}"


async def _is_known(bus: Bus, worker: str, message: CallMessage) -> bool:
    """Send a message to the owner of a call, and tell whether the owner is alive and has the call."""
    for attempt in range(ATTEMPTS):
        replies = await bus.publish(msgspec.msgpack.encode(message), worker)
        if replies:
            return replies[0] == KNOWN
        await asyncio.sleep(0.1 * attempt)
    return False
