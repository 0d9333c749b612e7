"""The runner: turns every request into its response, for all transports.

The code that receives a request (`duplex`, `http`, `serving`) opens it (`opening`) and passes its `Call` to `run`. The
stages are: middleware and hooks, if there are any; the handler; questions to the client (`asking.settle`); seal;
encode. The runner converts exceptions into error responses. A cancelled request has no response. Middleware also runs
for a request that cannot be opened. `refusal` makes the response to a message that is not a request.

`run_detached` runs a call apart from its request, and returns its result instead of a response.

`run` returns the response if it is known at once, and otherwise a coroutine that returns the response. The runner
records the outcome in the call: `refusal` is the error that was sent, and `failure_label` labels a result with
`isError`.

A handler returns an unsealed result, sealed and cached bytes (`Raw`), or a coroutine that returns either. A handler
whose request is served by an author's function sets `call.target` and `call.arguments` instead. The runner then calls
`target.begin` and passes its value to `target.result`, in the same way for a `def` and an `async def`. If the value
holds files to read, `target.result` returns a coroutine; its value goes to `target.result` again.

Rejected: a coroutine for every request. Most responses are known at once, and a coroutine with its task costs more than
such a response.
"""

from __future__ import annotations

from collections.abc import Coroutine
from functools import partial
from types import CoroutineType
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Raw

from dragoman import types
from dragoman.errors import (
    WITHHELD,
    DefinitionError,
    InternalError,
    RpcError,
    StoreUnavailable,
    ToolError,
    UrlElicitationRequired,
    ValidationError,
)
from dragoman.protocol import eras, jsonrpc
from dragoman.protocol.extensions import CORE_RESULT_TYPES
from dragoman.protocol.methods import declares
from dragoman.runtime.callables import CallerCoroutine, ThreadCall
from dragoman.server.define.tool_results import ResultMisfit
from dragoman.server.dispatch.dispatcher import Dispatcher, dispatcher_of
from dragoman.server.dispatch.observing import noted, observed, observes
from dragoman.server.request.asking import RUN_AGAIN, explanation, settle
from dragoman.server.request.call import Call
from dragoman.server.request.questions import InputRequired
from dragoman.types import CallToolResult

if TYPE_CHECKING:
    from dragoman.protocol.versions import Version
    from dragoman.server.registry import Listing

_PENDING = frozenset({CoroutineType, CallerCoroutine, ThreadCall})
"""The types of a value that must be awaited."""
STORE_AWAY = "The store of this server cannot be reached; try again later"


def run(call: Call) -> bytes | Coroutine[Any, Any, bytes]:
    """Run a request; return its response, or a coroutine that returns the response.

    Raises:
        CancelledError: other code cancelled the task, and the request itself was not cancelled.
    """
    server = dispatcher_of(call)
    call.settings = server.offering.settings
    if observes(call):
        return observed(call, partial(_answer_noted, call))
    if server.middleware_chain is not None:
        return _answer_later(call, server.middleware_chain(call))
    if call.rejection is not None:
        return _refuse(call, call.rejection)
    if server.around_methods and call.request.method.name in server.around_methods:
        return _answer_later(call, serve(call))
    value, error = _begin(call)
    if call.asking is None and type(value) not in _PENDING and not _asks(value, error):
        return _answer(call, value, error)
    return _settle(call, value, error)


async def run_detached(call: Call, *, seals: bool = True) -> Any:
    """Run a detached call; return its result as the client would receive it, or the questions (`InputRequiredResult`).

    Without `seals`, the result is that of the handler; a page of a list may be encoded bytes.

    Raises:
        RpcError: the error that the client would receive.
        CancelledError: the call was cancelled.
    """
    call.settings = dispatcher_of(call).offering.settings
    return await (
        observed(call, partial(_run_detached, call, seals=seals))
        if observes(call)
        else _run_detached(call, seals=seals)
    )


async def _run_detached(call: Call, *, seals: bool) -> Any:
    try:
        result = await noted(call, _outcome(call))
        if isinstance(result, types.InputRequiredResult) or not seals:
            return result
        _check_result_type(call, result)
        return _seal(dispatcher_of(call), result, call.request.caller.version)
    except BaseException as error:
        if call.is_cancelled_by(error):
            raise
        call.refusal = _error_to_send(call, error)
        if call.refusal is error:
            raise
        call.refusal.label = label_of(error)
        raise call.refusal from error
    finally:
        call.ended = True
        await call.clean_up()


