"""Mistakes in signatures, results and messages, and the errors and warnings that name their remedy."""

import dataclasses
import enum
import typing
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Generic, Literal, TypeVar

import msgspec
import pydantic
import pytest

from dragoman import Client, Context, DefinitionError, RpcError, Server, ToolError, tool
from scenarios.wire import ask, call_result, text

T = TypeVar("T")
Bound = TypeVar("Bound", bound=int)


class Missing:
    def __repr__(self) -> str:
        return "MISSING"


MISSING = Missing()


class Mood(enum.Enum):
    GOOD = "good"


class Forecast(msgspec.Struct):
    days: int


@dataclasses.dataclass
class Page(Generic[T]):
    items: list[T]


class DataFrame:
    """Like the class of pandas."""


class BaseModel:
    """Like the class of pydantic v1."""

    __module__ = "pydantic.v1.main"


class OldModel(BaseModel):
    __module__ = "shop"


def taking(annotation: Any, default: Any = ...) -> Callable[..., Any]:
    def act(value=default):
        return "x"

    act.__annotations__["value"] = annotation
    return act


def returning(annotation: Any, value: Any = None) -> Callable[..., Any]:
    def act():
        return value

    act.__annotations__["return"] = annotation
    return act


# Defaults.


@pytest.mark.covers("DEF-01")
@pytest.mark.parametrize(
    ("annotation", "default", "reason"),
    [
        (int, "five", "Expected `int`, got `str`"),
        (str, 5, "Expected `str`, got `int`"),
        (bool, 1, "Expected `bool`, got `int`"),
        (list[int], ["a"], "[0]: Expected `int`, got `str`"),
        (dict[str, int], {"a": "b"}, "['a']: Expected `int`, got `str`"),
        (Literal["a", "b"], "c", "Invalid enum value 'c'; use 'a' or 'b'"),
        (Mood, "bad", "Invalid enum value 'bad'; use 'good'"),
        (int | None, "five", "Expected `int | null`, got `str`"),
        (Annotated[int, pydantic.Field(ge=1)], "five", "Expected `int`, got `str`"),
        (Annotated[int, pydantic.AfterValidator(abs)], "five", "Got `str`"),
    ],
    ids=str,
)
def test_default_of_another_type_is_refused(annotation, default, reason):
    with pytest.raises(DefinitionError) as caught:
        tool(taking(annotation, default))
    subject = "act() cannot be served because of its parameter 'value': its default"
    assert str(caught.value) == f"{subject} {default!r} does not fit its annotation: {reason}; change one of them"


@pytest.mark.covers("DEF-01")
@pytest.mark.parametrize(
    ("annotation", "default"),
    [
        (int, None),
        (float, 1),
        (float, float("inf")),
        (list[str], ()),
        (set[str], frozenset({"a"})),
        (tuple[int, int], (1, 2)),
        (Mood, Mood.GOOD),
        (Path, Path()),
        (Path, "."),
        (Forecast, Forecast(1)),
        (str, MISSING),
        (Annotated[str, msgspec.Meta(min_length=1)], ""),
        (Annotated[str, pydantic.Field(min_length=1)], ""),
        (Any, "x"),
    ],
    ids=str,
)
def test_default_of_the_type_is_taken(annotation, default):
    assert tool(taking(annotation, default)).definition.input_schema.get("required") is None


# Type variables and stubs.


@pytest.mark.covers("DEF-02")
@pytest.mark.parametrize("annotation", [T, list[T], T | None], ids=str)
def test_type_variable_without_a_type_is_refused(annotation):
    for function in (taking(annotation), returning(annotation)):
        with pytest.raises(DefinitionError, match=r"~T has no JSON form: a type variable stands for no type"):
            tool(function)


@pytest.mark.covers("DEF-02")
def test_type_variable_with_a_meaning_is_taken():
    assert tool(taking(Bound)).definition.input_schema["properties"]["value"] == {"type": "integer"}
    assert tool(taking(Page[int])).input_schema["$defs"]["Page_int"]["properties"]["items"]["items"] == {
        "type": "integer"
    }
    assert tool(taking(Page)).input_schema["$defs"]["Page"]["properties"]["items"] == {"type": "array"}


@pytest.mark.covers("DEF-03")
def test_stub_of_an_overload_is_refused():
    @typing.overload
    def act(value: int) -> int: ...

    with pytest.raises(DefinitionError, match=r"stub of typing.overload.* implementation"):
        tool(act)


