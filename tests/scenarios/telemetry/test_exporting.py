"""What real exporters send: OTLP to a collector, and metrics to Prometheus."""

import sys
import urllib.request
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from dragoman import AsyncClient, Client, Server
from scenarios.client_programs import http_server
from telemetry_kit import otlp_receiver, values_of

SERVER = Path(__file__).resolve().parents[1] / "traced_server.py"
CLIENT, SERVED = 3, 2
"""The numbers of the kinds CLIENT and SERVER in OTLP."""


async def test_a_collector_gets_the_spans_and_durations_of_a_server_over_stdio(telemetry):
    with otlp_receiver() as receiver:
        async with AsyncClient([sys.executable, str(SERVER)], env={"OTEL_EXPORTER_OTLP_ENDPOINT": receiver.url}) as mcp:
            assert (await mcp.call_tool("add", {"a": 1, "b": 2})).structured == 3
        served, within = receiver.span("tools/call add"), receiver.span("adding")
        point = receiver.point("mcp.server.operation.duration")
    sent = telemetry.span("tools/call add", "CLIENT")
    assert served.kind == SERVED
    assert int.from_bytes(served.trace_id) == sent.context.trace_id
    assert int.from_bytes(served.parent_span_id) == sent.context.span_id
    assert within.parent_span_id == served.span_id
    assert values_of(served.attributes)["network.transport"] == "pipe"
    assert sent.attributes["network.transport"] == "pipe"
    assert point.count >= 1
    assert list(point.explicit_bounds)[:3] == [0.01, 0.02, 0.05]


@pytest.mark.parametrize("mode", ["handshake", "stateless"])
def test_a_collector_gets_the_spans_of_the_workers_of_a_server_over_http(mode, telemetry, monkeypatch):
    with otlp_receiver() as receiver:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", receiver.url)
        with http_server(SERVER) as url:
            with Client(url, mode=mode) as mcp:
                assert mcp.call_tool("add", {"a": 1, "b": 2}).structured == 3
            served = receiver.span("tools/call add")
            if mode == "handshake":
                assert receiver.point("mcp.server.session.duration").count == 1
    sent = telemetry.span("tools/call add", "CLIENT")
    told = values_of(served.attributes)
    assert int.from_bytes(served.parent_span_id) == sent.context.span_id
    assert (told["network.transport"], told["network.protocol.name"]) == ("tcp", "http")
    assert (sent.attributes["server.address"], sent.attributes["server.port"]) == ("127.0.0.1", urlsplit(url).port)
    assert told.get("mcp.session.id") == sent.attributes.get("mcp.session.id")
    assert ("mcp.session.id" in told) == (mode == "handshake")
    assert [point.count for point in telemetry.points("mcp.client.session.duration")] == [1] * (mode == "handshake")


def test_prometheus_can_read_the_durations(monkeypatch):
    from opentelemetry.exporter.prometheus import PrometheusMetricReader
    from opentelemetry.metrics import _internal as metrics
    from opentelemetry.sdk.metrics import MeterProvider
    from prometheus_client import REGISTRY, start_http_server
    from prometheus_client.parser import text_string_to_metric_families

    reader = PrometheusMetricReader()
    provider = MeterProvider([reader], shutdown_on_exit=False)
    monkeypatch.setattr(metrics, "_METER_PROVIDER", provider)
    endpoint, serving = start_http_server(0, "127.0.0.1")
    try:
        server = Server("sums")

        @server.tool
        def add(a: int, b: int) -> int:
            return a + b

        with Client(server) as mcp:
            mcp.call_tool("add", {"a": 1, "b": 2})
        with urllib.request.urlopen(f"http://127.0.0.1:{endpoint.server_port}/metrics", timeout=10) as page:
            families = {family.name: family for family in text_string_to_metric_families(page.read().decode())}
    finally:
        endpoint.shutdown()
        endpoint.server_close()
        serving.join()
        provider.shutdown()
    assert reader not in list(REGISTRY._collector_to_names)
    family = families["mcp_server_operation_duration_seconds"]
    counts = [one for one in family.samples if one.name.endswith("_count") and one.labels.get("gen_ai_tool_name")]
    assert [(one.labels["mcp_method_name"], one.labels["gen_ai_tool_name"], one.value) for one in counts] == [
        ("tools/call", "add", 1.0)
    ]
    assert "mcp_client_operation_duration_seconds" in families
