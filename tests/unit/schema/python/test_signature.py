"""Schemas and calls of functions, beyond the table of annotations."""

import datetime as dt
import enum
import functools
import gc
import inspect
import json
import pickle
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    Literal,
)

import pydantic
import pytest
from msgspec import UNSET, Meta, Raw
from pydantic import BaseModel, Field

from dragoman.errors import DefinitionError
from dragoman.schema.python.annotations import UnresolvedName
from dragoman.schema.python.shapes import Problem
from dragoman.schema.python.signature import ArgumentsRejected, Signature

if TYPE_CHECKING:
    from somewhere import Missing
from unit.schema.python.signature_samples import INTEGER, Point, collects, described, two_integers, unannotated
from unit.schema.python.test_signature_table import call

# What a table cannot show


def test_parameters_tell_name_need_description_and_schema():
    """Prompts are listed by them."""

    def review(code: str, tone: Literal["terse", "kind"] = "kind"):
        """Review.

        Args:
            code: What to review.
        """

    code, tone = Signature.of(review).parameters
    assert (code.name, code.required, code.description) == ("code", True, "What to review.")
    assert (tone.name, tone.required, tone.description) == ("tone", False, None)
    assert tone.schema == {"type": "string", "enum": ["terse", "kind"], "default": "kind"}


def test_no_arguments_and_null_are_an_empty_object():
    signature = Signature.of(lambda a=1: a)
    for arguments in (UNSET, None, Raw(b"{}"), Raw(b"null")):
        assert signature.bind(arguments, None) == ((1,), {})


def test_defaults_are_the_very_objects_and_lists_of_them_are_copied():
    default = [Point(1)]

    def function(points: list[Point] = default, where: Path = Path("x"), *, sentinel: Any = UNSET):
        return points, sentinel

    (points, where), keywords = Signature.of(function).bind(None)
    assert points is not default
    assert points[0] is default[0]
    assert where == Path("x")
    assert keywords == {"sentinel": UNSET}
    assert Signature.of(function).input_schema["properties"]["sentinel"] == {}


def test_a_default_without_a_json_form_is_not_shown():
    def function(a: Any = object()):  # noqa: B008
        return a

    signature = Signature.of(function)
    assert signature.input_schema == {"type": "object", "properties": {"a": {}}}
    assert signature.bind(None)[0] == (inspect.signature(function).parameters["a"].default,)


def test_a_message_says_what_is_missing_and_what_is_wrong():
    def function(a: int, b: int, c: int): ...

    with pytest.raises(ArgumentsRejected) as caught:
        Signature.of(function).bind(Raw(b'{"c": "x"}'))
    assert str(caught.value) == "Missing required arguments: a, b. Invalid arguments: c: Expected `int`, got `str`"
    assert caught.value.problems == (
        Problem("a", "Missing required field", missing=True),
        Problem("b", "Missing required field", missing=True),
        Problem("c", "Expected `int`, got `str`"),
    )
    assert pickle.loads(pickle.dumps(caught.value)).problems == caught.value.problems


def test_arguments_that_are_no_object_are_refused():
    with pytest.raises(ArgumentsRejected, match=r"^Invalid arguments: Expected `object`, got `array`$"):
        Signature.of(two_integers).bind(Raw(b"[]"))


@pytest.mark.parametrize(
    "arguments",
    [
        b'{"first": ',
        b'{"first": "\xff"}',
        b'{"first": 1' + b"0" * 5000 + b"}",
        b'{"first": ' + b"[" * 20_000 + b"]" * 20_000 + b"}",
        b'{"other": ' + b"[" * 20_000 + b"]" * 20_000 + b"}",
    ],
    ids=["truncated", "no Unicode", "huge number", "deep", "deep and ignored"],
)
def test_arguments_that_cannot_be_read_are_refused(arguments):
    with pytest.raises(ArgumentsRejected, match="The arguments cannot be read: "):
        Signature.of(unannotated).bind(Raw(arguments))


def test_no_more_problems_are_listed_than_anyone_reads():
    def function(numbers: list[int]): ...

    with pytest.raises(ArgumentsRejected) as caught:
        Signature.of(function).bind(Raw(json.dumps({"numbers": ["x"] * 1000}).encode()))
    assert len(caught.value.problems) == 100


