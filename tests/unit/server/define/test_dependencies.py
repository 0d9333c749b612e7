"""How dependencies are made, shared and cleaned up, and what is refused when a function is registered."""

import asyncio
import functools
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from itertools import permutations
from typing import Annotated, Any

import fastapi
import pytest

from dragoman import (
    AsyncClient,
    BlockingContext,
    Client,
    Configuration,
    Context,
    DefinitionError,
    Depends,
    Server,
    ToolError,
)

MAIN = threading.main_thread()


class Noting:
    """A server whose functions note what happens to them."""

    def __init__(self) -> None:
        self.errors: list[BaseException] = []
        self.reported = threading.Event()
        self.server = Server(configuration=Configuration(exception_reporter=self.report))
        self.happened: list[Any] = []

    def report(self, error: BaseException, info: object) -> None:
        self.errors.append(error)
        self.reported.set()

    async def call(self, function: Any, **arguments: Any) -> Any:
        tool = self.server.tool(function)
        try:
            async with AsyncClient(self.server) as client:
                result = await client.call_tool(tool.name, arguments)
                return result.text if result.structured is None else result.structured
        finally:
            self.server.remove_tool(tool)


@pytest.fixture
def noting() -> Noting:
    return Noting()


def thread() -> str:
    return "loop" if threading.current_thread() is MAIN else "thread"


def plain(item: str) -> str:
    return f"{item} {thread()}"


async def awaited(item: str) -> str:
    return f"{item} {thread()}"


def generator(item: str) -> Iterator[str]:
    yield f"{item} {thread()}"


async def async_generator(item: str) -> AsyncIterator[str]:
    yield f"{item} {thread()}"


class Made(str):
    __slots__ = ()

    def __new__(cls, item: str) -> "Made":
        return super().__new__(cls, f"{item} {thread()}")


class Called:
    def __call__(self, item: str) -> str:
        return f"{item} {thread()}"

    def method(self, item: str) -> str:
        return f"{item} {thread()}"


class AsyncCalled:
    async def __call__(self, item: str) -> str:
        return f"{item} {thread()}"


class GeneratorCalled:
    def __call__(self, item: str) -> Iterator[str]:
        yield f"{item} {thread()}"


KINDS = {
    "def": (plain, "thread"),
    "async def": (awaited, "loop"),
    "generator": (generator, "thread"),
    "async generator": (async_generator, "loop"),
    "contextmanager": (contextmanager(generator), "thread"),
    "asynccontextmanager": (asynccontextmanager(async_generator), "loop"),
    "class": (Made, "thread"),
    "object": (Called(), "thread"),
    "async object": (AsyncCalled(), "loop"),
    "generator object": (GeneratorCalled(), "thread"),
    "method": (Called().method, "thread"),
    "partial": (functools.partial(plain), "thread"),
    "partial of a generator": (functools.partial(generator), "thread"),
    "lambda that returns a coroutine": (lambda item: awaited(item), "loop"),
}


@pytest.mark.covers("DEP-05", "DEP-06")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("handler", ["def", "async def", "inline"])
async def test_a_dependency_of_any_kind_gets_the_arguments_by_name(noting, kind, handler):
    function, where = KINDS[kind]

    def blocking(item: str, made: Annotated[str, Depends(function)]) -> str:
        return f"{made} {thread()}"

    async def waiting(item: str, made: Annotated[str, Depends(function)]) -> str:
        return f"{made} {thread()}"

    if handler == "inline":
        noting.server.tool(inline=True)(blocking)
        async with AsyncClient(noting.server) as client:
            assert (await client.call_tool("blocking", {"item": "it"})).text == f"it {where} loop"
    else:
        chosen, runs_in = (blocking, "thread") if handler == "def" else (waiting, "loop")
        assert await noting.call(chosen, item="it") == f"it {where} {runs_in}"


@dataclass
class Page:
    """A class of parameters, as FastAPI has them."""

    size: int = 10
    start: int = 0


@pytest.mark.covers("DEP-06", "DEP-15")
async def test_without_a_function_the_type_is_called_and_defaults_stay(noting):
    async def listed(size: int, page: Annotated[Page, Depends()], other: Annotated[Page, fastapi.Depends()]) -> str:
        assert page is other
        return f"{page.size} {page.start}"

    assert await noting.call(listed, size=3) == "3 0"
    assert list(noting.server.tool(listed).definition.input_schema["properties"]) == ["size"]


