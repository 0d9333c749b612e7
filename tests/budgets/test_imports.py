"""What importing costs, counted in modules and compared in time, in fresh interpreters."""

import os
import statistics
import subprocess
import sys
from pathlib import Path

import pytest

import dragoman.protocol
import dragoman.schema

ENVIRONMENT = {
    name: value for name, value in os.environ.items() if name not in {"PYTHONDONTWRITEBYTECODE", "PYTHONUNBUFFERED"}
}


def in_fresh_interpreter(code: str) -> str:
    finished = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60, env=ENVIRONMENT
    )
    return finished.stdout


def modules_after(statement: str) -> set[str]:
    return set(in_fresh_interpreter(f"{statement}\nimport sys\nprint(' '.join(sys.modules))").split())


def test_the_types_load_neither_asyncio_nor_anything_that_performs():
    loaded = modules_after("from dragoman import types")
    assert not loaded & {"asyncio", "logging", "socket", "ssl", "threading", "subprocess", "aiohttp", "uvicorn", "rich"}


def test_the_types_load_few_modules_beyond_msgspec():
    assert len(modules_after("from dragoman import types") - modules_after("import msgspec, msgspec.json")) <= 40


@pytest.mark.parametrize("room", [dragoman.protocol, dragoman.schema], ids=lambda room: room.__name__)
def test_the_whole_core_loads_neither_asyncio_nor_sockets(room):
    folder = Path(room.__path__[0])
    modules = (".".join(path.relative_to(folder).with_suffix("").parts) for path in folder.rglob("[!_]*.py"))
    loaded = modules_after("\n".join(f"import {room.__name__}.{module}" for module in modules))
    assert not loaded & {"asyncio", "logging", "socket", "ssl", "threading", "subprocess"}


def seconds_to(statement: str) -> float:
    code = f"import time\nstarted = time.perf_counter()\n{statement}\nprint(time.perf_counter() - started)"
    return float(in_fresh_interpreter(code))


def test_importing_the_types_takes_at_most_twice_as_long_as_importing_msgspec():
    seconds_to("from dragoman import types")
    ratios = [seconds_to("from dragoman import types") / seconds_to("import msgspec") for _ in range(9)]
    assert statistics.median(ratios) <= 2, sorted(ratios)
