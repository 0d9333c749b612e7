"""The recorder: which spans and durations there are, and when there is a recorder at all."""

import asyncio
import subprocess
import sys

import pytest
from opentelemetry import baggage, context, metrics, trace
from opentelemetry.sdk.trace import SpanProcessor
from opentelemetry.trace import StatusCode

from dragoman.errors import Cancelled, InvalidParams, Timeout, TransportError
from dragoman.telemetry import (
    active_recorder,
    current_trace_id,
    note_request_id,
    session_digest,
    trace_context,
)
from dragoman.telemetry.recorder import BUCKETS, DISABLED, HISTOGRAMS
from telemetry_kit import is_child

PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


def test_there_is_no_recorder_without_a_provider():
    assert active_recorder() is None
    assert current_trace_id() is None
    assert trace_context() == {}


def test_nothing_is_imported_if_the_application_has_not_loaded_opentelemetry():
    program = (
        "import sys; from dragoman.telemetry import *; from dragoman import telemetry as t;"
        "assert t.active_recorder() is None and t.trace_context() == {} and t.current_trace_id() is None;"
        "t.note_request_id(1); assert not [name for name in sys.modules if 'opentelemetry' in name]"
    )
    assert subprocess.run([sys.executable, "-c", program], timeout=60).returncode == 0


def test_one_recorder_belongs_to_the_installed_providers(telemetry):
    recorder = active_recorder()
    assert recorder is not None
    assert active_recorder() is recorder


def test_a_provider_that_is_installed_later_is_noticed(telemetry, monkeypatch):
    with monkeypatch.context() as before:
        before.setattr(trace, "_TRACER_PROVIDER", trace.NoOpTracerProvider())
        before.setattr("opentelemetry.metrics._internal._METER_PROVIDER", metrics.NoOpMeterProvider())
        assert active_recorder() is None
    with active_recorder().sent("ping", None, {}):
        pass
    assert telemetry.span("ping")


def test_the_environment_can_leave_dragoman_out(telemetry, monkeypatch):
    monkeypatch.setenv(DISABLED, "redis, dragoman")
    assert active_recorder() is None


@pytest.mark.parametrize(
    ("method", "subject", "name", "attributes"),
    [
        ("ping", None, "ping", {}),
        ("tools/call", "add", "tools/call add", {"gen_ai.tool.name": "add", "gen_ai.operation.name": "execute_tool"}),
        ("tools/call", None, "tools/call", {"gen_ai.operation.name": "execute_tool"}),
        ("prompts/get", "greet", "prompts/get greet", {"gen_ai.prompt.name": "greet"}),
        ("resources/read", "a://b", "resources/read", {"mcp.resource.uri": "a://b"}),
        ("acme/own", "thing", "acme/own", {}),
    ],
)
def test_a_span_is_named_by_the_method_and_the_tool_or_prompt(method, subject, name, attributes, telemetry):
    with active_recorder().sent(method, subject, {"jsonrpc.request.id": "7"}):
        pass
    span = telemetry.span(name, "CLIENT")
    assert dict(span.attributes) == {"mcp.method.name": method, "jsonrpc.request.id": "7", **attributes}
    assert span.status.status_code is StatusCode.UNSET
    assert span.instrumentation_scope.name == "dragoman"


def test_a_duration_has_no_label_with_any_number_of_values(telemetry):
    with active_recorder().sent("resources/read", "a://b", {"jsonrpc.request.id": "7", "mcp.session.id": "s"}):
        pass
    (point,) = telemetry.points("mcp.client.operation.duration")
    assert dict(point.attributes) == {"mcp.method.name": "resources/read"}
    assert tuple(point.explicit_bounds) == BUCKETS
    assert point.count == 1


def test_a_received_request_is_a_child_of_the_span_that_its_meta_names(telemetry):
    meta = {"traceparent": PARENT, "tracestate": "a=b", "baggage": "user=ann", "progressToken": 7}
    with active_recorder().received("tools/call", "add", {}, meta, has_own_context=False):
        assert baggage.get_baggage("user") == "ann"
        assert current_trace_id() == "0af7651916cd43dd8448eb211c80319c"
        with telemetry.tracer.start_as_current_span("within"):
            pass
    span = telemetry.span("tools/call add", "SERVER")
    assert f"{span.parent.span_id:016x}" == "b7ad6b7169203331"
    assert span.context.trace_state.get("a") == "b"
    assert is_child(telemetry.span("within"), span)
    assert baggage.get_baggage("user") is None


