"""The official suite says the same of our server directly and through a proxy."""

import asyncio
import os
import subprocess
import sys
from contextlib import ExitStack, contextmanager

import pytest

from conformance.run import HERE, Outcome, free_port, judge, run_suite, wait_for, written_checks

pytestmark = pytest.mark.e2e
OF_ONE_CONNECTION = {"server-sse-polling"}
"""Scenarios about the stream of one HTTP connection, which a proxy has of its own."""


@contextmanager
def serving(*command, port, folder):
    environment = {**os.environ, "XDG_STATE_HOME": str(folder / "state")}
    with subprocess.Popen([sys.executable, *map(str, command)], env=environment) as process:
        try:
            asyncio.run(wait_for(port))
            yield f"http://localhost:{port}/mcp"
        finally:
            process.terminate()


def examine(url, version, folder):
    asyncio.run(run_suite("server", "--url", url, "--suite", "all", "--spec-version", version, "-o", str(folder)))
    outcomes = [judge(Outcome("server", name, version), checks, {}) for name, checks in written_checks(folder)]
    return {one.scenario: one.problems for one in outcomes if one.scenario not in OF_ONE_CONNECTION}


@pytest.mark.parametrize("version", ["2025-06-18", "2025-11-25", "2026-07-28"])
def test_the_suite_has_the_same_verdict_through_a_proxy(version, tmp_path):
    inner, outer = free_port(), free_port()
    program = "import sys; from dragoman import Server; Server.proxy(sys.argv[1]).run('http', port=int(sys.argv[2]))"
    with ExitStack() as stack:
        direct = stack.enter_context(serving(HERE / "server.py", "--port", inner, port=inner, folder=tmp_path))
        proxy = stack.enter_context(serving("-c", program, direct, outer, port=outer, folder=tmp_path))
        expected = examine(direct, version, tmp_path / "direct")
        assert len(expected) > 20
        assert examine(proxy, version, tmp_path / "proxy") == expected
