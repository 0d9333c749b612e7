"""A proxy is mounted like any other server: what the target has is served under the prefix."""

import asyncio
import sys
from pathlib import Path
from typing import Any

import pytest

from dragoman import DefinitionError, InvalidParams, Server
from dragoman.forward.mount import merged_handlers
from dragoman.testing import connected
from scenarios import mounted_servers
from scenarios.mounted_servers import shop, weather

pytestmark = pytest.mark.skipif(not hasattr(Server, "proxy"), reason="this build has no proxies")
DEADLINE = 60


@pytest.mark.parametrize("era", ["handshake", "stateless"])
@pytest.mark.parametrize("target", ["memory", "stdio"])
async def test_what_is_behind_a_proxy_is_served_under_the_prefix(target, era):
    program = Path(mounted_servers.__file__)
    # The program has the weather mounted already, so its names have two prefixes.
    name, path = ("weather_", "weather/") if target == "stdio" else ("", "")
    given = weather() if target == "memory" else [sys.executable, str(program)]
    environment = {"PYTHONPATH": str(program.parents[1])} if target == "stdio" else None
    outer = shop()
    outer.mount(Server.proxy(given, env=environment), prefix="far")
    heard: asyncio.Queue[str] = asyncio.Queue()
    async with connected(outer, era, on_elicitation=lambda request: {"value": "x"}) as client:
        assert {"buy", f"far_{name}forecast"} <= {tool.name for tool in await client.tools()}
        assert (await client.call_tool(f"far_{name}forecast", {"city": "Rome"})).text == "Sunny in Rome"
        assert (await client.call_tool(f"far_{name}ask")).text == "x on x"
        assert (await client.call_tool(f"far_{name}links")).content[0].uri == f"data://far/{path}cities"
        assert (await client.read_resource(f"data://far/{path}cities")).contents[0].text == "Oslo, Rome"
        await client.subscribe(f"data://far/{path}cities", heard.put_nowait)
        await client.call_tool(f"far_{name}touch")
        assert await asyncio.wait_for(heard.get(), DEADLINE) == f"data://far/{path}cities"
        assert "What begins with 'far_': " in client.instructions
        assert "Ask for one city." in client.instructions
        with pytest.raises(InvalidParams, match="Unknown tool: far_nothing"):
            await client.call_tool("far_nothing")
        with pytest.raises(InvalidParams, match="Unknown prompt: far_nothing"):
            await client.get_prompt("far_nothing")


def test_a_cycle_that_leads_through_a_proxy_is_refused():
    north, south = Server("north"), Server("south")
    with pytest.raises(DefinitionError, match="A proxy of 'north' cannot be mounted into 'north' itself"):
        north.mount(Server.proxy(Server.proxy(north)), prefix="north")
    north.mount(Server.proxy(south), prefix="south")
    with pytest.raises(DefinitionError, match="A proxy of 'south' cannot be mounted into 'south' itself"):
        south.mount(Server.proxy(north), prefix="north")


ASKING_BETWEEN_CALLS = """
import json, sys

def send(message):
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)

calls, answers = [], []
for line in sys.stdin:
    message = json.loads(line)
    method, id = message.get("method"), message.get("id")
    if method == "initialize":
        declared = {"capabilities": {"tools": {}}, "serverInfo": {"name": "raw", "version": "1"}}
        send({"id": id, "result": {"protocolVersion": "2025-11-25", **declared}})
    elif method == "tools/list":
        send({"id": id, "result": {"tools": [{"name": "answer", "inputSchema": {"type": "object"}}]}})
    elif method == "notifications/roots/list_changed":
        send({"id": "question", "method": "roots/list"})
    elif method == "tools/call":
        calls.append(id)
    elif id == "question":
        answers.append(json.dumps(message.get("result")))
    elif id is not None:
        send({"id": id, "error": {"code": -32601, "message": "There is no such method"}})
    while calls and answers:
        send({"id": calls.pop(), "result": {"content": [{"type": "text", "text": answers[-1]}]}})
"""


