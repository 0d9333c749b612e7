"""`composed`: one function that runs a request within the author's middleware and the hooks of the configuration.

A middleware is an `async def (ctx, call_next)`. It runs once for each request, including a request that is refused
before its handler; `call_next()` then raises the refusal. The server composes all middleware into one function at each
registration and each change of the configuration. The first middleware is the outermost. The runner calls this function
if there is one.

Middleware receives objects. A cached page of a list is decoded for middleware; if middleware returns it unchanged, the
server sends the cached bytes. An exception that leaves a handler or a middleware is converted at once into a result or
an RpcError, so that the outer middleware sees the outcome that the client will receive. If a middleware asks the client
a question in the stateless era, its outcome is the `input_required` result.

A middleware may run the rest of the chain in another task, as `asyncio.wait_for` does before Python 3.12, and may run
it again. A question of the stateless era then ends the run in that task, and the keys of questions begin anew. The
exception of a notification is not converted, because nothing is sent; the runner reports it.

The hooks `around_request` and `instrumentation_callback` run around all middleware. They receive a dict for each
request, with the method before the request runs, and with its subject and outcome afterwards. The server reports an
exception of a hook; the request does not fail. The `exception_reporter` is not a middleware, because it also receives
errors that belong to no request.

Rejected: composing the middleware for each request. Every request would repeat work that registration can do once.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Coroutine
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import UNSET, Raw

from dragoman import types
from dragoman.errors import ResourceNotFound, ToolError
from dragoman.protocol.jsonrpc import encode
from dragoman.protocol.methods import METHOD_NAMES
from dragoman.runtime.callables import invoke
from dragoman.server.dispatch.dispatcher import dispatcher_of
from dragoman.server.dispatch.observing import is_mounted, registered_uri
from dragoman.server.dispatch.runner import label_of, outcome_of, serve
from dragoman.server.request.asking import NO_CHECKPOINT, Checkpoint
from dragoman.server.request.call import Call
from dragoman.server.request.context import Context
from dragoman.server.request.facts import readable
from dragoman.types.decoding import decoders

if TYPE_CHECKING:
    from dragoman.config import Configuration
    from dragoman.server.settings import ServerSettings

CallNext = Callable[[], Awaitable[object]]
"""Runs the rest of the chain: returns the result as an object of `dragoman.types`, or raises the RpcError to send.