def test_large_arguments_are_not_looked_through():
    def function(numbers: list[int]): ...

    signature = Signature.of(function)
    large = json.dumps({"numbers": list(range(100_000))}).encode()
    assert signature.bind(Raw(large)) == ((list(range(100_000)),), {})
    with pytest.raises(ArgumentsRejected) as caught:
        signature.bind(Raw(large.replace(b" 3,", b' "3",')))
    assert caught.value.problems == (Problem("numbers[3]", "Expected `int`, got `str`"),)


def test_what_only_the_decoder_refuses_is_still_placed():
    @dataclass
    class Fickle:
        value: int
        attempts = 0

        def __post_init__(self) -> None:
            Fickle.attempts += 1
            if Fickle.attempts <= 2:
                raise ValueError("not yet")

    def function(fickle: Fickle): ...

    with pytest.raises(ArgumentsRejected) as caught:
        Signature.of(function).bind(Raw(b'{"fickle": {"value": 1}}'))
    assert caught.value.problems == (Problem("fickle", "not yet"),)


def test_a_decimal_may_be_limited_where_pydantic_knows_how():
    def function(price: Annotated[Decimal, Field(ge=0)]): ...

    signature = Signature.of(function)
    assert signature.bind(Raw(b'{"price": "1.5"}')) == ((Decimal("1.5"),), {})
    with pytest.raises(ArgumentsRejected, match="price: Input should be greater than or equal to 0"):
        signature.bind(Raw(b'{"price": -1}'))


def test_the_nearest_of_several_models_is_chosen():
    class Small(BaseModel):
        a: int

    class Large(BaseModel):
        a: int
        b: int

    def function(value: Small | Large):
        return value

    assert call(function, {"value": {"a": 1, "b": 2}}) == Large(a=1, b=2)
    assert call(function, {"value": {"a": 1}}) == Small(a=1)


# What clients do not give


def given_by_the_server(parameter, *, is_async):
    if parameter.annotation is dt.date:
        return lambda call: f"{call} on {is_async}"
    if parameter.annotation is dt.time:
        raise DefinitionError("there is no time")
    return None


def test_what_has_a_source_is_given_at_its_position_or_by_its_name_and_not_offered():
    def function(first: dt.date, a: int, second: dt.date, /, b: int = 2, *, third: dt.date, c: int = 3): ...

    signature = Signature.of(function, source_of=given_by_the_server)
    made = "the call on False"
    assert signature.bind(Raw(b'{"a": 1}'), "the call") == ((made, 1, made, 2), {"third": made, "c": 3})
    assert list(signature.input_schema["properties"]) == ["a", "b", "c"]


def test_what_a_source_refuses_is_refused_by_name():
    def function(moment: dt.time): ...

    with pytest.raises(DefinitionError, match=r"function\(\) cannot be served .* 'moment': there is no time"):
        Signature.of(function, source_of=given_by_the_server)


def test_values_are_given_by_position_as_many_as_a_function_takes():
    def function(a, day: dt.date, b=[], *, c="kept"): ...  # noqa: B006

    signature = Signature.of(function, source_of=given_by_the_server)
    made = "None on False"
    assert signature.bind_values((1, 2, 3, 4)) == ((1, made, 2), {"c": 3})
    assert signature.bind_values((1,)) == ((1, made, []), {"c": "kept"})
    with pytest.raises(TypeError, match=r"function\(\) needs more values than the 0 that there are"):
        signature.bind_values(())


# What can be called


async def asynchronous(a: int) -> str: ...


class Callables:
    """Things to call."""

    def __call__(self, a: int) -> str:
        return f"{a}"

    def method(self, a: int) -> str:
        """Return the text."""
        return f"{a}"

    async def coroutine(self, a: int) -> str: ...

    @classmethod
    def of_class(cls, a: int) -> str:
        return f"{a}"

    @staticmethod
    def static(a: int) -> str:
        return f"{a}"


class AsyncCallable:
    async def __call__(self, a: int) -> str: ...


class Built:
    """Made of a number."""

    def __init__(self, a: int) -> None:
        self.a = a


def passing_on(function):
    @functools.wraps(function)
    def wrapper(*args, **kwargs):
        return function(*args, **kwargs)

    return wrapper


