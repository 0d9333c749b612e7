"""The runner: the one place in which a request becomes an answer, whatever transport received it.

A transport opens a request, makes a `Call` of it and gives it to `run`. The stages are: middleware and hooks (skipped
if there are none), the handler, questions to the client (`asking.settle`), seal, encode. Errors are turned into error
responses here, and cancelled requests end here without an answer. A request that cannot be opened is refused by
`refusal`; if there is middleware, the transport makes a `Call` of it too and gives it to `run_refused`.

`run` returns bytes if the answer is known at once, and otherwise a coroutine that gives them, for the transport to
await. The outcome is recorded in the call: `refusal` is the error that it was answered with, and `failure_label` names
the failure of a result with `isError`.

A handler returns a result that is not sealed, bytes that were sealed and cached (`Raw`), or a coroutine that gives
either. A handler that leads to a function of the author's sets `call.target` and `call.arguments` instead; the runner
calls the target and makes a result of its value. So a definition has one way to finish, for `def` and `async def`.

A coroutine for every request was rejected: most answers are known at once, and a coroutine and its task cost more than
such an answer.
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
"""A message to send: whole, or in parts if the channel takes parts and the result is large. Empty: no message."""
LARGE_BYTES = 64 * 1024
"""From this size on, an encoded result is not copied into its answer."""
INTERNAL_ERROR = "Internal error occurred"
NO_ID = ""
"""The id of a notification, which has none on the wire."""


def run(call: Call) -> Answer | Coroutine[Any, Any, Answer]:
    """Run a request, and return its answer, or a coroutine that gives it.

    Raises:
        CancelledError: the task that serves the request was cancelled, although the request was not.
    """
    server = call.server
    call.settings = server.settings
    if server.middleware_chain is not None:
        return _answer_later(call, server.middleware_chain(call))
    if server.installed is not None and server.installed.wraps_calls and call.request.method.name == "tools/call":
        return _answer_later(call, serve(call))
    value, error = _begin(call)
    if type(value) is CoroutineType or call.asking is not None:
        return _settle(call, value, error)
    if type(value) is not types.CallToolResult and _asks(value, error):
        return _settle(call, value, error)
    call.ended = True
    return _answer(call, value) if error is None else _fail(call, error)


def run_refused(call: Call, error: BaseException) -> Coroutine[Any, Any, Answer]:
    """Run the middleware of a request that is refused before any handler, and return its answer.

    The answer is the error, unless middleware replaces it; `call.refusal` is the error that was sent.
    """
    server = call.server
    call.settings = server.settings
    if isinstance(error, MethodNotFound):
        server.warn_of_unserved()
    call.rejection = _rpc_error(server, error)
    return _answer_later(call, serve(call) if server.middleware_chain is None else server.middleware_chain(call))


async def whole_answer(call: Call) -> bytes:
    """Run a request to its end, for a transport that waits for the answer and takes no parts."""
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
    """Call the handler; return its value, which may be a coroutine, or the exception that it raised."""
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


def _asks(value: Any, error: BaseException | None) -> bool:
    """Tell whether a run ended with a question to the client."""
    return isinstance(value, InputRequired) or isinstance(error, UrlElicitationRequired)


async def serve(call: Call) -> Any:
    """Return the result of a request, not sealed, or raise the exception that it is refused with."""
    if call.rejection is not None:
        raise call.rejection
    installed = call.server.installed
    if installed is None or not installed.wraps_calls or call.request.method.name != "tools/call":
        return await _serve_handler(call)
    try:
        return await installed.around(call, partial(_serve_handler, call))
    except BaseException as error:
        return _failure_result(call, error)
    finally:
        call.plain_result = None  # the extension may change it


async def _serve_handler(call: Call) -> Any:
    return await _settle(call, *_begin(call), answers=False)


async def _settle(call: Call, value: Any, error: BaseException | None, *, answers: bool = True) -> Any:
    """Await a handler, and run it again until no question is left; return the answer, or only the result."""
    while True:
        if type(value) is CoroutineType:
            try:
                value = await value
                if type(value) is CoroutineType:  # from a `def` that returned the coroutine of an `async def`
                    value = await value
                target = call.target
                if target is not None:
                    value = target.result(call, value)
            except BaseException as raised:
                value, error = None, raised
        if call.asking is not None or (type(value) is not types.CallToolResult and _asks(value, error)):
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
            return value if error is None else _failure_result(call, error)


def _failure_result(call: Call, error: BaseException) -> types.CallToolResult:
    """Return the result of a tool that failed, for the model to read; raise any other failure."""
    if call.request.method.name == "tools/call":
        text = str(error) if isinstance(error, ToolError) else explanation(call, error)
        if text is not None:
            call.failure_label = ToolError.label
            return failure(text)
        if not isinstance(error, RpcError) and not call.is_cancelled_by(error):
            call.server.report(error, call)
            call.failure_label = "internal_error"
            return failure(INTERNAL_ERROR)
    raise error


def _answer(call: Call, result: Any) -> Answer:
    """Seal a result and encode it."""
    request = call.request
    version = request.caller.version
    try:
        if result is not call.plain_result or not eras.leaves_tool_results_unchanged[version]:
            if type(result) is types.CallToolResult:  # it has no cache hints, which `seal` would add
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
    """Refuse a result whose type no extension that the client declared has for this method.

    A method of the server's own may return any type.

    Raises:
        InternalError: the type may not answer the request.
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
    """Answer for a handler that failed, or for a result that cannot be sent."""
    try:
        return _answer(call, _failure_result(call, error))
    except BaseException as raised:
        return _refuse(call, raised)


