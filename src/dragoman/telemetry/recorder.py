"""`Recorder`: records MCP operations by the API of OpenTelemetry, as the semantic conventions for MCP say.

An operation is one request or notification. The side that sends it records a span of the kind CLIENT, and the side that
receives it a span of the kind SERVER, whichever of them is the MCP server. Each operation also adds its duration to a
histogram. The trace context travels in `_meta`: the span of the receiver is a child of the span of the sender.

A cancelled operation has the `error.type` "cancelled", and the status of its span stays unset, because nobody failed.
Every other operation with an `error.type` has the status ERROR.

Names that the other side chose freely become no labels: the caller passes only names that are registered. The id of a
session lets its holder send requests, so a span has only a digest of the id; both sides compute the same digest.

Import this module only if the application has loaded OpenTelemetry.
"""

from __future__ import annotations

import logging
import os
import sys
import time
from asyncio import CancelledError
from collections.abc import Mapping
from typing import Any

from opentelemetry import context, metrics, propagate, trace
from opentelemetry.context import Context as TraceContext
from opentelemetry.trace import SpanKind, StatusCode

from dragoman.errors import Cancelled, RpcError, Timeout

Attributes = dict[str, str | int]

NAME = "dragoman"
DISABLED = "OTEL_PYTHON_DISABLED_INSTRUMENTATIONS"
"""The environment variable that names the instrumentations to leave out."""
BUCKETS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60, 120, 300)
"""The boundaries of the histograms, in seconds."""
HISTOGRAMS = {
    "mcp.client.operation.duration": "The duration of an MCP request or notification, as its sender observed it.",
    "mcp.server.operation.duration": "The duration of an MCP request or notification, as its receiver observed it.",
    "mcp.client.session.duration": "The duration of an MCP session, as the client observed it.",
    "mcp.server.session.duration": "The duration of an MCP session, as the server observed it.",
}
CANCELLED = "cancelled"
OTHER = "_OTHER"
"""Stands for a method that the receiver does not know."""
UNRECORDED = frozenset({"subscriptions/listen"})
"""The methods that are not recorded: such a request lasts as long as its connection."""
_API_MODULES = ("opentelemetry.trace", "opentelemetry.metrics")
PIPE: Attributes = {"network.transport": "pipe"}
HTTP: Attributes = {"network.transport": "tcp", "network.protocol.name": "http"}
_SPAN_ONLY = frozenset({"jsonrpc.request.id", "mcp.session.id", "mcp.resource.uri"})
"""The attributes with too many values for a metric."""
_logger = logging.getLogger("dragoman.telemetry")
_RESOURCES = frozenset({"resources/read", "resources/subscribe", "resources/unsubscribe"})


class Operation:
    """One operation while it is recorded: a span, and one duration in a histogram."""

    def __init__(self, span: trace.Span, within: TraceContext, attributes: Attributes, histogram: Any) -> None:
        self._span = span
        self._within = trace.set_span_in_context(span, within)
        self._attributes = attributes
        self._histogram = histogram
        self._has_failed = False

    def __enter__(self) -> Operation:
        self._token = context.attach(self._within)
        self._started = time.perf_counter()
        return self

    def add(self, attributes: Mapping[str, str | int]) -> None:
        """Add attributes that became known while the operation ran."""
        self._attributes.update(attributes)
        self._span.set_attributes(attributes)

    def fail(self, error_type: str, error: RpcError | None = None) -> None:
        """Record that the operation failed, and the error of the response, if there is one."""
        self._has_failed = True
        self.add({"error.type": error_type})
        if error is not None:
            self.add({"rpc.response.status_code": str(error.code)})
        if error_type != CANCELLED:
            self._span.set_status(StatusCode.ERROR, None if error is None else error.message)

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        if error is not None and not self._has_failed:
            self.fail(_error_type(error), error if isinstance(error, RpcError) else None)
        try:
            if self._histogram is not None:
                labels = {key: value for key, value in self._attributes.items() if key not in _SPAN_ONLY}
                self._histogram.record(time.perf_counter() - self._started, labels)
            self._span.end()
        except Exception:
            _logger.exception("OpenTelemetry failed at the end of a span")
        finally:
            context.detach(self._token)


