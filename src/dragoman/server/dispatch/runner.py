"""The one place in which a request becomes an answer, whatever carried it.

A carrier opens a request, makes a `Call` of it and gives it to `run`. The stages are: middleware and hooks (skipped
when there are none), the handler, questions to the client (`asking.settle`), seal, encode. What fails is refused here,
and what nobody waits for is given up here. A request that cannot be opened is refused by `refusal` where there is no
middleware; where there is some, the carrier makes a `Call` of it too and gives it to `run_refused`.

What is known at once is answered at once, as bytes. Anything else is a coroutine that gives them; the carrier awaits it
where it likes. How a request ended is data of its call: `refusal` is the error that it was answered with, and `failure`
says what a result stands for that reports an error.

A handler returns a result that is not sealed, bytes that were sealed and kept (`Raw`), or a coroutine that gives
either. A handler that leads to a function of the author's sets `call.target` and `call.arguments` instead; the runner
begins the target, and makes a result of what it returns. So no definition finishes in two ways, plain and async.

One coroutine for every request was rejected: most answers are known at once, and a coroutine and its task cost more
than they do.
"""

from __future__ import annotations

from collections.abc import Coroutine
from functools import partial
from types import CoroutineType
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Raw

from dragoman import types
from dragoman.errors import InternalError, MethodNotFound, RpcError, ToolError, UrlElicitationRequired, ValidationError
from dragoman.protocol import eras, jsonrpc
from dragoman.protocol.extensions import CORE_RESULT_TYPES
from dragoman.protocol.methods import declares
from dragoman.server.define.tools import failure
from dragoman.server.request.asking import RUN_AGAIN, explanation, settle
from dragoman.server.request.call import Call
from dragoman.server.request.questions import InputRequired

if TYPE_CHECKING:
    from dragoman.protocol.versions import Version
    from dragoman.server.server import Server

Answer = bytes | tuple[bytes, Raw, bytes]
"""A message to send: whole, or in parts if the channel takes those and the result is large; if empty, nothing."""
LARGE_BYTES = 64 * 1024
"""From this size on, a result that is encoded already is not copied into its answer."""
INTERNAL_ERROR = "Internal error occurred"
NO_ID = ""
"""Stands for the id of a notification, which has none."""


def run(call: Call) -> Answer | Coroutine[Any, Any, Answer]:
    """Run a request, and return its answer, or a coroutine that gives it.

    Raises:
        CancelledError: the task that serves it was cancelled, and not because the request was given up.
    """
    server = call.server
    call.settings = server.settings
    if server.around is not None:
        return _answer_later(call, server.around(call))
    if server.installed is not None and server.installed.is_around and call.request.method.name == "tools/call":
        return _answer_later(call, serve(call))
    value, error = _begin(call)
    if type(value) is CoroutineType or call.asking is not None:
        return _settle(call, value, error)
    if type(value) is not types.CallToolResult and _wants_input(value, error):
        return _settle(call, value, error)
    call.ended = True
    return _answer(call, value) if error is None else _fail(call, error)


def run_refused(call: Call, error: BaseException) -> Coroutine[Any, Any, Answer]:
    """Let middleware know of a request that is refused before any handler, and return its answer.

    That is the error, unless middleware makes something else of it; `call.refusal` says so.
    """
    server = call.server
    call.settings = server.settings
    if isinstance(error, MethodNotFound):
        server.warn_of_unserved()
    call.refused = _translated(server, error)
    return _answer_later(call, serve(call) if server.around is None else server.around(call))


async def whole_answer(call: Call) -> bytes:
    """Run a request to its end, for a carrier that waits for it and takes no parts; return its answer."""
    answer: Any = run(call)
    return await answer if type(answer) is CoroutineType else answer  # type: ignore[no-any-return]


async def _answer_later(call: Call, outcome: Coroutine[Any, Any, Any]) -> Answer:
    try:
        return _answer(call, await outcome)
    except BaseException as error:
        return _refuse(call, error)
    finally:
        call.ended = True


def _begin(call: Call) -> tuple[Any, BaseException | None]:
    """Call the handler; return what it gives, which may be a coroutine, or what it raises."""
    server = call.server
    try:
        value = server.handlers[call.request.method.name](server, call)
        target = call.target
        if target is not None:
            value = target.begin(call)
            if type(value) is not CoroutineType:
                value = target.result(call, value)
    except BaseException as error:
        return None, error
    return value, None


