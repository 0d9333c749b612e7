"""Middleware around requests: that of the author, and the hooks of the configuration.

Middleware is `async def (ctx, call_next)`. It runs once for each request, also for one that is refused before any
handler: `call_next()` raises the refusal then. All middleware is composed into one function when it is registered or
configured, the first outermost; the runner calls that function, or nothing if there is none.

Middleware receives objects. A page of a list, which is cached as bytes, is decoded for it; the bytes are sent if the
page comes back unchanged. An exception is turned into the outcome that it is answered with, a result or an RpcError, as
soon as it leaves a handler or a middleware, so that the middleware around it sees that outcome. If a middleware asks
the client, in the stateless era, its outcome is the `input_required` result.

The hooks `around_request` and `instrumentation_callback` are a middleware around all others. They receive a dict that
belongs to the request alone. It has the method before the request is served, and its subject and outcome afterwards. A
hook that fails is reported, and never fails the request. The `exception_reporter` is no middleware, because it also
receives errors from outside of requests.

A chain that is built for each request was rejected: every request would pay for what is known at registration.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Coroutine
from functools import partial
from typing import TYPE_CHECKING, Any

from msgspec import UNSET, Raw

from dragoman import types
from dragoman.errors import ResourceNotFound, ToolError
from dragoman.protocol.jsonrpc import encode
from dragoman.runtime.callables import invoke
from dragoman.server.dispatch.runner import label_of, outcome_of, serve
from dragoman.server.request.asking import settle
from dragoman.server.request.call import Call
from dragoman.server.request.context import Context, readable
from dragoman.types.decoding import decoders

if TYPE_CHECKING:
    from dragoman.config import Configuration
    from dragoman.server.settings import ServerSettings

CallNext = Callable[[], Awaitable[object]]
"""Serves the request: returns its result as an object of `dragoman.types`, or raises the RpcError that is answered.

A method of the server's own may have any other result.
"""
Middleware = Callable[[Context, CallNext], Awaitable[object]]
Chain = Callable[[Call], Coroutine[Any, Any, Any]]
"""Serves a request within all middleware and hooks."""
_Serve = Callable[[Context], Coroutine[Any, Any, Any]]
UNSUPPORTED = "unsupported_method"
"""The label of a method that neither the protocol nor the server has."""


def composed(middlewares: tuple[Middleware, ...], settings: ServerSettings) -> Chain | None:
    """Return the function that serves a request within the middleware and the hooks; None if there are none."""
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
    """Serve a request for middleware: return its result as an object, or raise the error that it is answered with."""
    call = ctx._call
    try:
        result = await serve(call)
    except BaseException as error:
        result = outcome_of(call, error)
    call.plain_result = None  # middleware may change it
    kind = call.request.method.result
    if type(result) is Raw:
        call.encoded_page = result
    elif call.target is None and type(result) is kind:
        # The result may hold objects of the server, such as its capabilities, which middleware must not change.
        result = encode(result)
    else:
        return result
    return decoders[kind].decode(result)


async def _serve_within(middleware: Middleware, inner: _Serve, ctx: Context) -> Any:
    served: object = UNSET

    async def call_next() -> object:
        nonlocal served
        served = await inner(ctx)
        return served

    call = ctx._call
    try:
        result = await middleware(ctx, call_next)
    except BaseException as error:
        if call.asking is not None and call.asking.is_stopping:
            return await settle(call, None, error)
        return outcome_of(call, error)
    if result is served or isinstance(result, types.Result | dict):
        return result
    expected = "what call_next() gives, a result of dragoman.types or a dict"
    return outcome_of(call, TypeError(f"{middleware!r} must return {expected}, not {result!r}"))


async def _serve_cached_page(inner: _Serve, ctx: Context) -> Any:
    """Serve a request within all middleware, and return the cached bytes of a page that comes back unchanged.

    A session does not begin if middleware refuses `initialize` after its handler.
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
    is_unchanged = page is not None and result == decoders[call.request.method.result].decode(page)
    return page if is_unchanged else result


async def _observe(configuration: Configuration, inner: _Serve, ctx: Context) -> Any:
    """Serve a request within the hooks of the configuration."""
    call = ctx._call
    # A method that a client made up must not become a label, because there would be no bound on labels.
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
    """The outcome of one request, kept apart from what the hook around it does with it."""

    def __init__(self, ctx: Context, inner: _Serve, data: dict[str, Any]) -> None:
        self._ctx = ctx
        self._inner = inner
        self.data = data
        self.result: Any = UNSET
        self.failure: BaseException | None = None

    async def call_next(self) -> Any:
        """Serve the request once, however often the hook calls this."""
        if self.failure is not None:
            raise self.failure
        if self.result is not UNSET:
            return self.result
        call = self._ctx._call
        try:
            self.result = await self._inner(self._ctx)
        except BaseException as error:
            self.failure = error
            cancelled = call.is_cancelled_by(error)
            self.data["error"] = "cancelled" if cancelled else label_of(error)
            if cancelled and call.cancel_reason is not None:
                self.data["cancel_reason"] = call.cancel_reason
            raise
        finally:
            self.data.update(_facts(call, self.data.get("error")))
        if isinstance(self.result, types.CallToolResult) and self.result.is_error:
            self.data["error"] = call.failure_label or ToolError.label
        return self.result


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
    # The request is served even if the hook failed before it, or did not call `call_next`.
    return await observation.call_next() if observation.result is UNSET else observation.result


def _facts(call: Call, error: str | None) -> dict[str, Any]:
    request, caller = call.request, call.request.caller
    if request.method.name == "initialize" and call.session.caller is not None:
        caller = call.session.caller
    info, params = caller.info, request.params
    facts: dict[str, Any] = {} if info is None else {"client": {"name": info.name, "version": info.version}}
    if call.rejection is not None:
        return facts
    # Only registered names become labels, because there would be no bound on those that clients make up.
    match request.method.name:
        case "tools/call" if params.name in call.server.registry.tools:
            arguments = {} if params.arguments is UNSET else readable(params.arguments) or {}
            facts |= {"tool_name": params.name, "tool_arguments": arguments}
        case "prompts/get" if params.name in call.server.registry.prompts:
            facts["prompt_name"] = params.name
        case "resources/read" if error != ResourceNotFound.label:
            facts["resource_uri"] = params.uri
    return facts