async def test_a_question_between_calls_reaches_the_client_and_lists_that_the_target_lacks_are_empty(tmp_path, caplog):
    program = tmp_path / "target.py"
    program.write_text(ASKING_BETWEEN_CALLS)
    outer = shop()
    outer.mount(Server.proxy([sys.executable, str(program)]), prefix="far")
    async with asyncio.timeout(DEADLINE), connected(outer, "handshake", roots=["file:///project"]) as client:
        assert "far_answer" in {tool.name for tool in await client.tools()}
        await client.prompts()
        await client.notify("notifications/roots/list_changed")
        assert "file:///project" in (await client.call_tool("far_answer")).text
    assert "is left out" not in caplog.text


async def test_a_proxy_that_is_mounted_twice_tells_each_client_of_a_changed_list_once():
    target, outer = weather(), shop()
    far = Server.proxy(target)
    outer.mount(far, prefix="far")
    outer.mount(far, prefix="again")
    heard: asyncio.Queue[Any] = asyncio.Queue()
    async with asyncio.timeout(DEADLINE), connected(outer, "handshake", on_notification=heard.put_nowait) as client:
        await client.call_tool("far_forecast", {"city": "Rome"})
        await client.call_tool("again_forecast", {"city": "Rome"})
        target.notify_tools_list_changed()
        target.notify_prompts_list_changed()
        methods = [(await heard.get()).method, (await heard.get()).method]
        assert methods == ["notifications/tools/list_changed", "notifications/prompts/list_changed"]


async def test_a_notification_for_a_target_that_is_away_is_no_unexpected_error(tmp_path, caplog):
    outer = shop()
    outer.mount(Server.proxy([str(tmp_path / "absent")], name="absent"), prefix="far")
    async with asyncio.timeout(DEADLINE), connected(outer, "handshake") as client:
        assert "buy" in {tool.name for tool in await client.tools()}
        await client.notify("notifications/roots/list_changed")
        await client.ping()
    assert "The target of the proxy 'absent' failed" in caplog.text
    assert "Unexpected error" not in caplog.text


ODD = """
import json, sys

count = 0
for line in sys.stdin:
    message = json.loads(line)
    answer = {"jsonrpc": "2.0", "id": message.get("id")}
    if message.get("method") == "server/discover":
        count += 1
        result = {"supportedVersions": ["2026-07-28"], "capabilities": {}, "resultType": "complete"}
        result |= {"ttlMs": 0, "cacheScope": "private"}
        answer["result"] = result | ({"instructions": ["read", "me"]} if count > 1 else {})
    else:
        answer["error"] = {"code": -32601, "message": "There is no such method"}
    print(json.dumps(answer), flush=True)
"""


@pytest.mark.parametrize("era", ["handshake", "stateless"])
async def test_a_target_with_odd_instructions_does_not_keep_others_from_introducing_themselves(era):
    outer = shop()
    outer.mount(Server.proxy([sys.executable, "-c", ODD]), prefix="odd")
    outer.mount(Server("kind", instructions="Be kind."), prefix="kind")
    async with asyncio.timeout(DEADLINE), connected(outer, era) as client:
        assert "What begins with 'kind_': Be kind." in client.instructions
        assert "odd" not in client.instructions


async def test_targets_that_hang_are_waited_for_together(monkeypatch):
    monkeypatch.setattr(merged_handlers, "INTRODUCTION_SECONDS", 1.0)
    outer = shop()
    for number in range(5):
        hanging = [sys.executable, "-c", "import sys; sys.stdin.read()"]
        outer.mount(Server.proxy(hanging, name=f"hanging{number}"), prefix=f"hanging{number}")
    loop = asyncio.get_running_loop()
    began = loop.time()
    async with asyncio.timeout(DEADLINE), connected(outer, "handshake"):
        assert loop.time() - began < 4.0