@pytest.mark.parametrize(
    ("function", "is_async"),
    [
        (two_integers, False),
        (asynchronous, True),
        (Callables(), False),
        (Callables().method, False),
        (Callables().coroutine, True),
        (Callables.of_class, False),
        (Callables.static, False),
        (AsyncCallable(), True),
        (functools.partial(two_integers, b=1), False),
        (functools.partial(asynchronous), True),
        (functools.partial(AsyncCallable()), True),
        (functools.partial(functools.partial(Callables().coroutine)), True),
        (passing_on(two_integers), False),
        (passing_on(asynchronous), True),
        (Built, False),
    ],
)
def test_all_that_can_be_called_has_a_signature(function, is_async):
    signature = Signature.of(function)
    assert signature.is_async is is_async
    assert signature.parameters[0].name == "a"
    assert signature.parameters[0].schema == INTEGER
    assert signature.bind(Raw(b'{"a": 1}'))[0][0] == 1


def test_what_a_partial_has_fixed_is_not_offered():
    def function(key: str, a: int, b: int = 2, c: int = 3):
        """Use a key."""
        return key, a, b, c

    fixed = functools.partial(function, "secret", b=5)
    signature = Signature.of(fixed)
    assert list(signature.input_schema["properties"]) == ["a", "c"]
    assert call(fixed, {"a": 1, "b": 9}) == ("secret", 1, 5, 3)
    assert signature.description == "Use a key."


def test_nothing_that_no_client_may_give_is_collected():
    class Service:
        def method(self, key: str, a: int, /, b: int = 0, *, ctx: dt.date, _cache: int = 5, **others: Any):
            return self, key, a, b, ctx, _cache, others

    service = Service()
    function = functools.partial(service.method, "secret", b=1)
    given = {"self": 0, "key": 0, "a": 2, "b": 0, "ctx": 0, "_cache": 0, "others": 3}
    positional, keywords = Signature.of(function, source_of=given_by_the_server).bind(
        Raw(json.dumps(given).encode()), "the call"
    )
    assert function(*positional, **keywords) == (service, "secret", 2, 1, "the call on False", 5, {"others": 3})


@pytest.mark.parametrize(
    ("function", "description"),
    [
        (two_integers, None),
        (described, "Do it."),
        (Callables(), "Things to call."),
        (Callables().method, "Return the text."),
        (functools.partial(two_integers), None),
        (Built, "Made of a number."),
        (passing_on(described), "Do it."),
    ],
)
def test_the_description_is_what_the_author_wrote(function, description):
    assert Signature.of(function).description == description


def test_the_return_annotation_is_resolved():
    def local() -> "Point": ...
    def hidden_away() -> "Missing": ...
    def nothing() -> None: ...

    assert Signature.of(asynchronous).returns is str
    assert Signature.of(local).returns is Point
    assert Signature.of(nothing).returns is type(None)
    assert Signature.of(two_integers).returns is UNSET
    assert isinstance(Signature.of(hidden_away).returns, UnresolvedName)
    assert Signature.of(hidden_away).returns.__name__ == "Missing"


def test_it_is_known_whether_anything_is_taken():
    assert Signature.of(collects).takes_any
    assert not Signature.of(two_integers).takes_any


# Names that are found elsewhere


def test_local_names_are_found_where_the_call_came_from():
    @dataclass
    class Inner:
        a: int

    @dataclass
    class Outer:
        inner: "Inner"

    def function(value: "Inner", other: "list[Outer]"):
        return value, other

    assert call(function, {"value": {"a": 1}, "other": []}, Signature.of(function)) == (Inner(1), [])
    found = call(function, {"value": {"a": 1}, "other": [{"inner": {"a": 2}}]}, Signature.of(function))
    assert found == (Inner(1), [Outer(Inner(2))])


def test_local_names_may_be_given():
    def function(value: "Elsewhere"):  # noqa: F821
        return value

    assert call(function, {"value": {"x": 1}}, Signature.of(function, localns={"Elsewhere": Point})) == Point(1)