class Recorder:
    """Makes the spans and the histograms of this package."""

    def __init__(self, tracers: trace.TracerProvider, meters: metrics.MeterProvider) -> None:
        version = str(sys.modules["dragoman"].__version__)
        self._tracer = tracers.get_tracer(NAME, version)
        meter = meters.get_meter(NAME, version)
        self._histograms = {
            name: meter.create_histogram(name, "s", description, explicit_bucket_boundaries_advisory=BUCKETS)
            for name, description in HISTOGRAMS.items()
        }

    def sent(self, method: str, subject: str | None, attributes: Attributes) -> Operation:
        """Begin the operation of a request that this side sends; `subject` is a name or a URI."""
        name, described = _described(method, subject)
        return self._begin(SpanKind.CLIENT, name, described | attributes, context.get_current())

    def received(
        self, method: str, subject: str | None, attributes: Attributes, meta: object, *, has_own_context: bool
    ) -> Operation:
        """Begin the operation of a request that this side received, as a child of the span that its `_meta` names.

        `has_own_context` says whether the current context belongs to this request alone, such as the context of an HTTP
        request. The span is then linked with the current span, or is its child if `_meta` names no span.
        """
        name, described = _described(method, subject)
        around = context.get_current() if has_own_context else TraceContext()
        within = _extracted(meta, around)
        return self._begin(SpanKind.SERVER, name, described | attributes, within, _links(within, around))

    def executed(self, tool: str | None, attributes: Attributes, meta: object) -> Operation:
        """Begin the operation of a tool that runs apart from its request; it adds to no histogram."""
        _, described = _described("tools/call", tool)
        name = "execute_tool" if tool is None else f"execute_tool {tool}"
        return self._begin(SpanKind.INTERNAL, name, described | attributes, _extracted(meta, TraceContext()))

    def record_session(self, side: str, seconds: float, attributes: Attributes) -> None:
        """Record a session that ended; `side` is "client" or "server"."""
        self._histograms[f"mcp.{side}.session.duration"].record(seconds, attributes)

    def _begin(
        self,
        kind: SpanKind,
        name: str,
        attributes: Attributes,
        within: TraceContext,
        links: tuple[trace.Link, ...] = (),
    ) -> Operation:
        span: trace.Span = trace.INVALID_SPAN
        try:
            span = self._tracer.start_span(name, within, kind, attributes, links)
        except Exception:  # a sampler or a processor of the application may raise
            _logger.exception("OpenTelemetry failed at the begin of a span")
        histogram = self._histograms.get(f"mcp.{kind.name.lower()}.operation.duration")
        return Operation(span, within, attributes, histogram)


def current_recorder() -> Recorder | None:
    """Return the recorder of the providers that are installed now; None if there is neither of them."""
    global _seen, _recorder
    providers = trace.get_tracer_provider(), metrics.get_meter_provider()
    if providers != _seen:
        _seen, _recorder = providers, _recorder_of(*providers)
    return _recorder


_seen: tuple[trace.TracerProvider, metrics.MeterProvider] | None = None
_recorder: Recorder | None = None


def _recorder_of(tracers: trace.TracerProvider, meters: metrics.MeterProvider) -> Recorder | None:
    # The providers of the API itself record nothing.
    is_silent = all(type(one).__module__.startswith(_API_MODULES) for one in (tracers, meters))
    is_disabled = NAME in os.environ.get(DISABLED, "").replace(" ", "").split(",")
    return None if is_silent or is_disabled else Recorder(tracers, meters)


def _described(method: str, subject: str | None) -> tuple[str, Attributes]:
    """Return the name and the first attributes of a span."""
    attributes: Attributes = {"mcp.method.name": method}
    if method == "tools/call":
        attributes["gen_ai.operation.name"] = "execute_tool"
    if subject is None:
        return method, attributes
    if method in _RESOURCES:
        # There may be any number of URIs, so they are no part of the name.
        return method, attributes | {"mcp.resource.uri": subject}
    kind = {"tools/call": "gen_ai.tool.name", "prompts/get": "gen_ai.prompt.name"}.get(method)
    return (method, attributes) if kind is None else (f"{method} {subject}", attributes | {kind: subject})


def _extracted(meta: object, around: TraceContext) -> TraceContext:
    carrier = {key: value for key, value in meta.items() if isinstance(value, str)} if isinstance(meta, dict) else {}
    return propagate.extract(carrier, around)


def _links(within: TraceContext, around: TraceContext) -> tuple[trace.Link, ...]:
    current = trace.get_current_span(around).get_span_context()
    parent = trace.get_current_span(within).get_span_context()
    is_other = current.is_valid and current.span_id != parent.span_id
    return (trace.Link(current),) if is_other else ()


def _error_type(error: BaseException) -> str:
    if isinstance(error, RpcError):
        return str(error.code)
    if isinstance(error, CancelledError | GeneratorExit | Cancelled):
        return CANCELLED
    return "timeout" if isinstance(error, Timeout) else type(error).__name__
