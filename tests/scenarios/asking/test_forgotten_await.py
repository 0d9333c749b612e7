"""A forgotten `await` of a method of the context is reported at the line of the author."""

import asyncio
import gc
import warnings

import pytest

from dragoman import AsyncClient, Configuration, Context, Server, ToolError
from scenarios.asking.test_asking import Name, User, every_era, outcome, text

FORGOTTEN = {
    "elicit": lambda ctx: ctx.elicit("Who?", str),
    "elicit_url": lambda ctx: ctx.elicit_url("Visit", "https://example.com"),
    "sample": lambda ctx: ctx.sample("Write"),
    "list_roots": lambda ctx: ctx.list_roots(),
    "ask": lambda ctx: ctx.ask(),
    "step": lambda ctx: ctx.step("once", lambda: 1),
    "request": lambda ctx: ctx.request("ping"),
    "ping": lambda ctx: ctx.ping(),
}


@pytest.mark.parametrize("name", FORGOTTEN)
async def test_forgotten_await_is_reported_at_the_line_of_the_author(name):
    server = Server("forgetful")

    @server.tool
    async def forget(ctx: Context) -> str:
        answer = FORGOTTEN[name](ctx)  # lives until the frame of this function ends
        return repr(answer)

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        async with AsyncClient(server) as client:
            shown = (await client.call_tool("forget")).text
        gc.collect()
    assert shown == f"<ctx.{name}(...), which was not awaited>"
    (warning,) = caught
    assert warning.category is RuntimeWarning
    assert warning.filename == __file__
    assert f"ctx.{name}(...) was never awaited" in str(warning.message)
    assert warning.lineno == FORGOTTEN[name].__code__.co_firstlineno


async def test_reading_an_answer_that_was_not_awaited_names_the_remedy():
    errors: list[str] = []
    configuration = Configuration(exception_reporter=lambda error, info: errors.append(str(error)))
    server = Server("forgetful", configuration=configuration)

    @server.tool
    async def forget(ctx: Context) -> str:
        return ctx.elicit("Who?", str).content  # type: ignore[attr-defined]

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        async with AsyncClient(server) as client:
            with pytest.raises(ToolError):
                await client.call_tool("forget")
        gc.collect()
    assert errors == ["ctx.elicit(...) has no 'content' before it is awaited: write `await ctx.elicit(...)`"]
    assert [warning.filename for warning in caught] == [__file__]


@every_era
@pytest.mark.parametrize("way", ["await", "task", "gather", "wait_for", "returned"])
async def test_every_way_to_await_works(era, way):
    async def handler(ctx: Context) -> str:
        question = ctx.elicit("Who?", Name)
        if way == "task":
            answer = await asyncio.create_task(question)
        elif way == "gather":
            (answer,) = await asyncio.gather(question)
        elif way == "wait_for":
            answer = await asyncio.wait_for(question, 60)
        elif way == "returned":
            return ctx.step("name", lambda: named(question))
        else:
            answer = await question
        return answer.content.name

    async def named(question) -> str:
        return (await question).content.name

    assert text(await outcome(handler, era, User())) == "Ada"
