"""What stands around requests: the middleware of an author, and the hooks of the configuration.

Middleware is `async def (ctx, call_next)`. It runs once for each request, also for one that is refused before any
handler: `call_next()` raises the refusal then. All of it is composed into one function when it is registered or
configured, the first outermost; the runner calls that function, or nothing at all if there is none.

Middleware is given objects. A page of a list, which is kept as bytes, is decoded for it; the bytes are sent if the page
comes back unchanged. An exception becomes what it is answered with as soon as it leaves a handler or a middleware, so
that whatever stands around it sees the outcome: a result, or an RpcError. If a middleware asks the client, in the
stateless era, its outcome is the result that asks.

The hooks `around_request` and `instrumentation_callback` are a middleware around all others. They are given a dict that
belongs to the request alone. It names the method before, and what it was about and how it ended after. A hook that
fails is reported, and never fails the request. The `exception_reporter` is none: it also hears of what fails outside of
requests.

A chain that is built for each request was rejected: it costs every request what is known at registration.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Coroutine
from functools import partial
from typing import TYPE_CHECKING, Any

from msgspec import UNSET, Raw

from dragoman import types
from dragoman.errors import ResourceNotFound, ToolError
from dragoman.protocol import eras
from dragoman.protocol.jsonrpc import encode
from dragoman.runtime.callables import invoke
from dragoman.server.dispatch.runner import label_of, serve, settled
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
Around = Callable[[Call], Coroutine[Any, Any, Any]]
"""Serves a request with everything that stands around it."""
_Serve = Callable[[Context], Coroutine[Any, Any, Any]]
UNSUPPORTED = "unsupported_method"
"""Stands for the name of a method that is not part of the protocol, nor the server's own."""


def composed(middlewares: tuple[Middleware, ...], settings: ServerSettings) -> Around | None:
    """Return what serves a request with the middleware and the hooks around it; None if there are none."""
    if not middlewares and not settings.is_observed:
        return None
    inner: _Serve = _serve_objects if middlewares else _serve
    for around in reversed(middlewares):
        inner = _within(around, inner)
    if middlewares:
        inner = _keeping(inner)
    if settings.is_observed:
        inner = partial(_observe, settings.configuration, inner)
    return lambda call: inner(Context(call))


async def _serve(ctx: Context) -> Any:
    return await serve(ctx._call)


async def _serve_objects(ctx: Context) -> Any:
    """Serve a request for middleware: its result is an object, and its failure is what it is answered with."""
    call = ctx._call
    try:
        result = await serve(call)
    except BaseException as error:
        result = settled(call, error)
    call.plain = None  # it may be changed now
    kind = call.request.method.result
    if type(result) is Raw:
        call.page = result
    elif call.target is None and type(result) is kind:
        # It may hold what the server declares or has registered, which nobody is to change by changing a result.
        result = encode(result)
    else:
        return result
    return decoders[kind].decode(result)


def _within(around: Middleware, inner: _Serve) -> _Serve:
    """Return what serves a request with a middleware around it."""

    async def serve_within(ctx: Context) -> Any:
        served: object = UNSET

        async def call_next() -> object:
            nonlocal served
            served = await inner(ctx)
            return served

        call = ctx._call
        try:
            result = await around(ctx, call_next)
        except BaseException as error:
            if call.asking is not None and call.asking.stops:
                return await settle(call, None, error)
            return settled(call, error)
        if result is served or isinstance(result, types.Result | dict):
            return result
        wanted = "what call_next() gives, a result of dragoman.types or a dict"
        return settled(call, TypeError(f"{around!r} must return {wanted}, not {result!r}"))

    return serve_within


def _keeping(inner: _Serve) -> _Serve:
    """Return what serves a request with all middleware: an unchanged page is sent as it is kept.

    A session does not begin if middleware refuses its introduction after the handler.
    """

    async def serve_kept(ctx: Context) -> Any:
        call = ctx._call
        known = call.session.caller
        try:
            result = await inner(ctx)
        except BaseException:
            if ctx.method == "initialize":
                call.session.caller = known
            raise
        page = call.page
        if page is not None and result == decoders[call.request.method.result].decode(page):
            return page
        return result

    return serve_kept


async def _observe(configuration: Configuration, inner: _Serve, ctx: Context) -> Any:
    """Serve a request with the hooks of the configuration around it."""
    call = ctx._call
    # A name that a client made up would make a label of whatever it sends.
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
            await _attempt(call, configuration.instrumentation_callback, data)


class _Observation:
    """One request: its result or its failure, whatever the hook around it makes of either."""

    def __init__(self, ctx: Context, inner: _Serve, data: dict[str, Any]) -> None:
        self._ctx = ctx
        self._inner = inner
        self.data = data
        self.result: Any = UNSET
        self.failure: BaseException | None = None

    async def call_next(self) -> Any:
        """Serve the request, once however often it is called."""
        if self.failure is not None:
            raise self.failure
        if self.result is not UNSET:
            return self.result
        call = self._ctx._call
        try:
            self.result = await self._inner(self._ctx)
        except BaseException as error:
            self.failure = error
            self._note(call, error)
            raise
        finally:
            self.data.update(_facts(call, self.data.get("error")))
        if isinstance(self.result, types.CallToolResult) and self.result.is_error:
            self.data["error"] = call.failure or ToolError.label
        return self.result

    def _note(self, call: Call, error: BaseException) -> None:
        if call.is_given_up_by(error):
            self.data["error"] = "cancelled"
            if call.cancel_reason is not None:
                self.data["cancel_reason"] = call.cancel_reason
        else:
            self.data["error"] = label_of(error)


async def _around(call: Call, observation: _Observation, configuration: Configuration) -> Any:
    if configuration.around_request is None:
        return await observation.call_next()
    try:
        await configuration.around_request(observation.data, observation.call_next)
    except BaseException as error:
        if error is not observation.failure:
            if call.is_given_up_by(error):
                raise
            call.server.report(error, call)
            observation.data["error"] = "internal_error"
            if not isinstance(error, Exception):
                raise
    if observation.failure is not None:
        raise observation.failure
    # The request is served even if the hook failed before it, or forgot to call.
    return await observation.call_next() if observation.result is UNSET else observation.result


async def _attempt(call: Call, callback: Callable[..., Any], *args: Any) -> None:
    try:
        await invoke(callback, *args, in_place=True)
    except Exception as error:
        call.server.report(error, call)


def _client(caller: eras.Caller) -> dict[str, Any]:
    return {} if caller.info is None else {"client": {"name": caller.info.name, "version": caller.info.version}}


def _facts(call: Call, error: str | None) -> dict[str, Any]:
    request, caller = call.request, call.request.caller
    if request.method.name == "initialize" and call.session.caller is not None:
        caller = call.session.caller
    facts, params = _client(caller), request.params
    if call.refused is not None:
        return facts
    # A name that nothing is registered under would make a label of whatever a client sends.
    match request.method.name:
        case "tools/call" if params.name in call.server.registry.tools:
            arguments = {} if params.arguments is UNSET else readable(params.arguments) or {}
            facts |= {"tool_name": params.name, "tool_arguments": arguments}
        case "prompts/get" if params.name in call.server.registry.prompts:
            facts["prompt_name"] = params.name
        case "resources/read" if error != ResourceNotFound.label:
            facts["resource_uri"] = params.uri
    return facts