@pytest.mark.parametrize("meta", [None, {}, [], "text", {"traceparent": 7}, {"traceparent": "no"}])
def test_a_received_request_without_a_trace_begins_one(meta, telemetry):
    with (
        telemetry.tracer.start_as_current_span("of the connection"),
        active_recorder().received("ping", None, {}, meta, has_own_context=False),
    ):
        pass
    assert telemetry.span("ping").parent is None


def test_the_span_of_the_http_request_is_the_parent_or_is_linked(telemetry):
    with telemetry.tracer.start_as_current_span("POST"):
        with active_recorder().received("ping", None, {}, None, has_own_context=True):
            pass
        with active_recorder().received("tools/list", None, {}, {"traceparent": PARENT}, has_own_context=True):
            pass
        with active_recorder().received("prompts/list", None, {}, trace_context(), has_own_context=True):
            pass
    post = telemetry.span("POST")
    assert is_child(telemetry.span("ping"), post)
    assert [link.context.span_id for link in telemetry.span("tools/list").links] == [post.context.span_id]
    assert telemetry.span("prompts/list").links == ()


@pytest.mark.parametrize(
    ("error", "error_type", "code", "status", "said"),
    [
        (InvalidParams("no city"), "-32602", "-32602", StatusCode.ERROR, "no city"),
        (asyncio.CancelledError(), "cancelled", None, StatusCode.UNSET, None),
        (Cancelled("gone"), "cancelled", None, StatusCode.UNSET, None),
        (Timeout("late", 1), "timeout", None, StatusCode.ERROR, None),
        (TransportError("a secret"), "TransportError", None, StatusCode.ERROR, None),
    ],
)
def test_a_failure_has_a_type_and_a_cancellation_is_no_failure(error, error_type, code, status, said, telemetry):
    with pytest.raises(type(error)), active_recorder().sent("ping", None, {}):
        raise error
    span = telemetry.span("ping")
    assert span.attributes["error.type"] == error_type
    assert span.attributes.get("rpc.response.status_code") == code
    assert (span.status.status_code, span.status.description) == (status, said)
    assert [point.attributes["error.type"] for point in telemetry.points("mcp.client.operation.duration")] == [
        error_type
    ]


def test_a_tool_apart_from_its_request_is_an_internal_span_without_a_duration(telemetry):
    with active_recorder().executed("add", {}, {"traceparent": PARENT}):
        pass
    with active_recorder().executed(None, {}, None):
        pass
    span = telemetry.span("execute_tool add", "INTERNAL")
    assert f"{span.parent.span_id:016x}" == "b7ad6b7169203331"
    assert telemetry.span("execute_tool").parent is None
    assert not [name for name in HISTOGRAMS if telemetry.points(name)]


def test_a_session_is_one_duration(telemetry):
    active_recorder().record_session("server", 2.5, {"mcp.protocol.version": "2025-11-25"})
    (point,) = telemetry.points("mcp.server.session.duration")
    assert (point.sum, dict(point.attributes)) == (2.5, {"mcp.protocol.version": "2025-11-25"})


def test_the_id_of_a_request_is_added_to_its_span(telemetry):
    with active_recorder().sent("ping", None, {}):
        note_request_id(7)
    assert telemetry.span("ping").attributes["jsonrpc.request.id"] == "7"


def test_the_name_of_a_session_does_not_tell_its_id():
    assert session_digest("secret") == session_digest("secret") != session_digest("other")
    assert "secret" not in session_digest("secret")
    assert len(session_digest("\ud800")) == 16


def test_the_context_is_as_before_after_an_operation(telemetry):
    before = context.get_current()
    with active_recorder().sent("ping", None, {}):
        assert trace.get_current_span().get_span_context().is_valid
    assert context.get_current() == before


def test_a_sampler_or_processor_that_raises_fails_no_operation(telemetry, caplog):
    class Broken(SpanProcessor):
        def on_start(self, span, parent_context=None):
            raise LookupError("at the begin" if span.name == "ping" else "")

        def on_end(self, span):
            raise LookupError("at the end")

    broken = Broken()
    telemetry.tracers.add_span_processor(broken)
    with active_recorder().sent("ping", None, {}):
        assert not trace.get_current_span().get_span_context().is_valid
    broken.on_start = lambda span, parent_context=None: None
    with active_recorder().sent("tools/list", None, {}):
        pass
    told = [record.exc_info[1].args for record in caplog.records if record.name == "dragoman.telemetry"]
    assert told == [("at the begin",), ("at the end",)]
    assert not trace.get_current_span().get_span_context().is_valid
