"""Where the parameters of authors' functions come from, and functions that authors give for events."""

import asyncio
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Optional

import pytest
from msgspec import Raw

from dragoman import BlockingContext, Context, DefinitionError
from dragoman.schema.python.signature import Injected
from dragoman.server.define.binding import Hook, signature_of

if TYPE_CHECKING:
    import dragoman.server.request.context as hidden

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


# The context


def test_a_context_is_given_at_its_position():
    async def function(a: int, ctx: Context, b: int = 2): ...

    signature = signature_of(function)
    assert signature.injected == (Injected("ctx", Context, 1),)
    (a, context, b), keywords = signature.bind(Raw(b'{"a": 1}'), CALL)
    assert (a, b, keywords) == (1, 2, {})
    assert isinstance(context, Context)
    assert list(signature.input_schema["properties"]) == ["a", "b"]


def test_a_context_is_given_by_its_name():
    def function(a: int, *, b: int = 2, ctx: BlockingContext): ...

    signature = signature_of(function)
    assert signature.injected == (Injected("ctx", BlockingContext, None),)
    positional, keywords = signature.bind(Raw(b'{"a": 1}'), CALL)
    assert isinstance(keywords.pop("ctx"), BlockingContext)
    assert (positional, keywords) == ((1,), {"b": 2})


def test_a_context_may_come_first_or_be_positional_only():
    def function(ctx: BlockingContext, a: int, /): ...

    assert signature_of(function).injected == (Injected("ctx", BlockingContext, 0),)


def test_a_context_may_be_optional_or_annotated_or_only_called_so():
    async def optional(ctx: Context | None = None): ...
    async def older(ctx: Optional[Context] = None): ...  # noqa: UP045
    async def annotated(ctx: Annotated[Context, "not a parameter"]): ...
    async def bare(ctx): ...

    for function in (optional, older, annotated, bare):
        assert signature_of(function).injected == (Injected("ctx", Context, 0),)
        assert signature_of(function).parameters == ()


def test_a_context_imported_for_type_checkers_only_is_known_by_its_name():
    async def plain(ctx: "hidden.Context", a: "int"): ...
    async def optional(ctx: "hidden.Context | None", a: "int"): ...
    async def annotated(ctx: 'Annotated["hidden.Context[str]", "x"]', a: "int"): ...

    for function in (plain, optional, annotated):
        signature = signature_of(function)
        assert signature.injected == (Injected("ctx", Context, 0),)
        assert [parameter.name for parameter in signature.parameters] == ["a"]


def test_a_class_of_another_package_is_no_context():
    @dataclass
    class Context:
        a: int

    async def function(ctx: Context): ...

    signature = signature_of(function)
    assert signature.injected == ()
    assert signature.input_schema["properties"] == {"ctx": {"$ref": "#/$defs/Context"}}


def test_a_plain_function_cannot_take_an_async_context():
    def function(ctx: Context): ...

    with pytest.raises(DefinitionError, match=r"'ctx': a `def` takes a BlockingContext.*`async def`"):
        signature_of(function)


def test_an_async_function_cannot_take_a_blocking_context():
    async def function(ctx: BlockingContext): ...

    with pytest.raises(DefinitionError, match=r"'ctx': an `async def` takes a Context.*`def`"):
        signature_of(function)


def test_a_context_is_taken_once():
    async def function(one: Context, two: Context): ...

    with pytest.raises(DefinitionError, match="'two': the context is already given to 'one'"):
        signature_of(function)
