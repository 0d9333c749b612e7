"""A server that sends its telemetry to a collector by OTLP: `python traced_server.py [http PORT]`."""

import os
import sys
from pathlib import Path

from opentelemetry import metrics, trace
from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

from dragoman import Server
from dragoman.server import TaskOptions
from dragoman.stores import Local, Memory

folder = os.environ.get("TRACED_FOLDER")
server = Server("traced", secret="a secret of sixteen", store=Memory() if folder is None else Local(Path(folder)))


@server.tool
def add(a: int, b: int) -> int:
    with trace.get_tracer("mine").start_as_current_span("adding"):
        return a + b


@server.tool(task=TaskOptions(poll=0.02))
def job() -> int:
    """Return the number of the process that runs it."""
    return os.getpid()


# The providers are installed after the server was made.
tracers = TracerProvider()
tracers.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(), schedule_delay_millis=50))
trace.set_tracer_provider(tracers)
metrics.set_meter_provider(MeterProvider([PeriodicExportingMetricReader(OTLPMetricExporter(), 100)]))

if __name__ == "__main__":
    if sys.argv[1:2] == ["http"]:
        server.run("http", port=int(sys.argv[2]), workers=2)
    else:
        server.run()