def _wants_input(value: Any, error: BaseException | None) -> bool:
    """Tell whether a run ended because the client is to be asked something."""
    return isinstance(value, InputRequired) or isinstance(error, UrlElicitationRequired)


async def serve(call: Call) -> Any:
    """Return the result of a request, not sealed; raise what it is refused with."""
    if call.refused is not None:
        raise call.refused
    installed = call.server.installed
    if installed is None or not installed.is_around or call.request.method.name != "tools/call":
        return await _serve_within(call)
    try:
        return await installed.around(call, partial(_serve_within, call))
    except BaseException as error:
        return _failed(call, error)
    finally:
        call.plain = None  # it may be changed now


async def _serve_within(call: Call) -> Any:
    return await _settle(call, *_begin(call), answers=False)


async def _settle(call: Call, value: Any, error: BaseException | None, *, answers: bool = True) -> Any:
    """Wait for a handler, and run it again until nothing is left to be asked; return the answer, or only the result."""
    while True:
        if type(value) is CoroutineType:
            try:
                value = await value
                if type(value) is CoroutineType:  # of a `def` that returned what an `async def` gave it
                    value = await value
                target = call.target
                if target is not None:
                    value = target.result(call, value)
            except BaseException as raised:
                value, error = None, raised
        if call.asking is not None or (type(value) is not types.CallToolResult and _wants_input(value, error)):
            try:
                value, error = await settle(call, value, error), None
            except BaseException as raised:
                value, error = None, raised
        if value is RUN_AGAIN:
            value, error = _begin(call)
        elif answers:
            call.ended = True
            return _answer(call, value) if error is None else _fail(call, error)
        else:
            return value if error is None else _failed(call, error)


def _failed(call: Call, error: BaseException) -> types.CallToolResult:
    """Return the result of a tool that failed, for the model to read; any other failure is raised."""
    if call.request.method.name == "tools/call":
        said = str(error) if isinstance(error, ToolError) else explanation(call, error)
        if said is not None:
            call.failure = ToolError.label
            return failure(said)
        if not isinstance(error, RpcError) and not call.is_given_up_by(error):
            call.server.report(error, call)
            call.failure = "internal_error"
            return failure(INTERNAL_ERROR)
    raise error


def _answer(call: Call, result: Any) -> Answer:
    """Seal a result and encode it."""
    request = call.request
    version = request.caller.version
    try:
        if result is not call.plain or not eras.leaves_tool_results_unchanged[version]:
            if type(result) is types.CallToolResult:  # which `seal` adds nothing to
                if result.result_type is not None:
                    _check_result_type(call, result)
                result = eras.seal(result, version, call.server.info_bytes)
            elif type(result) is not Raw:
                _check_result_type(call, result)
                result = seal(call.server, result, version)
            elif len(result) >= LARGE_BYTES and call.channel.takes_parts:
                head, tail = jsonrpc.encode_result_envelope(request.id)
                return head, result, tail
        return jsonrpc.encode_result(request.id, result)
    except Exception as error:
        return _fail(call, error)


def _check_result_type(call: Call, result: Any) -> None:
    """See that a result of a further type may answer the request: its extension has a row for it, and the client too.

    A method of the server's own may answer by whatever its author likes.

    Raises:
        InternalError: it may not.
    """
    given = result.get("resultType") if isinstance(result, dict) else getattr(result, "result_type", None)
    if given is None or given in CORE_RESULT_TYPES or call.request.method in call.server.own_methods:
        return
    caller, method = call.request.caller, call.request.method.name
    row = call.server.offer.table.answering(method, given, caller.version)
    if row is None or not declares(caller.capabilities, row.shared):
        error = InternalError(f"A result of the type {given!r} cannot answer {method} here")
        call.server.report(error, call)
        raise error


def _fail(call: Call, error: BaseException) -> Answer:
    """Answer in place of a handler that failed, or of a result that cannot be sent."""
    try:
        return _answer(call, _failed(call, error))
    except BaseException as unanswered:
        return _refuse(call, unanswered)


def seal(server: Server, result: Any, version: Version) -> Any:
    """Return a result as a version carries it, with the server's cache hints where it has none."""
    if not isinstance(result, types.Result):
        return eras.seal_value(result, version, server.info_bytes)
    if version.stateless and isinstance(result, types.CacheableResult):
        ttl_ms, cache_scope = server.cache_hints
        # A copy: an author may give the same result every time.
        result = msgspec.structs.replace(
            result,
            ttl_ms=ttl_ms if result.ttl_ms is None else result.ttl_ms,
            cache_scope=cache_scope if result.cache_scope is None else result.cache_scope,
        )
    return eras.seal(result, version, server.info_bytes)