def _outcome(call: Call) -> Coroutine[Any, Any, Any]:
    """Return the coroutine of the unsealed result, within the middleware and hooks, if there are any."""
    chain = dispatcher_of(call).middleware_chain
    return serve(call) if chain is None else chain(call)


async def whole_answer(call: Call) -> bytes:
    """Run a request and return its response."""
    answer: Any = run(call)
    return await answer if type(answer) is CoroutineType else answer  # type: ignore[no-any-return]


async def _answer_later(call: Call, outcome: Coroutine[Any, Any, Any]) -> bytes:
    try:
        result = await outcome
    except BaseException as error:
        return _refuse(call, error)
    return _answer(call, result)


def _answer_noted(call: Call) -> Coroutine[Any, Any, bytes]:
    return _answer_later(call, noted(call, _outcome(call)))


def _begin(call: Call) -> tuple[Any, BaseException | None]:
    """Call the handler and, if it set one, the target; return the value or coroutine, and the exception."""
    server = dispatcher_of(call)
    try:
        value = server.handlers[call.request.method.name](server, call)
        target = call.target
        if target is not None:
            value = target.begin(call)
            if type(value) not in _PENDING:
                value = target.result(call, value)
    except BaseException as error:
        return None, error
    return value, None


def _asks(value: Any, error: BaseException | None) -> bool:
    """Tell whether the value or the exception of a handler asks the client a question."""
    return isinstance(value, InputRequired) or isinstance(error, UrlElicitationRequired)


async def serve(call: Call) -> Any:
    """Run the handler of a request, within the extensions, and return the unsealed result.

    Raises:
        BaseException: the exception of the handler, or the error of a request that was refused before its handler.
    """
    if call.rejection is not None:
        raise call.rejection
    server, method = dispatcher_of(call), call.request.method.name
    installed = server.installed
    if method in server.around_methods and server.registry.facts.has_visibility:
        from dragoman.server.dispatch.visibility import hidden_definitions

        call.hidden = await hidden_definitions(call)
    if installed is None or method not in installed.around_methods:
        return await _serve_handler(call)
    try:
        if method == "tools/call":
            server.handlers[method](server, call)  # refuses an unknown tool before the extensions see it
        return await installed.around(call, partial(_serve_handler, call))
    except BaseException as error:
        return _failure_result(call, error)


async def _serve_handler(call: Call) -> Any:
    return await _settle(call, *_begin(call), answers=False)


async def _settle(call: Call, value: Any, error: BaseException | None, *, answers: bool = True) -> Any:
    """Await a handler, and run it again while it has questions; return the response, or the result if not `answers`."""
    try:
        while True:
            value, error = await _settle_once(call, value, error)
            if value is RUN_AGAIN:
                value, error = _begin(call)
            elif answers:
                return _answer(call, value, error)
            else:
                return value if error is None else _failure_result(call, error)
    finally:
        del value, error  # the traceback of the error refers to this frame


async def _settle_once(call: Call, value: Any, error: BaseException | None) -> tuple[Any, BaseException | None]:
    """Await a handler, and ask its questions; return its value, or `RUN_AGAIN`, or its exception."""
    try:
        # A `def` may return the coroutine of an `async def`, and a result the coroutine that reads its files.
        while type(value) in _PENDING:
            if type(value) is ThreadCall:
                value = await value.result()
            else:
                value = await (_watched(call, value) if call.server.debug else value)
            target = call.target
            if target is not None and type(value) not in _PENDING:
                value = target.result(call, value)
    except BaseException as raised:
        value, error = None, raised
    try:
        if call.asking is not None or (type(value) is not CallToolResult and _asks(value, error)):
            return await settle(call, value, error), None
    except BaseException as raised:
        return None, raised
    else:
        return value, error
    finally:
        del value, error


def _watched(call: Call, handler: Coroutine[Any, Any, Any]) -> Coroutine[Any, Any, Any]:
    from dragoman.server.dispatch.reporting import watched

    return watched(call, handler)