The result of a method of `server.method` may be any value.
"""
Middleware = Callable[[Context, CallNext], Awaitable[object]]
Chain = Callable[[Call], Coroutine[Any, Any, Any]]
"""Runs a request within all middleware and hooks."""
_Serve = Callable[[Context], Coroutine[Any, Any, Any]]
CANCELLED = "cancelled"
"""The label of a request that was cancelled, whatever its handler did afterwards."""
UNSUPPORTED = "unsupported_method"
"""The label of a method that the server does not offer."""


def composed(middlewares: tuple[Middleware, ...], settings: ServerSettings) -> Chain | None:
    """Return the function that runs a request within the middleware and the hooks; None if there are none."""
    if not middlewares and not settings.is_observed:
        return None
    inner: _Serve = _serve_objects if middlewares else _serve
    for middleware in reversed(middlewares):
        inner = partial(_serve_within, middleware, inner)
    if middlewares:
        inner = partial(_serve_cached_page, inner)
    if settings.is_observed:
        inner = partial(_observe, settings.configuration, inner)
    return lambda call: inner(Context(call))


async def _serve(ctx: Context) -> Any:
    return await serve(ctx._call)


async def _serve_objects(ctx: Context) -> Any:
    """Serve a request for middleware: return its result as an object, or raise the error to send."""
    call = ctx._call
    try:
        result = await serve(call)
    except BaseException as error:
        result = await outcome_of(call, error)
    if type(result) is Raw:
        call.encoded_page = result
    elif call.target is None and type(result) is call.request.method.result:
        # The result may hold objects of the server, such as its capabilities. Middleware gets a copy to change.
        result = encode(result)
    else:
        return result
    return _decoded(call, result)


def _decoded(call: Call, result: bytes | Raw) -> Any:
    """Return a result as an object; a result that another server made, and that is of another type, is a dict.

    The entries of a list have the fields of extensions.
    """
    method, kind = call.request.method, call.request.method.result
    if issubclass(kind or types.Result, types.PaginatedResult) and method.name in METHOD_NAMES:
        kind = call.server.offer.table.page_type(method.name, call.request.caller.version)
    try:
        return decoders[kind].decode(result)
    except msgspec.ValidationError:
        return msgspec.json.decode(result)


async def _serve_within(middleware: Middleware, inner: _Serve, ctx: Context) -> Any:
    from asyncio import current_task

    call, served = ctx._call, object()
    checkpoint: Checkpoint | None = None

    async def call_next() -> object:
        nonlocal served, checkpoint
        if checkpoint is None:
            checkpoint = NO_CHECKPOINT if call.asking is None else call.asking.checkpoint()
        elif call.asking is not None:
            call.asking.run_again(checkpoint)
        outer, call.handler_task = call.handler_task, current_task()
        try:
            served = await inner(ctx)
        finally:
            own, call.handler_task = call.handler_task, outer
            # A dependency may hold a task group, which must be left in the task that entered it.
            if call.dependencies is not None and own is not (outer or call.task):
                await call.clean_up()
        return served

    try:
        result = await middleware(ctx, call_next)
    except BaseException as error:
        return await outcome_of(call, error)
    if result is served or isinstance(result, types.Result | dict):
        return result
    expected = "what call_next() gives, a result of dragoman.types or a dict"
    return await outcome_of(call, TypeError(f"{middleware!r} must return {expected}, not {result!r}"))


async def _serve_cached_page(inner: _Serve, ctx: Context) -> Any:
    """Run a request within all middleware; return the cached bytes of a page that middleware left unchanged.

    If middleware refuses `initialize` after its handler ran, the session does not begin.
    """
    call = ctx._call
    caller = call.session.caller
    try:
        result = await inner(ctx)
    except BaseException:
        if ctx.method == "initialize":
            call.session.caller = caller
        raise
    page = call.encoded_page
    is_unchanged = page is not None and result == _decoded(call, page)
    return page if is_unchanged else result


async def _observe(configuration: Configuration, inner: _Serve, ctx: Context) -> Any:
    """Run a request within the hooks of the configuration."""
    call = ctx._call
    # An unknown method must not become a label: clients could create any number of labels.
    data: dict[str, Any] = {"method": ctx.method if ctx.method in call.server.offer.client_methods else UNSUPPORTED}
    if configuration.instrument_server_context:
        data["server_context"] = ctx.server_context
    observation = _Observation(ctx, inner, data)
    started = time.perf_counter()
    try:
        return await _around(call, observation, configuration)
    finally:
        data["duration"] = time.perf_counter() - started
        if configuration.instrumentation_callback is not None:
            try:
                await invoke(configuration.instrumentation_callback, data, in_place=True)
            except Exception as error:
                call.server.report(error, call)


class _Observation:
    """The outcome of one request; the hook around the request cannot replace it."""

    def __init__(self, ctx: Context, inner: _Serve, data: dict[str, Any]) -> None:
        self._ctx = ctx
        self._inner = inner
        self.data = data
        self.result: Any = UNSET
        self.failure: BaseException | None = None

    async def call_next(self) -> Any:
        """Run the request once; a further call returns or raises the recorded outcome."""
        if self.failure is not None:
            raise self.failure
        if self.result is not UNSET:
            return self.result
        call = self._ctx._call
        try:
            self.result = await self._inner(self._ctx)
        except BaseException as error:
            self.failure = error
            raise
        finally:
            label = self._error_label()
            if label is not None:
                self.data["error"] = label
            if label == CANCELLED and call.cancel_reason is not None:
                self.data["cancel_reason"] = call.cancel_reason
            self.data.update(_facts(call, label))
        return self.result

    def _error_label(self) -> str | None:
        """Return the label of the outcome; None for a success. A handler may catch the cancellation and return."""
        call, failure = self._ctx._call, self.failure
        if call.cancelled or (failure is not None and call.is_cancelled_by(failure)):
            return CANCELLED
        if failure is not None:
            return label_of(failure)
        is_error = isinstance(self.result, types.CallToolResult) and self.result.is_error
        return (call.failure_label or ToolError.label) if is_error else None


async def _around(call: Call, observation: _Observation, configuration: Configuration) -> Any:
    if configuration.around_request is None:
        return await observation.call_next()
    try:
        await configuration.around_request(observation.data, observation.call_next)
    except BaseException as error:
        if error is not observation.failure:
            if call.is_cancelled_by(error):
                raise
            call.server.report(error, call)
            observation.data["error"] = "internal_error"
            if not isinstance(error, Exception):
                raise
    if observation.failure is not None:
        raise observation.failure
    # The request runs even if the hook failed before `call_next`, or did not call it.
    return await observation.call_next() if observation.result is UNSET else observation.result


def _facts(call: Call, error: str | None) -> dict[str, Any]:
    request, caller = call.request, call.request.caller
    if request.method.name == "initialize" and call.session.caller is not None:
        caller = call.session.caller
    info, params, server = caller.info, request.params, dispatcher_of(call)
    facts: dict[str, Any] = {} if info is None else {"client": {"name": info.name, "version": info.version}}
    if call.rejection is not None:
        return facts
    # Only registered names and URIs become labels: clients could create any number of others.
    match request.method.name:
        case "tools/call" if params.name in server.registry.tools or is_mounted(server, "tools", params.name):
            arguments = {} if params.arguments is UNSET else readable(params.arguments) or {}
            facts |= {"tool_name": params.name, "tool_arguments": arguments}
        case "prompts/get" if params.name in server.registry.prompts or is_mounted(server, "prompts", params.name):
            facts["prompt_name"] = params.name
        case "resources/read" if error != ResourceNotFound.label:
            resource = registered_uri(server, params.uri)
            if resource is not None:
                facts["resource_template" if resource.is_template else "resource_uri"] = resource.uri
    return facts