def _refuse(call: Call, error: BaseException) -> bytes:
    """Answer with an error, or with nothing if nobody wants the outcome."""
    if call.is_given_up_by(error):
        return _give_up(call, error)
    call.refusal = _said(call, error)
    return _encoded_error(call.server, call.request.id, call.refusal, call)


def _said(call: Call, error: BaseException) -> RpcError:
    """Return the error to answer with, as the caller's version has it; a request may be refused for its version."""
    if call.refused is not None and error is call.refused:
        return call.refused
    return eras.seal_error(_translated(call.server, error, call), call.request.caller.version)


def settled(call: Call, error: BaseException) -> types.CallToolResult:
    """Return the result that an exception is answered with: that of a tool, for a ToolError.

    Raises:
        RpcError: the error that it is answered with.
        BaseException: nobody wants the outcome of the request any more.
    """
    if call.is_given_up_by(error):
        raise error
    if isinstance(error, ToolError) and call.request.method.name == "tools/call":
        return _failed(call, error)
    said = _said(call, error)
    if said is error:
        raise error
    said.label = label_of(error)
    raise said from error


def label_of(error: BaseException) -> str:
    """Return a name for a failure, of which there are few."""
    return error.label if isinstance(error, RpcError | ToolError) else "internal_error"


def _give_up(call: Call, error: BaseException) -> bytes:
    """Answer nothing, or that the server stopped the request; a cancellation of another's goes on."""
    if not call.cancelled:
        raise error
    from asyncio import CancelledError

    from dragoman.runtime.tasks import uncancelled

    if not uncancelled():
        raise CancelledError
    return stopped(call) if call.stopped is not None else b""


def stopped(call: Call) -> bytes:
    """Return the answer to a request that was ended because the server, or its session, ends."""
    assert call.stopped is not None
    return refusal(call.server, call.stopped, call.request.id)


def refusal(
    server: Server,
    error: BaseException,
    id: types.RequestId | None = None,
    *,
    null_id: bool = False,
    place: str | None = None,
) -> bytes:
    """Return an error response. What fails in a `place` of the server's own is reported there and not said."""
    if isinstance(error, MethodNotFound):
        server.warn_of_unserved()
    return _encoded_error(server, id, _translated(server, error, place=place), null_id=null_id)


def _translated(
    server: Server, error: BaseException, call: Call | None = None, *, place: str | None = None
) -> RpcError:
    """Return the error to answer with; what was not meant for the client is reported and not said."""
    said = str(error) if isinstance(error, ToolError) else None if call is None else explanation(call, error)
    if said is not None:
        return InternalError(said)
    if isinstance(error, RpcError) and place is None:
        return error
    server.report(error, call, None if place is None else {"place": place})
    return InternalError("Internal error")


def _encoded_error(
    server: Server, id: types.RequestId | None, error: RpcError, call: Call | None = None, *, null_id: bool = False
) -> bytes:
    for sayable in (error, RpcError(error.code, error.message)):
        try:
            return jsonrpc.encode_error(id, sayable, null_id=null_id)
        except ValidationError as misfit:
            server.report(misfit, call)
    return jsonrpc.encode_error(id, InternalError("Internal error"), null_id=null_id)


def opened_notification(
    server: Server, message: jsonrpc.Notification, caller: eras.Caller | None
) -> eras.McpRequest | None:
    """Return what a notification asks of a method of the server's own or of an extension; None if it asks nothing.

    A notification that cannot be opened is reported, because nobody is answered.
    """
    offer = server.offer_for_notification(message.method)
    if offer is None:
        return None
    # Only requests must say which version they are of.
    caller = caller or offer.default_caller or eras.Caller(offer.versions[0])
    try:
        return eras.open(jsonrpc.Request(NO_ID, message.method, message.params), offer, caller)
    except RpcError as error:
        server.report(error, None, {"notification": message.method})
        return None


async def run_notification(call: Call) -> None:
    """Run a method of the server's own that nobody is answered for; what it raises is reported."""
    server = call.server
    call.settings = server.settings
    try:
        await (serve(call) if server.around is None else server.around(call))
    except BaseException as error:
        if not call.is_given_up_by(error):
            server.report(error, None, {"notification": call.request.method.name})
    finally:
        call.ended = True
