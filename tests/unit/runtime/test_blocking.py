"""Blocking twins of asynchronous methods."""

import asyncio
import inspect
from typing import Any

import pytest

from dragoman.runtime.blocking import blocking


class Asynchronous:
    async def add(self, one: int, /, other: int = 1, *, times: int = 1) -> int:
        """Add, so many times."""
        await asyncio.sleep(0)
        return (one + other) * times

    async def fail(self) -> None:
        raise LookupError("gone")


class Blocking:
    add = blocking(Asynchronous.add)
    fail = blocking(Asynchronous.fail)

    def _drive(self, method: Any, *args: Any, **kwargs: Any) -> Any:
        return asyncio.run(method(Asynchronous(), *args, **kwargs))


def test_a_twin_takes_and_gives_what_the_method_does():
    assert Blocking().add(2) == 3
    assert Blocking().add(2, 3, times=2) == 10
    assert Blocking().add(2, other=3) == 5


def test_a_twin_raises_what_the_method_raises():
    with pytest.raises(LookupError, match="gone"):
        Blocking().fail()


def test_a_twin_has_the_name_the_parameters_and_the_documentation_of_the_method():
    assert Blocking.add.__name__ == "add"
    assert Blocking.add.__doc__ == "Add, so many times."
    assert inspect.signature(Blocking.add) == inspect.signature(Asynchronous.add)


def test_a_twin_is_no_coroutine_function():
    assert not inspect.iscoroutinefunction(Blocking.add)