def seal(server: Server, result: Any, version: Version) -> Any:
    """Return a result as a version carries it; the server's cache hints fill in those that it lacks."""
    if not isinstance(result, types.Result):
        return eras.seal_value(result, version, server.info_bytes)
    if version.stateless and isinstance(result, types.CacheableResult):
        ttl_ms, cache_scope = server.cache_hints
        # A copy, because an author may return the same object every time.
        result = msgspec.structs.replace(
            result,
            ttl_ms=ttl_ms if result.ttl_ms is None else result.ttl_ms,
            cache_scope=cache_scope if result.cache_scope is None else result.cache_scope,
        )
    return eras.seal(result, version, server.info_bytes)


def _refuse(call: Call, error: BaseException) -> bytes:
    """Answer with an error, or with nothing if the request was cancelled."""
    if call.is_cancelled_by(error):
        return _answer_cancelled(call, error)
    call.refusal = _error_to_send(call, error)
    return _encoded_error(call.server, call.request.id, call.refusal, call)


def _error_to_send(call: Call, error: BaseException) -> RpcError:
    # A rejection stays as it is, because it may be about the version itself.
    if call.rejection is not None and error is call.rejection:
        return call.rejection
    return eras.seal_error(_rpc_error(call.server, error, call), call.request.caller.version)


def outcome_of(call: Call, error: BaseException) -> types.CallToolResult:
    """Return the result that an exception is answered with: that of a failed tool, for a ToolError.

    Raises:
        RpcError: the error that the exception is answered with.
        BaseException: the exception itself, if the request was cancelled.
    """
    if call.is_cancelled_by(error):
        raise error
    if isinstance(error, ToolError) and call.request.method.name == "tools/call":
        return _failure_result(call, error)
    sent = _error_to_send(call, error)
    if sent is error:
        raise error
    sent.label = label_of(error)
    raise sent from error


def label_of(error: BaseException) -> str:
    """Return the label of a failure for hooks, from a small set."""
    return error.label if isinstance(error, RpcError | ToolError) else "internal_error"


def _answer_cancelled(call: Call, error: BaseException) -> bytes:
    """Answer nothing, or that the server stopped the request; re-raise a cancellation that has another cause."""
    if not call.cancelled:
        raise error
    from asyncio import CancelledError

    from dragoman.runtime.tasks import uncancelled

    if not uncancelled():
        raise CancelledError
    return stopped(call) if call.stopped is not None else b""


def stopped(call: Call) -> bytes:
    """Return the answer to a request that was stopped because the server, or its session, ends."""
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
    """Return an error response; an error in a `place` of the server's own is reported and not sent."""
    if isinstance(error, MethodNotFound):
        server.warn_of_unserved()
    return _encoded_error(server, id, _rpc_error(server, error, place=place), null_id=null_id)


def _rpc_error(server: Server, error: BaseException, call: Call | None = None, *, place: str | None = None) -> RpcError:
    """Return the error to answer with; an exception that was not meant for the client is reported and not sent."""
    text = str(error) if isinstance(error, ToolError) else None if call is None else explanation(call, error)
    if text is not None:
        return InternalError(text)
    if isinstance(error, RpcError) and place is None:
        return error
    server.report(error, call, None if place is None else {"place": place})
    return InternalError("Internal error")


def _encoded_error(
    server: Server, id: types.RequestId | None, error: RpcError, call: Call | None = None, *, null_id: bool = False
) -> bytes:
    for candidate in (error, RpcError(error.code, error.message)):
        try:
            return jsonrpc.encode_error(id, candidate, null_id=null_id)
        except ValidationError as misfit:
            server.report(misfit, call)
    return jsonrpc.encode_error(id, InternalError("Internal error"), null_id=null_id)


def open_notification(
    server: Server, message: jsonrpc.Notification, caller: eras.Caller | None
) -> eras.McpRequest | None:
    """Return a notification as a request to a method of the server's own or of an extension; None if none handles it.

    A notification that cannot be opened is reported, because it has no answer.
    """
    offer = server.offer_for_notification(message.method)
    if offer is None:
        return None
    # Only requests must name their version.
    caller = caller or offer.default_caller or eras.Caller(offer.versions[0])
    try:
        return eras.open(jsonrpc.Request(NO_ID, message.method, message.params), offer, caller)
    except RpcError as error:
        server.report(error, None, {"notification": message.method})
        return None


async def run_notification(call: Call) -> None:
    """Run the handler of a notification; an exception is reported, because there is no answer."""
    server = call.server
    call.settings = server.settings
    try:
        await (serve(call) if server.middleware_chain is None else server.middleware_chain(call))
    except BaseException as error:
        if not call.is_cancelled_by(error):
            server.report(error, None, {"notification": call.request.method.name})
    finally:
        call.ended = True
