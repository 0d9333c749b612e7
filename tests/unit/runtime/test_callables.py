"""Calling functions of authors, blocking twins of async methods, and unknown options."""

import asyncio
import functools
import inspect
import threading
from typing import Any

import pytest

from dragoman.runtime.callables import (
    ThreadCall,
    blocking,
    did_you_mean,
    explaining,
    invoke,
    refuse_unknown,
    resolved,
    starter,
)

WORKER = "dragoman-worker"


def here(*given: Any) -> Any:
    return threading.current_thread().name, *given


async def here_later(*given: Any) -> Any:
    return here(*given)


class Plain:
    def __call__(self, *given: Any) -> Any:
        return here(*given)


class Asynchronous:
    async def __call__(self, *given: Any) -> Any:
        return here(*given)


@functools.wraps(here_later)
def run_to_its_end(*given: Any) -> Any:
    return asyncio.run(here_later(*given))


@pytest.mark.parametrize("function", [here, Plain(), functools.partial(here), run_to_its_end])
def test_a_plain_function_is_called_in_a_thread(function):
    assert asyncio.run(invoke(function, 1, 2)) == (WORKER, 1, 2)


@pytest.mark.parametrize(
    "function", [here_later, Asynchronous(), functools.partial(here_later), lambda *given: here_later(*given)]
)
def test_what_is_async_runs_in_the_loop_whoever_hands_it_out(function):
    assert asyncio.run(invoke(function, 1, 2)) == (threading.current_thread().name, 1, 2)


def test_a_plain_function_may_be_called_in_place():
    assert asyncio.run(invoke(here, 1, in_place=True)) == (threading.current_thread().name, 1)
    assert starter(here, in_place=True) is here


async def test_thread_call_returns_its_value():
    assert await ThreadCall(here, 1).result() == (WORKER, 1)
    assert await resolved(starter(here, in_place=False)(2)) == (WORKER, 2)


def test_what_a_function_raises_is_raised():
    async def fail() -> None:
        raise LookupError("no")

    for function in (fail, lambda: fail(), lambda: {}["no"]):
        with pytest.raises(LookupError, match="no"):
            asyncio.run(invoke(function))


def test_what_is_no_promise_is_itself():
    async def promise() -> Any:
        return here_later(1)

    assert asyncio.run(resolved(3)) == 3
    assert asyncio.run(resolved(promise())) == (threading.current_thread().name, 1)


class Adder:
    async def add(self, one: int, /, other: int = 1, *, times: int = 1) -> int:
        """Add, so many times."""
        await asyncio.sleep(0)
        return (one + other) * times

    async def fail(self) -> None:
        raise LookupError("gone")


class BlockingAdder:
    add = blocking(Adder.add)
    fail = blocking(Adder.fail)

    def _drive(self, method: Any, *args: Any, **kwargs: Any) -> Any:
        return asyncio.run(method(Adder(), *args, **kwargs))


def test_a_twin_takes_gives_and_raises_what_the_method_does():
    assert BlockingAdder().add(2) == 3
    assert BlockingAdder().add(2, 3, times=2) == 10
    assert BlockingAdder().add(2, other=3) == 5
    with pytest.raises(LookupError, match="gone"):
        BlockingAdder().fail()


def test_a_twin_has_the_name_the_parameters_and_the_documentation_of_the_method_and_is_plain():
    assert BlockingAdder.add.__name__ == "add"
    assert BlockingAdder.add.__doc__ == "Add, so many times."
    assert inspect.signature(BlockingAdder.add) == inspect.signature(Adder.add)
    assert not inspect.iscoroutinefunction(BlockingAdder.add)


def test_the_name_that_is_most_like_another_is_asked_for():
    assert did_you_mean("timeuot", ["timeout", "total_timeout"]) == "; did you mean 'timeout'?"
    assert did_you_mean("colour", ["timeout"]) == ""


def test_an_option_that_there_is_not_is_refused():
    refuse_unknown("It", {"timeout": 1}, ["timeout"])
    with pytest.raises(TypeError, match=r"It has no option 'timeuot'; did you mean 'timeout'\?"):
        refuse_unknown("It", {"timeuot": 1}, ["timeout"])


def test_an_option_of_another_package_is_refused_with_what_to_write_instead():
    @explaining("close()", {"wait": "write timeout="})
    def close(target: str, *, timeout: float = 1) -> str:
        loud = target.upper()
        return f"{loud} {timeout:g}"

    assert close("it", timeout=2) == "IT 2"
    with pytest.raises(TypeError, match=r"^close\(\) has no option 'wait': write timeout=$"):
        close("it", wait=1)
    with pytest.raises(TypeError, match=r"close\(\) has no option 'timeuot'; did you mean 'timeout'\?"):
        close("it", timeuot=1)
    with pytest.raises(TypeError, match="has no option 'loud'"):
        close("it", loud=True)
