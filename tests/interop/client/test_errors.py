"""What users see when what they point a client at is no server, or not where they think."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

import pytest

from dragoman import AsyncClient, DragomanError, ServerCrashed
from dragoman.errors import HttpError
from interop.client.peers import reachable

DEADLINE = 60.0
MODES = ("auto", "handshake", "stateless")
UNSET = "MY_API_KEY is not set"
EXITS = [sys.executable, "-c", f"import sys; sys.exit({UNSET!r})"]


async def connect(target: Any, **options: Any) -> None:
    async with asyncio.timeout(DEADLINE), AsyncClient(target, **options):
        raise AssertionError("it is connected")


def refusal(target: Any, **options: Any) -> DragomanError:
    """Return the error that a client raises."""
    with pytest.raises(DragomanError) as raised:
        asyncio.run(connect(target, **options))
    return raised.value


@pytest.mark.covers("CIN-03")
@pytest.mark.parametrize(
    "mode",
    [
        "auto",
        "handshake",
        "stateless",
    ],
)
def test_a_server_that_exits_at_its_start_is_reported_with_what_it_wrote_to_stderr(mode: str) -> None:
    error = refusal(EXITS, mode=mode)
    assert UNSET in str(error)
    assert isinstance(error, ServerCrashed)
    assert (error.exit_code, error.stderr_tail.strip()) == (1, UNSET)


@pytest.mark.covers("CIN-04")
@pytest.mark.parametrize(("server", "transport"), [("mcp", "http"), ("everything", "http"), ("everything", "sse")])
def test_a_wrong_path_is_named_with_the_status(server: str, transport: str, tmp_path: Path) -> None:
    with reachable(server, transport, tmp_path) as url:
        wrong = url.rpartition("/")[0] + "/wrong"
        error = refusal(wrong)
    assert isinstance(error, HttpError)
    assert f"{wrong} answered with status 404" in str(error)
