"""`observed`: runs a request within a span of OpenTelemetry, and writes its record to the audit.

The runner observes from outside: around the middleware, the hooks and the encoding of the response. So an observer sees
the outcome that the client receives, also if the result could not be encoded. It sees refused requests, and calls that
run apart from their requests.

Rejected: an observer that is a middleware. Middleware runs before the result is sealed and encoded, and receives copies
of results, which an observer does not need.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Coroutine
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeVar

from msgspec import UNSET

from dragoman import types
from dragoman.errors import InsufficientScope, RpcError, ToolError, TooManyRequests
from dragoman.server.dispatch.dispatcher import Dispatcher, dispatcher_of
from dragoman.server.request.asking import asking_of
from dragoman.server.request.call import Call
from dragoman.server.request.facts import readable
from dragoman.telemetry import active_recorder
from dragoman.types import TRACEPARENT

if TYPE_CHECKING:
    from dragoman.telemetry.recorder import Operation

T = TypeVar("T")
OutcomeName = Literal["ok", "input_required", "tool_error", "error", "refused", "cancelled"]


class Conclusion(NamedTuple):
    """How a call ended, and the error of its response."""

    outcome: OutcomeName
    error: RpcError | None = None


def observes(call: Call) -> bool:
    """Tell whether the server has an audit, or the application records telemetry."""
    return dispatcher_of(call).audit is not None or active_recorder() is not None


async def observed(call: Call, answer: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Await the answer of a call, and record how the call ended."""
    audit, started = dispatcher_of(call).audit, time.perf_counter()
    operation = _operation(call)
    failure: BaseException | None = None
    with nullcontext() if operation is None else operation:
        try:
            return await answer()
        except BaseException as error:
            failure = error
            raise
        finally:
            conclusion = _conclude(call, failure)
            if operation is not None:
                _complete(operation, call, conclusion)
            if audit is not None and not isinstance(failure, GeneratorExit):  # a closed coroutine cannot await
                await audit.record(call, conclusion, time.perf_counter() - started)


async def noted(call: Call, outcome: Coroutine[Any, Any, Any]) -> Any:
    """Return the result of a call, and note in the call what observers want to know about the result."""
    result = await outcome
    is_failure = isinstance(result, types.CallToolResult) and result.is_error
    call.failure_label = (call.failure_label or ToolError.label) if is_failure else None
    call.asks_input = isinstance(result, types.InputRequiredResult)
    return result


def _conclude(call: Call, failure: BaseException | None) -> Conclusion:
    from asyncio import CancelledError

    if call.cancelled or isinstance(failure, CancelledError | GeneratorExit):
        return Conclusion("cancelled")
    if call.refusal is not None:
        is_refused = call.refusal is call.rejection or isinstance(call.refusal, InsufficientScope | TooManyRequests)
        return Conclusion("refused" if is_refused else "error", call.refusal)
    if failure is not None:
        return Conclusion("error")
    if call.failure_label is not None:
        return Conclusion("tool_error")
    return Conclusion("input_required" if call.asks_input else "ok")


def subject_of(call: Call) -> str | None:
    """Return the name of the tool or prompt, or the URI of the resource, that a request is about."""
    params = call.request.params
    subject = getattr(params, "name", None) or getattr(params, "uri", None)
    return subject if isinstance(subject, str) else None


def _operation(call: Call) -> Operation | None:
    recorder = active_recorder()
    if recorder is None:
        return None
    from dragoman.server.request.recording import call_attributes
    from dragoman.telemetry.recorder import OTHER, UNRECORDED

    request, method, subject = call.request, call.request.method.name, _registered_subject(call)
    if method in UNRECORDED or call.is_passed:
        return None
    attributes = call_attributes(call)
    if request.id != "":
        attributes["jsonrpc.request.id"] = str(request.id)
    if call.trace is not None:
        return recorder.executed(subject, attributes, call.trace)
    if call.rejection is not None and method not in call.server.offer.client_methods:
        method = OTHER  # clients could create any number of labels
    has_own_context = call.channel.carrier is None
    return recorder.received(method, subject, attributes, _trace(call), has_own_context=has_own_context)


def _trace(call: Call) -> object:
    """Return the trace context of a request: that of its `_meta`, or else that of its first round."""
    meta = None if call.request.meta is UNSET else readable(call.request.meta)
    if getattr(call.request.params, "request_state", None) is None or (isinstance(meta, dict) and TRACEPARENT in meta):
        return meta
    try:
        return {TRACEPARENT: asking_of(call).recording.trace}
    except RpcError:  # the handler refuses such a state
        return meta


def is_mounted(server: Dispatcher, table: str, name: str) -> bool:
    """Tell whether a mounted server is known to have a tool or prompt."""
    return server.mounts is not None and server.mounts.find(table, name) is not None


class RegisteredUri(NamedTuple):
    """The URI of a resource, or the URI template, as its author registered it."""

    uri: str
    is_template: bool = False


def registered_uri(server: Dispatcher, uri: str) -> RegisteredUri | None:
    """Return what a client's URI refers to, also in a mounted server; None if it is not known to be registered."""
    if uri in server.registry.resources:
        return RegisteredUri(uri)
    for template in list(server.registry.templates.values()):
        if template.match(uri) is not None:
            return RegisteredUri(template.uri_template, is_template=True)
    for mount in server.mounts or ():
        inner_uri = mount.inner("resources", uri)
        inner = None if inner_uri is None else registered_uri(mount.server, inner_uri)
        outer_uri = None if inner is None else mount.outer("resources", inner.uri)
        if inner is not None and outer_uri is not None:
            return RegisteredUri(outer_uri, inner.is_template)
    return None


def _registered_subject(call: Call) -> str | None:
    """Return the subject of a request as its author registered it; None for text that only the client chose."""
    subject, server = subject_of(call), dispatcher_of(call)
    if subject is None:
        return None
    table = {"tools/call": "tools", "prompts/get": "prompts"}.get(call.request.method.name)
    if table is None:
        resource = registered_uri(server, subject)
        return None if resource is None else resource.uri
    return subject if subject in getattr(server.registry, table) or is_mounted(server, table, subject) else None


def _complete(operation: Operation, call: Call, conclusion: Conclusion) -> None:
    if call.request.method.name == "initialize" and call.session.caller is not None:
        operation.add({"mcp.protocol.version": call.session.caller.version.name})
    error = conclusion.error
    if error is not None:
        operation.fail(str(error.code), error)
    elif conclusion.outcome not in ("ok", "input_required"):
        operation.fail("_OTHER" if conclusion.outcome == "error" else conclusion.outcome)
