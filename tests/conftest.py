"""What every test relies on."""

import asyncio
import gc
import inspect
import os
import signal
from collections.abc import Coroutine, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from redis_server import redis_server as redis_server
from scenarios.http_carriers import CARRIERS, carrier
from telemetry_kit import telemetry as telemetry

# A run that was started in the background inherits an ignored SIGINT, and so would the servers under test.
signal.signal(signal.SIGINT, signal.default_int_handler)

# Hypothesis judges tests by a clock, which on a busy machine says nothing about them. `make soak` tries new examples
# each time; every other run tries the same ones, so that it depends on the change alone.
settings.register_profile(
    "dragoman",
    deadline=None,
    derandomize="DRAGOMAN_EXAMPLES" not in os.environ,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("dragoman")

DEADLINE = 60
"""The seconds that an asynchronous test may take."""

SPECIAL_CARRIERS = frozenset({"http/test_fleet", "http/test_processes", "http/test_uvicorn", "http/test_views"})
"""The scenarios of HTTP that choose what carries their exchanges."""


KEEPING = frozenset(
    {
        *("auth/test_client", "auth/test_issuer", "auth/test_programs", "auth/test_secrecy", "http/test_bearer"),
        *("connect/test_negotiation", "wild/test_wild"),
    }
)
"""The scenarios whose programs keep something in the user's state folder."""


def place(module: ModuleType) -> str:
    """Return where a test file stands, as `folder/name`."""
    path = Path(str(module.__file__))
    return f"{path.parent.name}/{path.stem}"


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run what is said over HTTP by everything that carries it."""
    where = place(metafunc.module)
    is_carried = "scenarios/http" in str(metafunc.definition.path) and where not in SPECIAL_CARRIERS
    if is_carried and not any(metafunc.definition.iter_markers("by_asgi")):
        metafunc.parametrize("carried_by", CARRIERS, indirect=True)


def pytest_collection_finish() -> None:
    """Keep the collected tests, which live as long as the run, out of every later collection of garbage."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run an asynchronous test with a deadline, and see that it leaves no task behind."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    arguments = {name: pyfuncitem.funcargs[name] for name in inspect.signature(pyfuncitem.obj).parameters}
    asyncio.run(_watched(pyfuncitem.obj(**arguments)))
    return True


async def _watched(test: Coroutine[Any, Any, None]) -> None:
    await asyncio.wait_for(test, DEADLINE)
    await asyncio.sleep(0)
    left = asyncio.all_tasks() - {asyncio.current_task()}
    assert not left


@pytest.fixture(autouse=True)
def carried_by(request: pytest.FixtureRequest) -> Iterator[None]:
    """Let the exchanges of a test be carried so."""
    before = carrier.set(getattr(request, "param", "asgi"))
    yield
    carrier.reset(before)


@pytest.fixture(autouse=True)
def own_state_folder(request: pytest.FixtureRequest) -> None:
    """Let programs that remember where they were let in remember it for one test."""
    if place(request.module) in KEEPING:
        folder = request.getfixturevalue("tmp_path_factory").mktemp("state")
        request.getfixturevalue("monkeypatch").setenv("XDG_STATE_HOME", str(folder))
