"""What is observed of requests: around them, and after them.

The data of a request is one dict that belongs to that request alone. It names the method before, and what it was about
and how it ended after; a hook that fails is reported, and never fails the request.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from types import CoroutineType
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import UNSET

from dragoman import types
from dragoman.config import Configuration
from dragoman.errors import InvalidParams, MethodNotFound, ResourceNotFound, RpcError
from dragoman.server.call import Call

if TYPE_CHECKING:
    from dragoman.server.server import Server

Handler = Callable[["Server", Call], Any]
Next = Callable[[], Awaitable[Any]]


def is_observed(configuration: Configuration) -> bool:
    """Tell whether a configuration observes requests."""
    return configuration.around_request is not None or configuration.instrumentation_callback is not None


async def observed(server: Server, call: Call, handler: Next, configuration: Configuration) -> Any:
    """Serve a request with its hooks around it, and return its result."""
    data: dict[str, Any] = {"method": call.request.method.name}
    if configuration.instrument_server_context:
        data["server_context"] = call.server_context
    observation = _Observation(call, handler, data)
    started = time.perf_counter()
    try:
        return await _around(server, call, observation, configuration)
    finally:
        data["duration"] = time.perf_counter() - started
        if configuration.instrumentation_callback is not None:
            await _attempt(server, call, configuration.instrumentation_callback, data)


class _Observation:
    """One request: its result or its failure, whatever the hook around it makes of either."""

    def __init__(self, call: Call, handler: Next, data: dict[str, Any]) -> None:
        self._call = call
        self._handler = handler
        self.data = data
        self.result: Any = UNSET
        self.failure: BaseException | None = None

    async def call_next(self) -> Any:
        try:
            self.result = await self._handler()
        except BaseException as error:
            self.failure = error
            self.data["error"] = _label(error)
            raise
        finally:
            self.data.update(_facts(self._call))
        if isinstance(self.result, types.CallToolResult) and self.result.is_error:
            self.data["error"] = "tool_error"
        return self.result


async def _around(server: Server, call: Call, observation: _Observation, configuration: Configuration) -> Any:
    if configuration.around_request is None:
        return await observation.call_next()
    try:
        await configuration.around_request(observation.data, observation.call_next)
    except BaseException as error:
        if error is not observation.failure:
            server.report(error, call)
            observation.data["error"] = "internal_error"
            if not isinstance(error, Exception):
                raise
    if observation.failure is not None:
        raise observation.failure
    # The request is served even if the hook failed before it, or forgot to call.
    return await observation.call_next() if observation.result is UNSET else observation.result


async def _attempt(server: Server, call: Call, callback: Callable[..., Any], *args: Any) -> None:
    try:
        outcome = callback(*args)
        if isinstance(outcome, CoroutineType):
            await outcome
    except Exception as error:
        server.report(error, call)


def _facts(call: Call) -> dict[str, Any]:
    params, info = call.request.params, call.request.caller.info
    facts: dict[str, Any] = {} if info is None else {"client": {"name": info.name, "version": info.version}}
    match call.request.method.name:
        case "tools/call":
            arguments = {} if params.arguments is UNSET else msgspec.json.decode(params.arguments)
            facts |= {"tool_name": params.name, "tool_arguments": arguments}
        case "prompts/get":
            facts["prompt_name"] = params.name
        case "resources/read":
            facts["resource_uri"] = params.uri
    return facts


def _label(error: BaseException) -> str:
    """Return a name for a failure, of which there are few."""
    if isinstance(error, ResourceNotFound):
        return "resource_not_found"
    if isinstance(error, MethodNotFound):
        return "method_not_found"
    if isinstance(error, InvalidParams):
        beginnings = {
            "Unknown tool": "tool_not_found",
            "Unknown prompt": "prompt_not_found",
            "Missing required": "missing_required_arguments",
        }
        return next((label for text, label in beginnings.items() if error.message.startswith(text)), "invalid_params")
    return "rpc_error" if isinstance(error, RpcError) else "internal_error"