@pytest.mark.covers("DEF-03")
@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize("documentation", [None, "Acts."])
def test_function_without_a_body_is_doubted(is_async, documentation):
    source = "async def act() -> int:\n" if is_async else "def act() -> int:\n"
    source += f'    """{documentation}"""\n' if documentation else "    ...\n"
    names: dict[str, Any] = {}
    exec(source, names)
    [doubt] = tool(names["act"]).doubts()
    assert "has no body, so it always returns None" in doubt
    assert "typing.overload" in doubt


@pytest.mark.covers("DEF-03")
def test_function_with_a_body_is_not_doubted():
    def five() -> int:
        return 5

    def nothing() -> None: ...

    def untyped(): ...

    async def later() -> int:
        """Acts."""
        return 5

    assert [doubt for function in (five, nothing, untyped, later) for doubt in tool(function).doubts()] == []


# Annotations.


@pytest.mark.covers("DEF-04")
@pytest.mark.parametrize(
    ("annotation", "remedy"),
    [
        (OldModel, r"OldModel has no JSON form: it is a pydantic v1 model; make it a model of pydantic v2"),
        (list[OldModel], "it is a pydantic v1 model"),
        (any, r"did you mean typing\.Any\?"),
        ("strr", r"strr has no JSON form: there is no such name; did you mean 'str'\?"),
        ("list[Forcast]", r"Forcast has no JSON form: there is no such name; did you mean 'Forecast'\?"),
    ],
    ids=str,
)
def test_annotation_that_cannot_be_served_names_its_remedy(annotation, remedy):
    with pytest.raises(DefinitionError, match=remedy):
        tool(taking(annotation))


@pytest.mark.covers("DEF-04")
def test_return_annotation_of_a_data_frame_names_its_plain_form():
    with pytest.raises(DefinitionError, match=r'return frame\.to_dict\("records"\), and annotate it as list\[dict\]'):
        tool(returning(DataFrame))


@pytest.mark.covers("DEF-04")
def test_data_frame_without_annotation_names_its_plain_form_in_the_log(caplog):
    def act():
        return DataFrame()

    assert call_result(Server("frames", tools=[act]), "act")["isError"]
    assert 'DataFrame cannot be encoded as JSON; return frame.to_dict("records")' in caplog.text


@pytest.mark.covers("DEF-04")
@pytest.mark.parametrize("annotation", ["Forcast", "Forcast | None"])
def test_misspelled_return_annotation_is_doubted(annotation):
    [doubt] = tool(returning(annotation, 1)).doubts()
    assert doubt.startswith("The return annotation 'Forcast' of 'act' is ignored: there is no such name; did you mean")
    assert "'Forecast'" in doubt


# Results, arguments and messages.


@pytest.mark.covers("DEF-05")
@pytest.mark.parametrize(("annotation", "name"), [(str, "str"), (int, "int"), (list[int], "list[int]")], ids=str)
def test_missing_result_is_named_in_the_log(annotation, name, caplog):
    assert call_result(Server("values", tools=[returning(annotation)]), "act")["isError"]
    remedy = f"returned None for `-> {name}`: return a value in every case, or annotate it as `{name} | None`"
    assert remedy in caplog.text


@pytest.mark.covers("DEF-05")
def test_server_names_arguments_that_are_no_object():
    response = ask(Server("values", tools=[taking(int)]), "tools/call", {"name": "act", "arguments": [1]})
    message = response["error"]["message"] if "error" in response else text(response)
    assert "Expected `object`, got `array`" in message


@pytest.mark.covers("DEF-05")
def test_role_that_prompts_lack_is_named_in_the_log(caplog):
    server = Server("prompts")

    @server.prompt
    def obey():
        return [{"role": "system", "content": "Obey"}]

    with Client(server) as client, pytest.raises(RpcError, match="Internal error"):
        client.get_prompt("obey")
    assert 'a message of the role \'system\': use "user" or "assistant"' in caplog.text
    assert "Server(instructions=...)" in caplog.text


@pytest.mark.covers("DEF-05")
@pytest.mark.parametrize("choices", [["a", "b"], ("a", "b")], ids=str)
def test_list_of_choices_for_elicit_names_what_to_pass(choices, caplog):
    server = Server("asking")

    @server.tool
    async def pick(ctx: Context) -> str:
        return str(await ctx.elicit("Which?", choices))

    @server.tool
    async def pick_late(ctx: Context) -> str:
        return (await ctx.elicit("Which?", Literal[tuple(choices)])).content

    with Client(server, on_elicitation=lambda request: {"value": "a"}) as client:
        with pytest.raises(ToolError):
            client.call_tool("pick")
        assert client.call_tool("pick_late").text == "a"
    assert "pass typing.Literal['a', 'b'] or an Enum" in caplog.text
    assert "Literal[tuple(choices)]" in caplog.text
