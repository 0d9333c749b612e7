"""A client is not kept busy by a schema that would keep a validator busy for ever."""

import asyncio
import json
import sys

import pytest

from dragoman import AsyncClient, ValidationError
from dragoman.client.answer.elicitation import ElicitationRequest
from scenarios.http_peer import scenario

DEEP = 40
DOUBLING = {
    "$defs": {
        **{f"d{n}": {"allOf": [{"$ref": f"#/$defs/d{n + 1}"}, {"$ref": f"#/$defs/d{n + 1}"}]} for n in range(DEEP)},
        f"d{DEEP}": {},
    },
    "$ref": "#/$defs/d0",
}


def test_a_form_that_takes_for_ever_is_not_compared():
    with pytest.raises(ValidationError, match="too complex"):
        ElicitationRequest("Hi", DOUBLING).validate({})


SERVER = """
import json, sys
for line in sys.stdin:
    asked = json.loads(line)
    results = {
        "initialize": {
            "protocolVersion": "2025-11-25",
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "bomb", "version": "1"},
        },
        "tools/list": {"tools": [json.loads(sys.argv[1])]},
        "tools/call": {"content": [], "structuredContent": {}},
    }
    if "id" in asked:
        print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": results[asked["method"]]}), flush=True)
"""


@scenario
async def test_a_result_whose_schema_takes_for_ever_is_not_compared_with_it(caplog):
    schema = {"type": "object", **DOUBLING}
    tool = {"name": "bomb", "inputSchema": {"type": "object"}, "outputSchema": schema}
    command = [sys.executable, "-c", SERVER, json.dumps(tool)]
    async with asyncio.timeout(60), AsyncClient(command, mode="handshake") as client:
        assert (await client.call_tool("bomb", {})).structured == {}
    assert "The output schema of 'bomb' is too complex" in caplog.text