def test_a_name_that_is_nowhere_is_refused_with_its_remedy():
    def function(value: "list[Missing]"): ...

    with pytest.raises(DefinitionError) as caught:
        Signature.of(function)
    assert str(caught.value) == (
        "test_a_name_that_is_nowhere_is_refused_with_its_remedy.<locals>.function() cannot be served because of its"
        " parameter 'value': Missing has no JSON form: there is no such name;"
        " define it above the function, or import it outside `if TYPE_CHECKING:`"
    ).replace("test_a_name_that_is_nowhere_is_refused_with_its_remedy.<locals>.", "")


def test_a_class_whose_fields_name_what_is_nowhere_is_refused():
    @dataclass
    class Broken:
        a: "Missing"

    def function(value: Broken): ...

    with pytest.raises(DefinitionError, match="Broken has no JSON form: it names Missing: there is no such name"):
        Signature.of(function)


def test_annotations_that_cannot_be_evaluated_are_refused():
    def function(value: "int +"): ...  # noqa: F722

    with pytest.raises(DefinitionError, match=r"^The annotations of function\(\) cannot be read: "):
        Signature.of(function)


@pytest.mark.parametrize("error", [NameError("no such luck"), NameError("no such luck", name="int")])
def test_a_name_error_that_no_name_mends_is_refused(error):
    class Unlucky:
        def __getitem__(self, item):
            raise error

    def function(value: "UNLUCKY[int]"): ...  # noqa: F821

    with pytest.raises(DefinitionError, match="no such luck"):
        Signature.of(function, localns={"UNLUCKY": Unlucky()})


# What is refused


class Plain:
    pass


def takes_positions(*args: int): ...


def takes_callable(f: Callable[[int], int]): ...


def takes_plain(p: Plain): ...


def takes_type(t: type[int]): ...


def takes_complex(c: complex): ...


def takes_badly_limited(a: Annotated[str, Meta(ge=1)]): ...


def takes_badly_limited_union(a: Annotated[list[int] | None, Meta(ge=1)]): ...


def takes_after_private(_a: int = 1, b: int = 2, /): ...


def takes_bad_enumeration(a: Literal[b"x"]): ...


class Empty(enum.Enum):
    pass


def takes_empty_enumeration(a: Empty): ...


def takes_unreadable_model(a: Annotated[Plain, pydantic.AfterValidator(id)]): ...


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (takes_positions, "'args': arguments of a client have names"),
        (takes_callable, r"'f': collections.abc.Callable\[\[int\], int\] has no JSON form: use a type"),
        (takes_plain, "'p': Plain has no JSON form: make it a dataclass"),
        (takes_type, r"'t': type\[int\] has no JSON form"),
        (takes_complex, "'c': complex has no JSON form"),
        (takes_badly_limited, "'a': .*ge does not apply to this type"),
        (takes_badly_limited_union, "'a': .*ge does not apply to this type"),
        (takes_after_private, "'b': it takes a position, and follows one that no client gives"),
        (takes_bad_enumeration, "'a': .*its values must be strings, numbers, booleans or None"),
        (takes_empty_enumeration, "'a': Empty .*its values must be strings"),
        (takes_unreadable_model, "'a': .*pydantic says: "),
    ],
)
def test_what_cannot_be_served_is_refused_by_name_and_with_a_remedy(function, message):
    with pytest.raises(DefinitionError, match=rf"^{function.__name__}\(\) cannot be served because of its.*{message}"):
        Signature.of(function)


def test_what_has_no_signature_is_refused():
    with pytest.raises(DefinitionError, match=r"^type cannot be served: .*wrap it in a function"):
        Signature.of(type)


def test_what_msgspec_refuses_after_all_is_refused_by_name():
    class Huge(enum.Enum):
        LARGEST = 2**70

    def function(small: int, huge: list[Huge]): ...

    with pytest.raises(DefinitionError, match=r"^function\(\) cannot .* 'huge': list\[.*Huge\] has no JSON form"):
        Signature.of(function)


def test_a_signature_does_not_keep_the_callers_alive_of_the_function_that_asks_for_it():
    class Kept:
        pass

    def ask() -> Signature:
        def add(a: int) -> int:
            return a

        return Signature.of(add)

    def call() -> tuple[Signature, weakref.ref[Kept]]:
        kept = Kept()
        return ask(), weakref.ref(kept)

    gc.disable()
    try:
        signature, kept = call()
        assert kept() is None
        assert signature.bind(Raw(b'{"a": 1}'))
    finally:
        gc.enable()