def _failure_result(call: Call, error: BaseException) -> CallToolResult:
    """Return the result with `isError` for the exception of a tool; re-raise any other exception."""
    if call.request.method.name == "tools/call":
        text = str(error) if isinstance(error, ToolError) else explanation(call, error)
        if text is not None:
            call.failure_label = ToolError.label
            return failure(text)
        if not isinstance(error, RpcError) and not call.is_cancelled_by(error):
            call.server.report(error, call)
            call.failure_label = label_of(error)
            return failure(_withheld(dispatcher_of(call), error, WITHHELD))
    raise error


def failure(message: str) -> CallToolResult:
    """Return a result with `isError` and a message for the model."""
    return CallToolResult([types.TextContent(message)], is_error=True)


def _answer(call: Call, result: Any, failed: BaseException | None = None) -> bytes:
    """Return the response: the result, sealed and encoded, or the response for the exception of the handler."""
    call.ended = True
    request, server = call.request, dispatcher_of(call)
    version = request.caller.version
    try:
        if failed is not None:
            result = _failure_result(call, failed)
        if call.cancelled:
            call.withdraw_cancellation()  # the handler caught it
        if type(result) is not Raw:
            _check_result_type(call, result)
            result = _seal(server, result, version)
        return jsonrpc.encode_result(request.id, result)
    except BaseException as error:
        return _refuse(call, error) if error is failed else _answer(call, None, error)


def _check_result_type(call: Call, result: Any) -> None:
    """Check the `resultType` of a result: it belongs to the protocol, or to an extension that the client declared.

    A method of `server.method` may return any result type.

    Raises:
        ResultMisfit: the method cannot return this result type to this client.
    """
    given = result.get("resultType") if isinstance(result, dict) else getattr(result, "result_type", None)
    if given is None or given in CORE_RESULT_TYPES or call.request.method in dispatcher_of(call).offering.own_methods:
        return
    caller, method = call.request.caller, call.request.method.name
    row = call.server.offer.table.answering(method, given, caller.version)
    if row is None or not declares(caller.capabilities, row.shared):
        raise ResultMisfit(f"A result of the type {given!r} cannot answer {method} here")


def sealed_page(call: Call, listing: Listing) -> Raw:
    """Return the page of a list that a request asks for, sealed, encoded and cached."""
    request = call.request
    return listing.page(request.params.cursor, request.caller.version, partial(_seal, dispatcher_of(call)))


def encoded_result(call: Call, result: Any) -> Raw:
    """Return a result as the client of a call receives it; a result that is sealed and encoded already stays itself."""
    if type(result) is Raw:
        return result
    return Raw(jsonrpc.encode(_seal(dispatcher_of(call), result, call.request.caller.version)))


def _seal(server: Dispatcher, result: Any, version: Version) -> Any:
    """Return a result in the form of a version; missing cache hints are those of the server."""
    info = server.identity.info_bytes
    if not isinstance(result, types.Result):
        return eras.seal_value(result, version, info)
    return eras.seal(with_cache_hints(server, result) if version.has_cache_hints else result, version, info)


def with_cache_hints(server: Dispatcher, result: Any) -> Any:
    """Return a result whose missing cache hints are those of a server, if the result can have them."""
    if not isinstance(result, types.CacheableResult):
        return result
    ttl_ms, cache_scope = server.cache_hints
    # The result is copied, because an author may return the same object for every request.
    return msgspec.structs.replace(
        result,
        ttl_ms=ttl_ms if result.ttl_ms is None else result.ttl_ms,
        cache_scope=cache_scope if result.cache_scope is None else result.cache_scope,
    )


def _refuse(call: Call, error: BaseException) -> bytes:
    """Return the error response, or the response of a cancelled request."""
    call.ended = True
    if call.is_cancelled_by(error):
        return _answer_cancelled(call, error)
    if call.cancelled:
        call.withdraw_cancellation()
    call.refusal = _error_to_send(call, error)
    return _encoded_error(dispatcher_of(call), call.request.id, call.refusal, call)


def _error_to_send(call: Call, error: BaseException) -> RpcError:
    # A rejection is not sealed for the version, because the error may be about the version itself.
    if call.rejection is not None and error is call.rejection:
        return call.rejection
    return eras.seal_error(rpc_error(dispatcher_of(call), error, call), call.request.caller.version)


