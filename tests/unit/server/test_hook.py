"""Functions that authors give for events."""

import asyncio
import threading
from typing import Any

import pytest

from dragoman import BlockingContext, Context, DefinitionError
from dragoman.server.hook import Hook

CALL: Any = object()


def invoked(function: Any, *values: Any) -> Any:
    return asyncio.run(Hook(function).invoke(CALL, *values))


async def takes_two(a, b):
    return a, b


async def takes_positions(a, b, /):
    return a, b


async def takes_context_first(ctx: Context, a):
    return a, isinstance(ctx, Context)


async def takes_context_between_positions(a, ctx: Context, b, /):
    return a, b


async def takes_context_by_name(a, *, ctx: Context, b):
    return a, b


async def keeps_private(a, _cache="mine", b="default"):
    return a, _cache, b


async def takes_nothing():
    return ()


def blocks(a, ctx: BlockingContext):
    return a, isinstance(ctx, BlockingContext), threading.current_thread().name


@pytest.mark.parametrize(
    ("function", "result"),
    [
        (takes_two, (1, 2)),
        (takes_positions, (1, 2)),
        (takes_context_first, (1, True)),
        (takes_context_between_positions, (1, 2)),
        (takes_context_by_name, (1, 2)),
        (keeps_private, (1, "mine", 2)),
        (takes_nothing, ()),
        (blocks, (1, True, "dragoman-worker")),
    ],
)
def test_a_hook_is_given_as_many_values_as_it_takes(function, result):
    assert invoked(function, 1, 2, 3) == result


def test_a_hook_that_takes_more_than_there_is_keeps_its_defaults():
    def takes_more(a, b="default"):
        return a, b

    assert invoked(takes_more, 1) == (1, "default")


def test_a_hook_with_the_wrong_kind_of_context_is_refused():
    def wrong(ctx: Context) -> None: ...

    with pytest.raises(DefinitionError, match="BlockingContext"):
        Hook(wrong)