@pytest.mark.covers("DEP-06")
async def test_contexts_and_other_dependencies_are_given_to_dependencies(noting):
    def reads(ctx: Context) -> str:
        return ctx.method

    def blocks(ctx: BlockingContext, before: str = Depends(reads)) -> str:
        ctx.info("made")
        return f"{before} {ctx.request_id is not None}"

    async def waits(ctx, before: Annotated[str, fastapi.Depends(blocks)]) -> str:
        await ctx.info("made")
        return f"{before} {isinstance(ctx, Context)}"

    async def handler(last: Annotated[str, Depends(waits)]) -> str:
        return last

    assert await noting.call(handler) == "tools/call True True"


@pytest.mark.covers("DEP-07")
async def test_one_request_has_one_value_unless_the_marker_says_otherwise(noting):
    made: list[int] = []

    def count() -> int:
        made.append(len(made))
        return made[-1]

    def through(number: int = Depends(count)) -> int:
        return number

    async def handler(
        a: int = Depends(count), b: int = Depends(through), c: int = Depends(count, use_cache=False)
    ) -> list[int]:
        return [a, b, c]

    assert await noting.call(handler) == [0, 0, 1]
    assert await noting.call(handler) == [2, 2, 3]


@pytest.mark.covers("DEP-08", "DEP-09")
@pytest.mark.parametrize("handler", ["def", "async def"])
async def test_generators_are_cleaned_up_in_reverse_and_receive_the_exception(noting, handler):
    happened = noting.happened

    async def first() -> AsyncIterator[int]:
        try:
            async with asyncio.timeout(60):  # must be left in the task that entered it
                yield 1
        except ToolError as error:
            happened.append(f"first {error}")
            raise
        happened.append("first")

    def second(one: int = Depends(first)) -> Iterator[int]:
        try:
            yield one + 1
        except ToolError as error:
            happened.append(f"second {error}")
            raise
        happened.append("second")

    def blocking(fails: bool, number: int = Depends(second)) -> int:
        if fails:
            raise ToolError("no")
        return number

    async def waiting(fails: bool, number: int = Depends(second)) -> int:
        return blocking(fails, number)

    function = blocking if handler == "def" else waiting
    assert await noting.call(function, fails=False) == 2
    assert happened == ["second", "first"]
    with pytest.raises(ToolError, match=r"^no$"):
        await noting.call(function, fails=True)
    assert happened[2:] == ["second no", "first no"]
    assert noting.errors == []


@pytest.mark.covers("DEP-08")
async def test_an_error_of_a_clean_up_is_reported_and_the_others_are_still_cleaned_up(noting):
    async def kept() -> AsyncIterator[None]:
        yield
        noting.happened.append("kept")

    async def fails(before: None = Depends(kept)) -> AsyncIterator[None]:
        yield
        raise KeyError("waiting")

    def fails_too(before: None = Depends(fails)) -> Iterator[None]:
        yield
        raise KeyError("blocking")

    async def handler(last: None = Depends(fails_too)) -> str:
        return "done"

    assert await noting.call(handler) == "done"
    assert [str(error) for error in noting.errors] == ["'blocking'", "'waiting'"]
    assert noting.happened == ["kept"]


async def test_a_dependency_that_fails_refuses_the_call_and_cleans_up_what_was_made(noting):
    def made() -> Iterator[None]:
        try:
            yield
        finally:
            noting.happened.append("left")

    def refuses(before: None = Depends(made)) -> str:
        raise ToolError("you are not known")

    async def handler(user: str = Depends(refuses)) -> str:
        raise AssertionError("not reached")

    with pytest.raises(ToolError, match="you are not known"):
        await noting.call(handler)
    assert noting.happened == ["left"]
    assert noting.errors == []


@pytest.mark.covers("DEP-09")
async def test_a_cancelled_request_cleans_up_after_its_blocking_handler_has_ended(noting):
    running, may_end, left = asyncio.Event(), threading.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()

    def session() -> Iterator[str]:
        try:
            yield "session"
        finally:
            noting.happened.append("left")
            loop.call_soon_threadsafe(left.set)

    @noting.server.tool
    def handler(used: str = Depends(session)) -> str:
        loop.call_soon_threadsafe(running.set)
        may_end.wait(30)
        noting.happened.append(f"used {used}")
        return "late"

    async with AsyncClient(noting.server) as client:
        calling = asyncio.create_task(client.call_tool("handler"))
        await running.wait()
        calling.cancel()
        await asyncio.wait([calling])
        await client.ping()
        assert noting.happened == []
        may_end.set()
        await left.wait()
    assert noting.happened == ["used session", "left"]