async def outcome_of(call: Call, error: BaseException) -> Any:
    """Convert an exception to the outcome that the client receives: a result with `isError` for a ToolError.

    If a middleware asked the client a question in the stateless era, the outcome is the `input_required` result.

    Raises:
        RpcError: the error to send for any other exception.
        BaseException: the exception itself, if it comes from the cancellation of the request, or if nothing is sent,
            because the call is a notification.
    """
    if call.asking is not None and call.asking.is_stopping:
        return await settle(call, None, error)
    if isinstance(error, UrlElicitationRequired):
        try:
            return await settle(call, None, error)
        except (RpcError, DefinitionError) as raised:
            error = raised
    if call.is_cancelled_by(error) or call.is_notification:
        raise error
    if isinstance(error, ToolError) and call.request.method.name == "tools/call":
        return _failure_result(call, error)
    sent = _error_to_send(call, error)
    if sent is error:
        raise error
    sent.label = label_of(error)
    raise sent from error


def label_of(error: BaseException) -> str:
    """Return the label that hooks receive for an exception."""
    return error.label if isinstance(error, RpcError | ToolError | StoreUnavailable) else "internal_error"


def _answer_cancelled(call: Call, error: BaseException) -> bytes:
    """Return no response, or the error of a request that the server stopped.

    Raises:
        BaseException: the error, if the request was not cancelled.
        CancelledError: the task was also cancelled by other code.
    """
    from asyncio import CancelledError

    if not call.cancelled and isinstance(error, CancelledError):
        call.stopped = call.channel.end_error
        call.cancelled = call.stopped is not None
    if not call.cancelled:
        raise error
    if not call.withdraw_cancellation():
        raise CancelledError
    return b"" if call.stopped is None else stopped(call, call.stopped)


def stopped(call: Call, why: RpcError) -> bytes:
    """Return the response to a request that is stopped because the server or the session ends."""
    call.stopped = call.stopped or why
    return refusal(dispatcher_of(call), call.stopped, call.request.id)


def refusal(
    server: Dispatcher,
    error: BaseException,
    id: types.RequestId | None = None,
    *,
    null_id: bool = False,
    place: str | None = None,
) -> bytes:
    """Return an error response; `place` names the part of the server that failed.

    With a `place`, the error is reported, and the client receives only "Internal error".
    """
    return _encoded_error(server, id, rpc_error(server, error, place=place), null_id=null_id)


def rpc_error(
    server: Dispatcher, error: BaseException, call: Call | None = None, *, place: str | None = None
) -> RpcError:
    """Return the error to send; an exception that is not meant for clients is reported and replaced."""
    text = str(error) if isinstance(error, ToolError) else None if call is None else explanation(call, error)
    if text is not None:
        return InternalError(text)
    if isinstance(error, ResultMisfit):
        server.report(error.__cause__ or error, call)
        return InternalError(error.message)
    if isinstance(error, RpcError) and place is None:
        return error
    server.report(error, call, None if place is None else {"place": place})
    sent = InternalError(_withheld(server, error, "Internal error"))
    if isinstance(error, StoreUnavailable):
        sent.label = error.label  # the status over HTTP depends on it
    return sent


def _withheld(server: Dispatcher, error: BaseException, text: str) -> str:
    """Return the text that replaces an exception which is not meant for clients; in development, its own text."""
    if server.debug and isinstance(error, Exception):
        from dragoman.server.dispatch.reporting import described

        return described(error)
    return STORE_AWAY if isinstance(error, StoreUnavailable) else text


def _encoded_error(
    server: Dispatcher, id: types.RequestId | None, error: RpcError, call: Call | None = None, *, null_id: bool = False
) -> bytes:
    for candidate in (error, RpcError(error.code, error.message)):
        try:
            return jsonrpc.encode_error(id, candidate, null_id=null_id)
        except ValidationError as misfit:
            server.report(misfit, call)
    return jsonrpc.encode_error(id, InternalError("Internal error"), null_id=null_id)


async def run_notification(call: Call) -> None:
    """Run the handler of a notification; an exception is reported, because a notification has no response."""
    call.settings = dispatcher_of(call).offering.settings
    await (observed(call, partial(_run_notification, call)) if observes(call) else _run_notification(call))


async def _run_notification(call: Call) -> None:
    try:
        await _outcome(call)
    except BaseException as error:
        if not call.is_cancelled_by(error):
            call.refusal = error if isinstance(error, RpcError) else InternalError("Internal error")
            call.server.report(error, None, {"notification": call.request.method.name})
    finally:
        call.ended = True
