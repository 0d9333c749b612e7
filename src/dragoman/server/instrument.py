"""What is observed of requests: around them, and after them.

The data of a request is one dict that belongs to that request alone. It names the method before, and what it was about
and how it ended after; a hook that fails is reported, and never fails the request.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import UNSET, Raw

from dragoman import types
from dragoman.config import Configuration
from dragoman.errors import ResourceNotFound, RpcError, ToolError
from dragoman.protocol import eras
from dragoman.runtime.callables import invoke
from dragoman.server.call import Call

if TYPE_CHECKING:
    from dragoman.server.server import Server

UNSUPPORTED = "unsupported_method"
"""Stands for the name of a method that is not part of the protocol, nor the server's own."""
Next = Callable[[], Awaitable[Any]]
Middleware = Callable[[eras.Request, Next], Awaitable[Any]]


def chained(call: Call, serve: Next) -> Next:
    """Return what serves a request with the middleware around it, the first one outermost."""
    for around in reversed(call.server.middlewares):
        serve = partial(_within, around, call, serve)
    return serve


async def _within(around: Middleware, call: Call, serve: Next) -> Any:
    served: Any = UNSET

    async def call_next() -> Any:
        nonlocal served
        served = await serve()
        call.plain = None  # it may be changed now
        return served

    result = await around(call.request, call_next)
    if result is served or isinstance(result, types.Result | dict):
        return result
    raise TypeError(f"{around!r} must return what call_next() gives, a result of dragoman.types or a dict: {result!r}")


async def observed(call: Call, serve: Next) -> Any:
    """Serve a request with its hooks around it, and return its result."""
    return await _observe(call.server, call, serve, call.request.method.name, call.server_context)


async def observe_refusal(server: Server, method: str, error: BaseException, caller: eras.Caller | None = None) -> None:
    """Let the hooks know of a request that is refused before any handler is found for it."""

    async def refuse() -> None:
        raise error

    # A name that a client made up would make a label of whatever it sends.
    known = method if method in server.offer.known else UNSUPPORTED
    try:
        await _observe(server, None, refuse, known, server.server_context, caller)
    except BaseException as raised:
        if raised is not error:
            raise


async def _observe(
    server: Server, call: Call | None, serve: Next, method: str, context: Any, caller: eras.Caller | None = None
) -> Any:
    configuration = server.settings.configuration
    data: dict[str, Any] = {"method": method}
    if configuration.instrument_server_context:
        data["server_context"] = context
    observation = _Observation(call, serve, data, caller)
    started = time.perf_counter()
    try:
        return await _around(server, call, observation, configuration)
    finally:
        data["duration"] = time.perf_counter() - started
        if configuration.instrumentation_callback is not None:
            await _attempt(server, call, configuration.instrumentation_callback, data)


class _Observation:
    """One request: its result or its failure, whatever the hook around it makes of either."""

    def __init__(
        self, call: Call | None, handler: Next, data: dict[str, Any], caller: eras.Caller | None = None
    ) -> None:
        self._caller = caller
        self._call = call
        self._handler = handler
        self.data = data
        self.result: Any = UNSET
        self.failure: BaseException | None = None

    async def call_next(self) -> Any:
        """Serve the request, once however often it is called."""
        if self.failure is not None:
            raise self.failure
        if self.result is not UNSET:
            return self.result
        try:
            self.result = await self._handler()
        except BaseException as error:
            self.failure = error
            self._note(error)
            raise
        finally:
            if self._call is None:
                self.data.update(_client(self._caller))
            else:
                self.data.update(_facts(self._call, is_unknown=isinstance(self.failure, ResourceNotFound)))
        if isinstance(self.result, types.CallToolResult) and self.result.is_error:
            assert self._call is not None
            self.data["error"] = self._call.failure or ToolError.label
        return self.result

    def _note(self, error: BaseException) -> None:
        if self._call is not None and self._call.is_given_up_by(error):
            self.data["error"] = "cancelled"
            if self._call.cancel_reason is not None:
                self.data["cancel_reason"] = self._call.cancel_reason
        else:
            self.data["error"] = label_of(error)


async def _around(server: Server, call: Call | None, observation: _Observation, configuration: Configuration) -> Any:
    if configuration.around_request is None:
        return await observation.call_next()
    try:
        await configuration.around_request(observation.data, observation.call_next)
    except BaseException as error:
        if error is not observation.failure:
            if (not isinstance(error, Exception)) if call is None else call.is_given_up_by(error):
                raise
            server.report(error, call)
            observation.data["error"] = "internal_error"
            if not isinstance(error, Exception):
                raise
    if observation.failure is not None:
        raise observation.failure
    # The request is served even if the hook failed before it, or forgot to call.
    return await observation.call_next() if observation.result is UNSET else observation.result


async def _attempt(server: Server, call: Call | None, callback: Callable[..., Any], *args: Any) -> None:
    try:
        await invoke(callback, *args, in_place=True)
    except Exception as error:
        server.report(error, call)


def readable(raw: Raw) -> Any:
    """Return what a client sent: decoded, or as text where it holds what Python cannot, such as 1e999."""
    try:
        return msgspec.json.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return bytes(raw).decode(errors="replace")


def _client(caller: eras.Caller | None) -> dict[str, Any]:
    info = None if caller is None else caller.info
    return {} if info is None else {"client": {"name": info.name, "version": info.version}}


def _facts(call: Call, *, is_unknown: bool) -> dict[str, Any]:
    params, caller = call.request.params, call.request.caller
    if call.request.method.name == "initialize" and call.session.caller is not None:
        caller = call.session.caller
    facts = _client(caller)
    # A name that nothing is registered under would make a label of whatever a client sends.
    match call.request.method.name:
        case "tools/call" if params.name in call.server.registry.tools:
            arguments = {} if params.arguments is UNSET else readable(params.arguments) or {}
            facts |= {"tool_name": params.name, "tool_arguments": arguments}
        case "prompts/get" if params.name in call.server.registry.prompts:
            facts["prompt_name"] = params.name
        case "resources/read" if not is_unknown:
            facts["resource_uri"] = params.uri
    return facts


def label_of(error: BaseException) -> str:
    """Return a name for a failure, of which there are few."""
    return error.label if isinstance(error, RpcError | ToolError) else "internal_error"
