"""How return annotations are read, where the wire does not show it."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any, NewType

import pytest
from msgspec import UNSET, Raw

from dragoman import Audio, DefinitionError, Image, ToolResult, types
from dragoman.protocol import eras, fields
from dragoman.protocol.jsonrpc import encode
from dragoman.protocol.versions import V2025_06_18, V2025_11_25
from dragoman.server.annotations import Unresolved
from dragoman.server.outputs import Output

if TYPE_CHECKING:
    from somewhere import Hidden

Html = NewType("Html", str)
Count = NewType("Count", int)


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
        Unresolved("Hidden"),
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
    assert Output.of(annotation, None, "get").schema == schema


def test_a_name_that_is_known_to_type_checkers_only_says_nothing():
    from dragoman import Tool

    def get() -> "Hidden": ...

    assert Tool.define(get).definition.output_schema is None


def test_an_annotation_without_a_json_form_is_refused():
    with pytest.raises(DefinitionError, match="The return annotation of 'get'"):
        Output.of(complex, None, "get")


def test_a_result_that_an_author_keeps_is_not_changed():
    kept = types.CallToolResult([], structured_content={"a": 1})
    sent = Output(None).result(kept)
    assert sent is not kept
    assert kept.structured_content == {"a": 1}


def test_results_of_a_tool_without_schema_are_not_compared():
    Output(None).check(types.CallToolResult([]))


@pytest.mark.parametrize("version", [V2025_06_18, V2025_11_25], ids=lambda version: version.name)
@pytest.mark.parametrize("annotation", [str, int, float, bool, dict, dict | int, dict[str, int], UNSET, Any])
@pytest.mark.parametrize("value", ["text", "", 3, 1.5, True, {}, {"a": 1}, {"result": 2}, None, [1], (1, 2), b"bytes"])
def test_the_short_way_to_a_result_leads_where_the_long_one_does(annotation, value, version):
    output = Output.of(annotation, None, "tool")
    plain = output.plain_result(value)
    if plain is not None:
        result = output.result(value)
        assert encode(plain) == encode(eras.seal(fields.wrap(result) if output.wraps else result, version, Raw(b"{}")))
    else:
        assert not isinstance(value, str | int | float | dict) or (output.schema is None and not isinstance(value, str))
