"""Steps of a handler: each name stands for one value, in both eras and in tasks."""

import asyncio
import gc
import warnings

import pytest

from dragoman import BlockingContext, Context, DefinitionError, InputRequired, ListRoots
from scenarios.asking.test_asking import Name, User, every_era, outcome, text

BLOCKING = pytest.mark.parametrize("is_blocking", [False, True], ids=["async", "blocking"])
ITEMS = ["pen", "ink", "paper"]


@every_era
@BLOCKING
async def test_repeated_step_name_raises(era, is_blocking):
    charged: list[str] = []

    async def handler(ctx: Context) -> str:
        await ctx.step("charge", lambda: charged.append("pen"))
        with pytest.raises(DefinitionError, match=r'its own name, such as f"charge-\{item\}"'):
            await ctx.step("charge", lambda: charged.append("ink"))
        return "refused"

    def blocking_handler(ctx: BlockingContext) -> str:
        ctx.step("charge", lambda: charged.append("pen"))
        with pytest.raises(DefinitionError, match=r'its own name, such as f"charge-\{item\}"'):
            ctx.step("charge", lambda: charged.append("ink"))
        return "refused"

    assert text(await outcome(blocking_handler if is_blocking else handler, era)) == "refused"
    assert charged == ["pen"]


@every_era
async def test_parallel_steps_with_the_same_name_raise(era):
    charged: list[str] = []

    async def charge(item: str) -> str:
        await asyncio.sleep(0)
        charged.append(item)
        return item

    async def handler(ctx: Context) -> str:
        steps = (ctx.step("charge", lambda item=item: charge(item)) for item in ITEMS)
        results = await asyncio.gather(*steps, return_exceptions=True)
        return ", ".join(type(result).__name__ for result in results)

    assert text(await outcome(handler, era)) == "str, DefinitionError, DefinitionError"
    assert charged == ["pen"]


@every_era
@BLOCKING
async def test_distinct_step_names_replay_in_later_rounds(era, is_blocking):
    charged: list[str] = []

    def charge(item: str) -> str:
        charged.append(item)
        return f"receipt for {item}"

    async def handler(ctx: Context) -> str:
        receipts = [await ctx.step(f"charge-{item}", lambda item=item: charge(item)) for item in ITEMS]
        await ctx.elicit("First?", Name)
        receipts.append(await ctx.step("charge-stamp", lambda: charge("stamp")))
        await ctx.elicit("Second?", Name)
        return ", ".join(receipts)

    def blocking_handler(ctx: BlockingContext) -> str:
        receipts = [ctx.step(f"charge-{item}", lambda item=item: charge(item)) for item in ITEMS]
        ctx.elicit("First?", Name)
        receipts.append(ctx.step("charge-stamp", lambda: charge("stamp")))
        ctx.elicit("Second?", Name)
        return ", ".join(receipts)

    response = await outcome(blocking_handler if is_blocking else handler, era)
    assert text(response) == ", ".join(f"receipt for {item}" for item in [*ITEMS, "stamp"])
    assert charged == [*ITEMS, "stamp"]


@every_era
async def test_handler_that_returns_its_questions_replays_its_steps(era):
    ran: list[int] = []

    async def handler(ctx: Context) -> str | InputRequired:
        number = await ctx.step("number", lambda: ran.append(1) or 4711)
        return str(number) if ctx.inputs else InputRequired({"roots": ListRoots()})

    assert text(await outcome(handler, era, User())) == "4711"
    assert ran == [1]


@every_era
@BLOCKING
async def test_failed_step_may_be_tried_again(era, is_blocking):
    attempts: list[int] = []

    def charge() -> str:
        attempts.append(1)
        if len(attempts) < 3:
            raise ConnectionError("The bank is closed")
        return "charged"

    async def handler(ctx: Context) -> str:
        while True:
            try:
                return await ctx.step("charge", charge)
            except ConnectionError:
                continue

    def blocking_handler(ctx: BlockingContext) -> str:
        while True:
            try:
                return ctx.step("charge", charge)
            except ConnectionError:
                continue

    assert text(await outcome(blocking_handler if is_blocking else handler, era)) == "charged"
    assert len(attempts) == 3


@BLOCKING
async def test_coroutine_in_place_of_a_function_raises_without_a_warning(is_blocking):
    async def charge() -> str:
        raise AssertionError("never runs")

    async def handler(ctx: Context) -> str:
        with pytest.raises(TypeError, match=r"needs a function, not a coroutine: write step\('charge', lambda: \.\.\."):
            await ctx.step("charge", charge())
        return "refused"

    def blocking_handler(ctx: BlockingContext) -> str:
        with pytest.raises(TypeError, match="needs a function, not a coroutine"):
            ctx.step("charge", charge())
        with pytest.raises(TypeError, match="is async, and a `def` handler cannot await it"):
            ctx.step("charge", charge)  # type: ignore[unused-coroutine]
        return "refused"

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert text(await outcome(blocking_handler if is_blocking else handler, "stateless")) == "refused"
        gc.collect()
    assert [str(warning.message) for warning in caught] == []