@pytest.mark.covers("DEP-09")
async def test_what_a_thread_opens_after_the_cancellation_is_closed_by_the_thread(noting):
    entering, may_enter = asyncio.Event(), threading.Event()
    loop = asyncio.get_running_loop()

    def slow() -> Iterator[None]:
        loop.call_soon_threadsafe(entering.set)
        may_enter.wait(30)
        try:
            yield
        finally:
            noting.happened.append("left")
            raise KeyError("closing")

    @noting.server.tool
    async def handler(used: None = Depends(slow)) -> str:
        return "not reached"

    async with AsyncClient(noting.server) as client:
        calling = asyncio.create_task(client.call_tool("handler"))
        await entering.wait()
        calling.cancel()
        await asyncio.wait([calling])
        await client.ping()
        may_enter.set()
        await asyncio.to_thread(noting.reported.wait, 30)
    assert noting.happened == ["left"]
    assert [str(error) for error in noting.errors] == ["'closing'"]


@pytest.mark.covers("DEP-12")
def test_a_cycle_is_refused_at_registration():
    def first(value): ...
    def second(value=Depends(first)): ...

    first.__defaults__ = (Depends(second),)
    with pytest.raises(DefinitionError, match=r"handler\(\) .* are a cycle, first -> second -> first"):

        @Server().tool
        def handler(value: str = Depends(first)) -> str: ...


@pytest.mark.covers("DEP-12", "DEP-15")
def test_a_parameter_without_a_value_is_refused_at_registration():
    def needs(size: int) -> int: ...
    def asks(request: fastapi.Request) -> int: ...
    def queries(size: Annotated[int, fastapi.Query()]) -> int: ...
    async def blocks(ctx: BlockingContext) -> int: ...

    reasons = {
        needs: r"needs\(\) .* 'size': handler\(\) has no argument of this name",
        asks: "Request of starlette.requests has no value in MCP; take `ctx: Context`",
        queries: "Query of fastapi.params has no value in MCP; take a plain argument of the tool instead",
        blocks: "an `async def` takes a Context",
    }
    for dependency, reason in reasons.items():

        def handler(item: str, value: Annotated[int, Depends(dependency)]) -> str: ...

        with pytest.raises(DefinitionError, match=reason):
            Server().tool(handler)


@pytest.mark.covers("DEP-13")
async def test_an_override_replaces_a_dependency_until_it_is_undone(noting):
    def user() -> str:
        return "real"

    def greeting(name: str = Depends(user)) -> str:
        return f"hello {name}"

    def title() -> str:
        return "Dr."

    async def fake(title: str = Depends(title)) -> AsyncIterator[str]:
        yield f"{title} fake"
        noting.happened.append("left")

    async def handler(text: str = Depends(greeting)) -> str:
        return text

    with noting.server.override(user, fake):
        assert await noting.call(handler) == "hello Dr. fake"
        other = noting.server.override(user, lambda: "other")
        assert await noting.call(handler) == "hello other"
        other.close()
        assert await noting.call(handler) == "hello Dr. fake"
    assert await noting.call(handler) == "hello real"
    assert noting.happened == ["left"] * 2


@pytest.mark.covers("DEP-13")
@pytest.mark.parametrize("order", list(permutations(range(3))))
def test_overrides_close_in_any_order(order):
    def user() -> str:
        return "real"

    server = Server()

    @server.tool
    def greet(name: str = Depends(user)) -> str:
        return name

    with Client(server) as client:
        replacements = ["first", "second", "third"]
        overrides = [server.override(user, lambda name=name: name) for name in replacements]
        open_ones = list(replacements)
        for position in order:
            assert client.call_tool("greet").text == open_ones[-1]
            overrides[position].close()
            overrides[position].close()  # closing twice changes nothing
            open_ones.remove(replacements[position])
        assert client.call_tool("greet").text == "real"


@pytest.mark.covers("DEP-13")
def test_override_refuses_values_that_are_not_functions():
    with pytest.raises(DefinitionError, match=r"replacement of server.override\(\) must be a function, not 5"):
        Server().override(len, 5)
    with pytest.raises(DefinitionError, match=r"dependency of server.override\(\) must be a function, not 'user'"):
        Server().override("user", len)
