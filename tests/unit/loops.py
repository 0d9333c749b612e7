"""Async tests, each run in a new event loop with a deadline."""

import asyncio
import functools
import inspect
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
import uvloop

DEADLINE = 60

AsyncTest = Callable[..., Coroutine[Any, Any, None]]


async def _within_deadline(work: Coroutine[Any, Any, None]) -> None:
    async with asyncio.timeout(DEADLINE):
        await work


def in_a_loop(test: AsyncTest) -> Callable[..., None]:
    """Run a test in a loop of asyncio."""

    @functools.wraps(test)
    def run(*args: Any, **kwargs: Any) -> None:
        asyncio.run(_within_deadline(test(*args, **kwargs)))

    return run


def in_each_loop(test: AsyncTest) -> Callable[..., None]:
    """Run a test in a loop of asyncio, and in one of uvloop."""

    @pytest.mark.parametrize("run_loop", [asyncio.run, uvloop.run], ids=["asyncio", "uvloop"])
    @functools.wraps(test)
    def run(*args: Any, run_loop: Callable[..., None], **kwargs: Any) -> None:
        run_loop(_within_deadline(test(*args, **kwargs)))

    # pytest reads the parameters from the signature.
    given = inspect.signature(test)
    extra = inspect.Parameter("run_loop", inspect.Parameter.KEYWORD_ONLY)
    run.__signature__ = given.replace(parameters=[*given.parameters.values(), extra])  # type: ignore[attr-defined]
    del run.__wrapped__  # type: ignore[attr-defined]
    return run
