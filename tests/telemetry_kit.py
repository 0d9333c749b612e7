"""The SDK of OpenTelemetry in tests: providers for one test, and a receiver of OTLP."""

from __future__ import annotations

import gzip
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

DEADLINE = 60


class Telemetry:
    """The spans and the metrics of one test."""

    def __init__(self) -> None:
        from opentelemetry.sdk.metrics import MeterProvider
        from opentelemetry.sdk.metrics.export import InMemoryMetricReader
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import SimpleSpanProcessor
        from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

        self._exporter, self._reader = InMemorySpanExporter(), InMemoryMetricReader()
        self.tracers = TracerProvider(shutdown_on_exit=False)
        self.tracers.add_span_processor(SimpleSpanProcessor(self._exporter))
        self.meters = MeterProvider([self._reader], shutdown_on_exit=False)
        self.tracer = self.tracers.get_tracer("the test")

    def spans(self, name: str | None = None, kind: str | None = None) -> list[Any]:
        """Return the ended spans, with a name or of a kind, in the order of their ends."""
        return [
            span
            for span in self._exporter.get_finished_spans()
            if name in (None, span.name) and kind in (None, span.kind.name)
        ]

    def span(self, name: str, kind: str | None = None) -> Any:
        """Return the one span with a name and of a kind."""
        (span,) = self.spans(name, kind)
        return span

    def points(self, name: str) -> list[Any]:
        """Return the points of a histogram."""
        data = self._reader.get_metrics_data()
        return [
            point
            for resource in ([] if data is None else data.resource_metrics)
            for scope in resource.scope_metrics
            for metric in scope.metrics
            if metric.name == name
            for point in metric.data.data_points
        ]


@pytest.fixture
def telemetry(monkeypatch: pytest.MonkeyPatch) -> Telemetry:
    """Install providers for one test."""
    from opentelemetry import trace
    from opentelemetry.metrics import _internal as metrics

    installed = Telemetry()
    monkeypatch.setattr(trace, "_TRACER_PROVIDER", installed.tracers)
    monkeypatch.setattr(metrics, "_METER_PROVIDER", installed.meters)
    return installed


def is_child(child: Any, parent: Any) -> bool:
    """Tell whether a span is a child of another, in the same trace."""
    return (
        child.parent is not None
        and child.parent.span_id == parent.context.span_id
        and child.context.trace_id == parent.context.trace_id
    )


class OtlpReceiver:
    """A collector that keeps what programs send to it as OTLP over HTTP, in protobuf."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._spans: list[Any] = []
        self._points: list[tuple[str, Any]] = []
        self._changed = threading.Condition()

    def receive(self, path: str, body: bytes) -> None:
        from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
        from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

        with self._changed:
            if path == "/v1/traces":
                for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
                    self._spans += [span for scope in resource.scope_spans for span in scope.spans]
            else:
                for resource in ExportMetricsServiceRequest.FromString(body).resource_metrics:
                    for scope in resource.scope_metrics:
                        for metric in scope.metrics:
                            self._points += [(metric.name, point) for point in metric.histogram.data_points]
            self._changed.notify_all()

    def span(self, name: str) -> Any:
        """Wait for the first span with a name."""
        return self._first(lambda: [span for span in self._spans if span.name == name], name)

    def point(self, name: str) -> Any:
        """Wait for the first point of a histogram."""
        return self._first(lambda: [point for metric, point in self._points if metric == name], name)

    def _first(self, find: Any, what: str) -> Any:
        with self._changed:
            assert self._changed.wait_for(find, DEADLINE), f"{what} did not arrive"
            return find()[0]


def values_of(attributes: Any) -> dict[str, str]:
    """Return the attributes of a span or a point of OTLP as texts."""
    return {entry.key: entry.value.string_value or str(entry.value.int_value) for entry in attributes}


@contextmanager
def otlp_receiver() -> Iterator[OtlpReceiver]:
    """Run a receiver of OTLP on the loopback interface."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            is_packed = self.headers.get("content-encoding") == "gzip"
            receiver.receive(self.path, gzip.decompress(body) if is_packed else body)
            self.send_response(200)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as http:
        receiver = OtlpReceiver(f"http://127.0.0.1:{http.server_address[1]}")
        serving = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.01})
        serving.start()
        try:
            yield receiver
        finally:
            http.shutdown()
            serving.join()
