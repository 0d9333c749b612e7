"""Tools that run as tasks belong to the trace of the call that began them, in whichever process they run."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from dragoman import AsyncClient, Client
from dragoman.server.extensions.tasks.extension import RUN_TASKS
from scenarios.task_peer import GENERATIONS
from scenarios.task_server import make_server
from telemetry_kit import is_child, otlp_receiver

FILE = str(Path(__file__).resolve().parents[1] / "traced_server.py")


@pytest.mark.parametrize("version", GENERATIONS)
async def test_a_task_runs_within_the_call_that_began_it(version, telemetry):
    async with AsyncClient(make_server(), tasks=True, protocol_version=version) as mcp:
        assert (await mcp.call_tool("add", {"a": 1, "b": 2})).structured == 3
    sent = telemetry.span("tools/call add", "CLIENT")
    served = telemetry.span("tools/call add", "SERVER")
    run = telemetry.span("execute_tool add", "INTERNAL")
    assert is_child(served, sent)
    assert is_child(run, served)
    polls = telemetry.spans("tasks/get", "SERVER")
    assert all(span.context.trace_id == sent.context.trace_id for span in polls)
    assert "error.type" not in run.attributes


def test_a_task_in_another_process_runs_within_the_call_that_began_it(tmp_path, telemetry):
    with otlp_receiver() as receiver:
        given = {"OTEL_EXPORTER_OTLP_ENDPOINT": receiver.url, "TRACED_FOLDER": str(tmp_path / "store")}
        worker = [sys.executable, "-m", "dragoman", "worker", FILE]
        with subprocess.Popen(worker, env=os.environ | given) as running:
            without_tasks = given | {RUN_TASKS: "0"}
            with Client([sys.executable, FILE], env=without_tasks, tasks=True, timeout=30) as mcp:
                assert mcp.call_tool("job").structured == running.pid
            served, run = receiver.span("tools/call job"), receiver.span("execute_tool job")
            running.terminate()
    sent = telemetry.span("tools/call job", "CLIENT")
    assert int.from_bytes(served.parent_span_id) == sent.context.span_id
    assert run.parent_span_id == served.span_id
    assert run.trace_id == served.trace_id
