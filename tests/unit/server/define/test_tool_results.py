"""How return annotations are read, where the wire does not show it."""

from collections.abc import Sequence
from enum import IntEnum
from typing import TYPE_CHECKING, Annotated, Any, NewType

import pytest
from msgspec import UNSET, Meta, Raw

from dragoman import Audio, DefinitionError, Image, ToolResult, ValidationError, types
from dragoman.protocol import eras
from dragoman.protocol.versions import V2026_07_28
from dragoman.schema.python.annotations import UnresolvedName
from dragoman.server.define.tool_results import Output

if TYPE_CHECKING:
    from somewhere import Hidden

Html = NewType("Html", str)
Count = NewType("Count", int)


class Level(IntEnum):
    HIGH = 2


@pytest.mark.parametrize(
    "annotation",
    [
        UNSET,
        Any,
        object,
        None,
        str,
        str | None,
        Annotated[str, "words"],
        Html,
        Image,
        Image | Audio | None,
        list[Image],
        list[Annotated[Image, "pixels"]],
        list[Html | Image],
        Sequence[types.TextContent],
        tuple[Image, ...],
        list,
        tuple,
        list[Any],
        types.CallToolResult,
        ToolResult | None,
        ToolResult | str,
        Image | int,
        int | list[Image],
        int | Any,
        UnresolvedName("Hidden"),
    ],
    ids=str,
)
def test_an_annotation_of_content_or_of_nothing_has_no_schema(annotation):
    assert Output.of(annotation, None, "get").schema is None


@pytest.mark.parametrize(
    ("annotation", "schema"),
    [
        (Count, {"type": "integer"}),
        (list[str], {"type": "array", "items": {"type": "string"}}),
        (int | ToolResult, {"type": "integer"}),
        (int | types.CallToolResult | None, {"anyOf": [{"type": "integer"}, {"type": "null"}]}),
        (Annotated[int, "count"], {"type": "integer", "description": "count"}),
    ],
    ids=str,
)
def test_an_annotation_of_data_has_a_schema(annotation, schema):
    assert Output.of(annotation, None, "get", is_bare=True).schema == schema
    assert Output.of(annotation, None, "get").schema["properties"]["result"] == schema


def test_a_name_that_is_known_to_type_checkers_only_says_nothing():
    from dragoman import Tool

    def get() -> "Hidden": ...

    assert Tool.define(get).definition.output_schema is None


def test_an_annotation_without_a_json_form_is_refused():
    with pytest.raises(DefinitionError, match="The return annotation of 'get'"):
        Output.of(complex, None, "get")


def test_a_result_that_an_author_keeps_is_not_changed():
    kept = types.CallToolResult([], structured_content={"a": 1})
    sent = Output("get").result(kept)
    assert sent is not kept
    assert kept.structured_content == {"a": 1}


def test_results_of_a_tool_without_schema_are_not_compared():
    Output("get").check(types.CallToolResult([]))


@pytest.mark.parametrize(
    ("annotation", "value"),
    [
        (int, "text"),
        (int, True),
        (int, None),
        (int, Image(b"")),
        (bool, 1),
        (dict, [1]),
        (dict[str, int], {"a": "x"}),
        (list[int], ["x"]),
        (int | None, "x"),
        (Annotated[int, Meta(ge=1)], 0),
        (int, ToolResult(structured="x")),
        (int, types.CallToolResult([], structured_content="x")),
        (str, 5),
        (str, None),
        (str, ["x"]),
        (None, "x"),
        (Html, 5),
        (Annotated[str, "words"], 5),
        (Image, "x"),
        (Image | str, 5),
        (list, "x"),
        (list[Image], ["x"]),
        (tuple[Image, ...], [5]),
        (types.TextContent, {"type": "image"}),
    ],
    ids=repr,
)
def test_a_value_that_does_not_fit_its_annotation_is_refused_by_tool_and_type(annotation, value):
    with pytest.raises(ValidationError) as caught:
        Output.of(annotation, None, "get").result(value)
    returned = value.structured if isinstance(value, ToolResult) else value
    returned = returned.structured_content if isinstance(value, types.CallToolResult) else returned
    kind = type(returned).__name__
    message = f"The tool 'get' returned a value of type {kind} that does not fit its return annotation: "
    if returned is None:
        message = f"The tool 'get' returned None for `-> {annotation.__name__}`: return a value in every case, or "
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize(
    ("annotation", "value"),
    [
        (int, 1),
        (int, Level.HIGH),
        (float, 1),
        (int | str, "x"),
        (str, Html("x")),
        (str, ToolResult(is_error=True)),
        (int, ToolResult("broken", structured="x", is_error=True)),
        (Image | None, None),
        (list, []),
        (list[Image | str], ["x"]),
        (list[types.TextContent], [{"type": "text", "text": "x"}]),
        (Image | int, "anything"),
        (Any, 5),
    ],
    ids=repr,
)
def test_a_value_that_fits_its_annotation_is_a_result(annotation, value):
    assert isinstance(Output.of(annotation, None, "get").result(value), types.CallToolResult)


def test_what_does_not_fit_is_told_with_its_place_and_without_the_value():
    with pytest.raises(ValidationError) as caught:
        Output.of(dict[str, int], None, "get").result({"a": "hunter2"})
    assert str(caught.value).endswith('$.a: the value is not of type "integer"')
    assert caught.value.path == "$.a"


@pytest.mark.parametrize(("value", "held"), [(7, b"7"), ({"a": 1}, b'{"a":1}')])
def test_a_bare_result_is_wrapped_only_for_the_versions_that_demand_it(value, held):
    output = Output.of(dict | int, None, "get", is_bare=True)
    result = output.result(value)
    assert bytes(result.structured_content) == held
    assert eras.seal(result, V2026_07_28).structured_content == Raw(held)
