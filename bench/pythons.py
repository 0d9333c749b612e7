"""How fast is a server on each Python, compared with 3.11, and what does uvloop add?

Every Python that is found has an environment of its own in `build/pythons`, which is made once. The same server runs in
all of them at once, and the rounds alternate. Those that are not found are told as not installed, and have no row.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import stdio
from processes import HERE
from rows import Effort, Row, Samples, Wanted, alternate
from streamable_http import PYTHON_STATELESS, WORKLOADS, Load, Server

OLDEST = "3.11"
VERSIONS = (OLDEST, "3.12", "3.13", "3.14")
ROOT = HERE.parent
ENVIRONMENTS = ROOT / "build" / "pythons"
ASYNCIO = "asyncio"


def interpreter(version: str) -> str | None:
    """Return a Python of a version, if one is installed."""
    pyenv = Path(os.environ.get("PYENV_ROOT", "~/.pyenv")).expanduser()
    found = sorted(pyenv.glob(f"versions/{version}.*/bin/python3"))
    return str(found[-1]) if found else shutil.which(f"python{version}")


def environment(version: str) -> Path | None:
    """Return the Python of the environment of a version, which is made if it is not there yet."""
    folder = ENVIRONMENTS / version
    python, ready = folder / "bin" / "python", folder / "ready"
    if ready.exists():
        return python
    found = interpreter(version)
    if found is None:
        print(f"Python {version} is not installed", file=sys.stderr)
        return None
    pip = (python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--constraint", "constraints.txt")
    for command in ((found, "-m", "venv", folder), (*pip, "--upgrade", "pip"), (*pip, "--editable", ".")):
        subprocess.run(command, cwd=ROOT, check=True)
    ready.touch()
    return python


def calls(effort: Effort, pythons: dict[str, Path]) -> Samples:
    """Measure calls over stdio that are written in one go."""
    count = 100 * effort.calls
    requests = b"".join(stdio.calls("add", count))
    with ExitStack() as stack:
        servers = {
            version: stack.enter_context(stdio.Server("dragoman", interpreter=python))
            for version, python in pythons.items()
        }

        def measure(version: str) -> float:
            started = time.perf_counter()
            answers = servers[version].ask_all(requests, count)
            elapsed = time.perf_counter() - started
            stdio.check_sums(version, answers, count)
            return count / elapsed

        return alternate(effort.rounds, servers, measure)


def posts(effort: Effort, pythons: dict[str, Path]) -> Samples:
    """Measure stateless calls over HTTP."""
    return _rates(effort, {version: partial(Server, "dragoman", python) for version, python in pythons.items()})


def _rates(effort: Effort, started: dict[str, Callable[[], Server]]) -> Samples:
    with ExitStack() as stack:
        load = stack.enter_context(Load())
        servers = {name: stack.enter_context(start()) for name, start in started.items()}
        side, asked = PYTHON_STATELESS["dragoman"], WORKLOADS["http_stateless"]
        requests = {name: server.requests(side, asked) for name, server in servers.items()}

        def measure(name: str) -> float:
            seen = load.go(port=servers[name].port, seconds=effort.seconds, requests=requests[name])
            return float(seen["rate"])

        return alternate(effort.rounds, servers, measure)


def starts(effort: Effort, pythons: dict[str, Path]) -> Samples:
    """Measure how long a fresh stdio server takes until it answers."""

    def measure(version: str) -> float:
        with stdio.Server("small-dragoman", interpreter=pythons[version]) as server:
            return server.seconds_to_first_answer * 1e3

    return alternate(effort.rounds, pythons, measure)


Workload = tuple[str, str, Callable[[Effort, dict[str, Path]], Samples]]
WORKLOADS_BY_PYTHON: dict[str, Workload] = {
    "pythons_stdio": ("stdio, tools/call, pipelined", "calls/s", calls),
    "pythons_http": ("HTTP, tools/call, stateless", "calls/s", posts),
    "pythons_start": ("stdio, start to first answer", "ms", starts),
}


def by_python(name: str, effort: Effort, pythons: dict[str, Path]) -> Iterator[Row]:
    """Measure on all Pythons, and compare each with the oldest."""
    title, unit, measured = WORKLOADS_BY_PYTHON[name]
    samples = measured(effort, pythons)
    for version in [version for version in pythons if version != OLDEST]:
        compared = {"dragoman": samples[version], f"Python {OLDEST}": samples[OLDEST]}
        shown = f"{title}, on Python {version}"
        yield Row(f"{name}_{version}", shown, unit, compared, more_is_better=unit == "calls/s")


def uvloop(effort: Effort) -> Row:
    """Measure a server with uvloop, and one that does not find it."""
    samples = _rates(effort, {"dragoman": lambda: Server("dragoman"), ASYNCIO: lambda: Server("dragoman-asyncio")})
    return Row("pythons_uvloop", "HTTP, tools/call, stateless, with uvloop", "calls/s", samples)


def measure(effort: Effort, wanted: Wanted) -> Iterator[Row]:
    """Measure what is wanted of the Pythons that are here."""
    chosen = [name for name in WORKLOADS_BY_PYTHON if any(wanted(f"{name}_{version}") for version in VERSIONS)]
    found = {version: environment(version) for version in VERSIONS} if chosen else {}
    pythons = {version: python for version, python in found.items() if python is not None}
    for name in chosen if OLDEST in pythons else ():
        yield from (row for row in by_python(name, effort, pythons) if wanted(row.name))
    if wanted("pythons_uvloop"):
        yield uvloop(effort)
