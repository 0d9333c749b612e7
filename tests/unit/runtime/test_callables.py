"""Calling functions of authors, blocking twins of async methods, and unknown options."""

import asyncio
import functools
import inspect
import threading
import traceback
from typing import Any

import pytest

from dragoman.errors import DefinitionError, UnknownOption
from dragoman.runtime.callables import (
    ThreadCall,
    at_caller,
    blocking,
    did_you_mean,
    explaining,
    invoke,
    raise_at_caller,
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


def frames(error):
    return [frame.name for frame in traceback.extract_tb(error.__traceback__)]


def raise_like_the_package(kind):
    namespace = {"__name__": "dragoman.inner", "kind": kind}
    exec("def inner():\n    try:\n        int('x')\n    except ValueError:\n        raise kind('no')", namespace)
    return namespace["inner"]


@pytest.mark.parametrize("kind", [DefinitionError, UnknownOption])
def test_errors_of_definitions_show_only_frames_outside_the_package(kind):
    function = at_caller(raise_like_the_package(kind))
    with pytest.raises(kind) as raised:
        function()
    assert frames(raised.value) == ["test_errors_of_definitions_show_only_frames_outside_the_package"]
    assert raised.value.__suppress_context__


def test_frames_of_author_code_below_the_package_stay():
    inner = at_caller(raise_like_the_package(DefinitionError))

    def lifespan():
        inner()

    with pytest.raises(DefinitionError) as raised:
        at_caller(lambda: lifespan())()
    assert frames(raised.value)[-1] == "lifespan"


async def test_errors_of_async_definitions_show_only_frames_outside_the_package():
    inner = raise_like_the_package(DefinitionError)

    class Server:
        async def run(self):
            inner()

    raise_at_caller("run")(Server)
    with pytest.raises(DefinitionError) as raised:
        await Server().run()
    assert frames(raised.value) == ["test_errors_of_async_definitions_show_only_frames_outside_the_package", "run"]


def test_other_errors_keep_every_frame():
    with pytest.raises(LookupError) as raised:
        at_caller(raise_like_the_package(LookupError))()
    assert frames(raised.value)[-2:] == ["run", "inner"]
    assert not raised.value.__suppress_context__


def test_setters_and_static_methods_raise_at_the_caller():
    inner = raise_like_the_package(DefinitionError)

    @raise_at_caller("name make")
    class Thing:
        name = property(lambda self: "thing", lambda self, value: inner())
        make = staticmethod(inner)

    assert Thing().name == "thing"
    for act in (lambda: setattr(Thing(), "name", 1), lambda: Thing.make()):
        with pytest.raises(DefinitionError) as raised:
            act()
        assert "inner" not in frames(raised.value)


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
