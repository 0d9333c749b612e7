"""Arguments that are mirrored in headers (2026-07-28)."""

import pytest

from dragoman import DefinitionError, Server
from scenarios.http_peer import SECRET, STATELESS, HttpPeer, serve

MIRRORED = {
    "type": "object",
    "properties": {
        "region": {"type": "string", "x-mcp-header": "Region"},
        "options": {"type": "object", "properties": {"level": {"type": "integer", "x-mcp-header": "Level"}}},
    },
}


def regional() -> Server:
    server = Server("regional", secret=SECRET)

    @server.tool(input_schema=MIRRORED)
    async def route(region: str = "none", options: dict | None = None) -> str:
        return f"{region} {options}"

    return server


def client() -> HttpPeer:
    return HttpPeer(serve(regional()), version=STATELESS)


@pytest.mark.covers("SHM-15")
@pytest.mark.parametrize(
    ("arguments", "headers"),
    [
        ({}, {}),
        ({"region": "eu"}, {"mcp-param-region": "eu"}),
        ({"region": "eu", "options": {"level": 3}}, {"mcp-param-region": "eu", "mcp-param-level": "3.0"}),
        ({"region": "é"}, {"mcp-param-region": "=?base64?w6k=?="}),
        ({"region": "eu"}, {"mcp-param-region": " eu ", "mcp-param-unknown": "x"}),
    ],
)
async def test_a_call_whose_headers_mirror_its_arguments_is_served(arguments, headers):
    exchange = await client().call("route", arguments, headers=headers).end()
    assert exchange.status == 200


@pytest.mark.covers("SHM-15")
@pytest.mark.parametrize(
    ("arguments", "headers"),
    [
        ({"region": "eu"}, {}),
        ({"region": "eu"}, {"mcp-param-region": "us"}),
        ({}, {"mcp-param-region": "eu"}),
        ({"options": {"level": 3}}, {"mcp-param-level": "4"}),
        ({"region": "eu"}, {"mcp-param-region": "=?base64?!?="}),
    ],
)
async def test_a_call_whose_headers_say_something_else_is_refused(arguments, headers):
    exchange = await client().call("route", arguments, headers=headers, id=7).end()
    assert exchange.status == 400
    assert (exchange.json["error"]["code"], exchange.json["id"]) == (-32020, 7)


@pytest.mark.covers("SHM-15")
def test_an_annotation_that_no_header_can_mirror_is_refused_when_the_tool_is_defined():
    schema = {"type": "object", "properties": {"size": {"type": "number", "x-mcp-header": "Size"}}}
    with pytest.raises(DefinitionError, match="x-mcp-header"):
        Server("sizes").tool(name="sized", input_schema=schema)(lambda size: size)
