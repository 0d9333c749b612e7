"""Parameters that a proxy and its target could read differently never reach the target."""

import asyncio
import json
import sys

import pytest

from dragoman import Context, InvalidParams
from scenarios.proxied_http import STATELESS, HttpFront, stateless_meta

DEADLINE = 60
IGNORING_CASE = """
import json, sys

def first(pairs):
    members = {}
    for name, value in pairs:
        if name.lower() in members and name == name.lower():
            continue
        members[name.lower()] = value
    return members

for line in sys.stdin:
    message = json.loads(line, object_pairs_hook=first)
    id, method = message.get("id"), message.get("method")
    answer = {"jsonrpc": "2.0", "id": id}
    if method == "initialize":
        declared = {"capabilities": {"tools": {}}, "serverInfo": {"name": "lax", "version": "1"}}
        answer["result"] = {"protocolVersion": "2025-11-25", **declared}
    elif method == "tools/call":
        answer["result"] = {"content": [{"type": "text", "text": "called " + message["params"]["name"]}]}
    elif method == "completion/complete":
        answer["result"] = {"completion": {"values": [message["params"]["ref"]["name"]]}}
    elif method == "acme/pay":
        answer["result"] = {"paid": message["params"]["to"]}
    else:
        answer["error"] = {"code": -32601, "message": "There is no such method"}
    if id is not None:
        print(json.dumps(answer), flush=True)
"""
TARGET = [sys.executable, "-S", "-c", IGNORING_CASE]
AMBIGUOUS = [
    ("tools/call", '{"name":"safe","Name":"evil"}', "differs from 'name' only in case"),
    ("tools/call", '{"NAME":"evil","name":"safe"}', "differs from 'name' only in case"),
    ("tools/call", '{"name":"evil","name":"safe"}', "occurs twice"),
    ("tools/call", '{"name":"safe","n\\u0061me":"safe"}', "occurs twice"),
    ("tools/call", '{"name":"safe","Arguments":{"a":1}}', "differs from 'arguments' only in case"),
    ("tools/call", '{"name":"safe","arguments":{"a":1,"a":2}}', "occurs twice"),
    ("tools/call", '{"name":"safe","ta\\u017fk":{}}', "differs from 'task' only in case"),
    ("tools/call", '{"name":"safe","_meta":{"ProgressToken":1}}', "differs from 'progressToken' only in case"),
    ("tools/call", '{"name":"safe","_Meta":{"progressToken":1}}', "differs from '_meta' only in case"),
    (
        "completion/complete",
        '{"ref":{"type":"ref/prompt","name":"safe","Name":"evil"},"argument":{"name":"a","value":""}}',
        "differs from 'name' only in case",
    ),
    ("acme/pay", '{"to":"safe","To":"evil"}', "differs from 'to' only in case"),
    ("acme/pay", '{"to":"evil","to":"safe"}', "occurs twice"),
]


def message(front: HttpFront, method: str, params: str) -> bytes:
    """Return a request with parameters as they are written."""
    if front.is_stateless:
        meta = json.dumps(stateless_meta({}))[1:-1]
        params = params.replace('"_meta":{', f'"_meta":{{{meta},') if '"_meta"' in params else params
        params = params if '"_meta"' in params else f'{params[:-1]},"_meta":{{{meta}}}}}'
    return f'{{"jsonrpc":"2.0","id":7,"method":"{method}","params":{params}}}'.encode()


async def ask(front: HttpFront, method: str, params: str) -> dict:
    """Post a request whose headers name the harmless tool."""
    headers = {"MCP-Protocol-Version": STATELESS, "Mcp-Method": method, "Mcp-Name": "safe"}
    headers = headers if front.is_stateless else {}
    reader, writer = await front.connect()
    writer.write(front.encoded(message(front, method, params), **headers))
    try:
        return (await front.read(reader)).last
    finally:
        writer.close()


@pytest.mark.parametrize("is_stateless", [False, True])
@pytest.mark.parametrize("has_middleware", [False, True])
async def test_a_target_gets_no_parameters_that_the_proxy_reads_differently(is_stateless, has_middleware):
    front = HttpFront(TARGET, is_stateless=is_stateless)
    if has_middleware:

        @front.proxy.middleware
        async def allow(ctx: Context, call_next):
            if ctx.method == "tools/call" and ctx.params.name != "safe":
                raise InvalidParams("Not allowed")
            return await call_next()

    async with asyncio.timeout(DEADLINE), front:
        await front.begin()
        for method, params, reason in AMBIGUOUS:
            error = (await ask(front, method, params)).get("error", {})
            assert error.get("code") == -32602, params
            assert reason in error["message"], params
        assert (await ask(front, "tools/call", '{"name":"safe","extra":1,"arguments":{"a":1,"A":2}}'))["result"][
            "content"
        ] == [{"type": "text", "text": "called safe"}]
