"""The schemas of tools as clients list them."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import msgspec
import pydantic
import pytest

from dragoman import AsyncClient, Client, Server, ToolError
from dragoman.schema.walk import SINGLE, objects
from dragoman.server.dispatch.tags import with_tags
from scenarios.wire import ask, call_result

ERAS = pytest.mark.parametrize("era", ["handshake", "stateless"])


class Point(NamedTuple):
    x: int
    y: int = 0


class Row(msgspec.Struct, array_like=True, tag="row"):
    cells: list[Any]


class Loose(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(extra="allow")

    pair: tuple[int, str]
    anything: Any
    values: dict[str, Any] = {}


@dataclass
class Node:
    """A node of a tree."""

    value: int
    children: list[Node] = field(default_factory=list)


def listed(server: Server, era: str = "stateless") -> dict[str, Any]:
    return {tool["name"]: tool for tool in ask(server, "tools/list", era=era)["result"]["tools"]}


def trees(**options: Any) -> Server:
    server = Server("trees", **options)

    @server.tool(tags={"tree"})
    def grow(root: Node) -> Node:
        return root

    return server


@pytest.mark.covers("SCH-16")
@ERAS
def test_generated_schemas_have_no_boolean_schemas(era):
    server = Server("shapes")

    @server.tool
    def draw(pair: tuple[int, str], point: Point, row: Row, loose: Loose, empty: tuple[()], **more: Any) -> Loose:
        return loose

    @server.tool
    def place(many: tuple[float, ...]) -> tuple[int, Any]:
        return 1, "x"

    tools = listed(server, era)
    schemas = [tool[name] for tool in tools.values() for name in ("inputSchema", "outputSchema")]
    booleans = [part for part in objects(schemas) for word in SINGLE if isinstance(part.get(word), bool)]
    assert booleans == []
    pair = tools["draw"]["inputSchema"]["properties"]["pair"]
    assert pair == {
        "type": "array",
        "prefixItems": [{"type": "integer"}, {"type": "string"}],
        "minItems": 2,
        "maxItems": 2,
    }
    assert call_result(server, "place", many=[1.5])["structuredContent"] == {"result": [1, "x"]}


def test_tuple_with_too_many_entries_is_still_refused():
    server = Server("shapes")

    @server.tool
    def draw(pair: tuple[int, str]) -> str:
        return str(pair)

    assert call_result(server, "draw", pair=[1, "x"])["content"][0]["text"] == "(1, 'x')"
    assert call_result(server, "draw", pair=[1, "x", 2])["isError"]


@pytest.mark.covers("SCH-17")
@ERAS
def test_inline_refs_lists_schemas_without_references(era):
    tool = listed(trees(inline_refs=True), era)["grow"]
    for schema in (tool["inputSchema"], tool["outputSchema"]):
        assert not any(part.keys() & {"$ref", "$defs"} for part in objects(schema))
    root = tool["inputSchema"]["properties"]["root"]
    assert root["properties"]["value"] == {"type": "integer"}
    inner = root["properties"]["children"]["items"]["properties"]["children"]["items"]
    assert inner["properties"]["children"]["items"] == {"type": "object", "description": "A node of a tree."}


@pytest.mark.covers("SCH-17")
def test_without_inline_refs_schemas_keep_their_references():
    tool = listed(trees())["grow"]
    assert tool["inputSchema"]["properties"]["root"] == {"$ref": "#/$defs/Node"}


@pytest.mark.covers("SCH-17")
def test_inline_refs_does_not_change_what_a_call_takes():
    deep: dict[str, Any] = {"value": 0}
    for value in range(9):
        deep = {"value": value, "children": [deep]}

    with Client(trees(inline_refs=True)) as client:
        assert client.call_tool("grow", {"root": deep}).structured["children"][0]["value"] == 7
        deep["children"][0]["children"][0]["children"][0]["children"][0]["value"] = "x"
        with pytest.raises(ToolError, match="Expected `int`"):
            client.call_tool("grow", {"root": deep})


@pytest.mark.covers("SCH-17")
def test_inline_refs_applies_to_mounted_servers_and_raw_schemas():
    raw = {"type": "object", "properties": {"a": {"$ref": "#/$defs/A"}}, "$defs": {"A": {"type": "string"}}}
    inner = trees()
    inner.tool(name="raw", input_schema=raw)(lambda arguments: "x")
    server = Server("all", inline_refs=True)
    server.tool(name="own", input_schema=raw)(lambda arguments: "x")
    server.mount(inner, prefix="inner")
    tools = listed(server)
    assert len(tools) == 3
    assert not any("$ref" in part for part in objects(tools))
    assert tools["own"]["inputSchema"] == {"type": "object", "properties": {"a": {"type": "string"}}}


@pytest.mark.covers("SCH-17")
def test_inline_refs_applies_to_a_proxied_server():
    server = Server("front", inline_refs=True)
    server.mount(Server.proxy(trees()), prefix="far")

    async def schemas() -> list[Any]:
        async with asyncio.timeout(60), AsyncClient(server) as client:
            return [tool.input_schema for tool in await client.tools()]

    [schema] = asyncio.run(schemas())
    assert schema["properties"]["root"]["type"] == "object"


@pytest.mark.covers("SCH-17")
def test_inline_refs_applies_to_a_selection_by_tags():
    server = with_tags(trees(inline_refs=True), {"tree"}, None)
    assert not any("$ref" in part for part in objects(listed(server)))
