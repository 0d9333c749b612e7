"""The verbs that explore a server, by a page over HTTP and real processes."""

import asyncio
import sys

import pytest

from scenarios.inspector_page import STATELESS, connected_page, open_page

ODD_LISTS = """
import json, sys
for line in sys.stdin:
    message = json.loads(line)
    results = {
        "initialize": {
            "protocolVersion": "2025-11-25",
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "odd", "version": "1"},
        },
        "tools/list": {"tools": [5, None, "x", {"name": "a", "inputSchema": {"$ref": "#"}}]},
    }
    if "id" in message:
        result = results.get(message["method"])
        refusal = {"error": {"code": -32601, "message": "no"}}
        answer = {"result": result} if result else refusal
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], **answer}), flush=True)
"""


async def test_a_list_is_read_page_by_page_as_it_is_on_the_wire():
    async with connected_page() as (page, id):
        first = await page.call("explore/list", server=id, kind="tools")
        assert (len(first["items"]), first["nextCursor"]) == (8, "8")
        rest = await page.call("explore/list", server=id, kind="tools", cursor=first["nextCursor"])
        assert rest["nextCursor"] is None
        assert first["items"][0] == {"name": "echo", "inputSchema": {"type": "object"}}


@pytest.mark.parametrize(("kind", "count"), [("prompts", 1), ("resources", 1), ("templates", 1), ("skills", 0)])
async def test_every_kind_of_list_is_there(kind, count):
    async with connected_page() as (page, id):
        assert len((await page.call("explore/list", server=id, kind=kind))["items"]) == count


async def test_tasks_and_apps_are_listed_and_an_unknown_kind_is_refused():
    async with connected_page() as (page, id):
        assert (await page.call("explore/list", server=id, kind="tasks"))["items"] == []
        assert (await page.call("explore/list", server=id, kind="apps"))["items"] == []
        assert (await page.refused("explore/list", server=id, kind="ghosts")).status == 400


async def test_a_request_returns_its_result_its_time_and_its_rows():
    async with connected_page() as (page, id):
        outcome = await page.tool(id, "echo", {"a": [1, 2]})
        assert outcome["result"]["structuredContent"] == {"a": [1, 2]}
        assert (outcome["cut"], outcome["preview"]) == (False, None)
        assert outcome["ms"] > 0
        first, last = outcome["rows"]
        assert last == outcome["row"]
        sent = await page.call("traffic/message", number=first)
        assert sent["data"]["params"]["arguments"] == {"a": [1, 2]}
        assert (await page.call("traffic/message", number=last))["row"]["ms"] > 0


async def test_a_tool_that_fails_is_a_result_and_a_refusal_is_not():
    async with connected_page() as (page, id):
        assert (await page.tool(id, "fail"))["result"]["isError"] is True
        refused = await page.refused("explore/request", server=id, method="acme/none", params={"x": 1}, key="k")
        assert (refused.status, refused.error["code"], refused.error["data"]) == (502, -32601, {"method": "acme/none"})
        assert len(refused.error["rows"]) == 1


@pytest.mark.parametrize(
    ("method", "params", "member"),
    [
        ("prompts/get", {"name": "greet", "arguments": {"name": "Ada"}}, "messages"),
        ("resources/read", {"uri": "file:///a"}, "contents"),
        ("ping", {}, None),
    ],
)
async def test_any_method_can_be_requested(method, params, member):
    async with connected_page() as (page, id):
        outcome = await page.call("explore/request", server=id, method=method, params=params, key="k")
        assert member is None or member in outcome["result"]


async def test_progress_reaches_the_page_with_the_key_of_the_request():
    async with connected_page() as (page, id):
        await page.tool(id, "progress", key="mine")
        event = await page.event("progress")
        assert (event["key"], event["server"], event["progress"], event["total"]) == ("mine", id, 2, 2)


async def test_a_request_is_cancelled_by_its_key():
    async with connected_page() as (page, id):
        waiting = asyncio.ensure_future(
            page.refused("explore/request", server=id, method="tools/call", params={"name": "never"}, key="slow")
        )
        await page.row("method:tools/call")
        again = await page.refused("explore/request", server=id, method="ping", key="slow")
        assert (again.status, "waits already" in again.error["message"]) == (400, True)
        assert (await page.call("explore/cancel", key="slow"))["cancelled"] is True
        refused = await waiting
        assert (refused.status, refused.error["kind"]) == (409, "Cancelled")
        await page.row("method:notifications/cancelled")
        assert (await page.call("explore/cancel", key="slow"))["cancelled"] is False


async def test_the_result_of_a_call_is_shown_although_its_request_was_dropped_from_the_traffic():
    async with open_page() as page:
        page.inspector.traffic._max_records = 100
        id = await page.connected()
        outcome = await page.tool(id, "flood", {"messages": 500})
        assert outcome["result"]["content"][0]["text"] == "flooded"
        [request, answer] = outcome["rows"]
        assert (outcome["row"], (await page.refused("traffic/message", number=request)).status) == (answer, 404)
        shown = (await page.call("traffic/message", number=answer))["row"]
        assert (shown["method"], shown["ms"] > 0) == ("tools/call", True)


async def test_a_time_out_is_reported():
    async with connected_page() as (page, id):
        params = {"name": "never"}
        late = await page.refused(
            "explore/request", server=id, method="tools/call", params=params, key="k", timeout=0.2
        )
        assert (late.status, late.error["kind"]) == (502, "Timeout")


async def test_a_result_of_20_megabytes_is_shown_cut_and_saved_whole():
    async with connected_page() as (page, id):
        outcome = await page.tool(id, "big")
        assert (outcome["result"], outcome["cut"]) == (None, True)
        assert len(outcome["preview"]) == 200_000
        assert outcome["bytes"] > 20_000_000
        shown = await page.call("traffic/message", number=outcome["row"])
        assert (shown["data"], shown["cut"], len(shown["text"])) == (None, True, 200_000)
        response, data = await page.post("traffic/download", {"number": outcome["row"]})
        assert response.headers["Content-Disposition"].startswith("attachment")
        assert (len(data), data.endswith(b"}")) == (outcome["bytes"], True)


async def test_arguments_are_completed():
    async with connected_page() as (page, id):
        ref = {"type": "ref/prompt", "name": "greet"}
        found = await page.call("explore/complete", server=id, ref=ref, argument="name", value="o", context={"a": "b"})
        assert found == {"values": ["oslo"], "total": 1, "hasMore": False}


async def test_logs_changes_of_lists_and_updates_of_resources_reach_the_page():
    async with connected_page(version="2025-11-25") as (page, id):
        assert (await page.call("explore/subscribe", server=id, uri="file:///a"))["subscribed"] == ["file:///a"]
        await page.call("explore/log_level", server=id, level="debug")
        await page.tool(id, "log")
        [log] = (await page.event("logs"))["logs"]
        assert (log["level"], log["logger"], log["data"]) == ("warning", "disk", {"free": 0})
        await page.event("notice", lambda event: event["detail"] == "tools")
        await page.event("notice", lambda event: event["kind"] == "resource_updated")
        assert (await page.call("explore/unsubscribe", server=id, uri="file:///a"))["subscribed"] == []
        await page.call("explore/notify", server=id, method="notifications/acme", params={"a": 1})
        rows = await page.call("traffic/rows", filter="method:notifications/acme")
        assert [row["what"] for row in rows["rows"]] == ["notification"]


async def test_a_tool_is_shown_as_each_model_gets_it_with_an_estimate_of_its_tokens():
    async with connected_page() as (page, id):
        found = {
            one["dialect"]: one for one in (await page.call("explore/dialects", server=id, tool="echo"))["dialects"]
        }
        assert list(found) == (await page.call("servers/list"))["dialects"]
        assert found["openai"]["definition"]["function"]["name"] == "echo"
        assert found["anthropic"]["definition"]["input_schema"]["type"] == "object"
        assert all(one["tokens"] > 5 for one in found.values())
        assert any("no description" in note for note in found["gemini"]["notes"])
        assert (await page.refused("explore/dialects", server=id, tool="ghost")).status == 404


async def test_hostile_texts_arrive_as_they_are_in_json():
    async with connected_page() as (page, id):
        outcome = await page.tool(id, "hostile")
        assert outcome["result"]["content"][0]["text"] == "\x1b[2J\u202e<script>alert(1)</script>\x00"


async def test_the_rounds_of_a_stateless_call_are_one_span():
    async with connected_page(STATELESS) as (page, id):
        rule = {"kind": "elicitation", "match": "city", "answer": {"action": "accept", "content": {"city": "Oslo"}}}
        await page.call("questions/settings", server=id, script=[rule])
        outcome = await page.tool(id, "ask")
        assert '"Oslo"' in outcome["result"]["content"][0]["text"]
        spans = (await page.call("traffic/spans", filter="method:tools/call"))["spans"]
        assert [(span["method"], span["label"], span["rounds"], span["messages"]) for span in spans] == [
            ("tools/call", "ask", 2, 4)
        ]


SLOW = """
from dragoman import Server

server = Server("slow")

@server.tool(task="required")
async def report() -> str:
    return "done"
"""


@pytest.mark.parametrize("version", ["2026-07-28", "2025-11-25"])
async def test_a_task_is_followed_to_its_end_and_is_listed_in_either_era(tmp_path, monkeypatch, version):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))  # the store keeps tasks there
    path = tmp_path / "slow.py"
    path.write_text(SLOW, encoding="utf-8")
    async with connected_page(str(path), version=version) as (page, id):
        outcome = await page.tool(id, "report")
        assert "done" in str(outcome["result"])
        [task] = (await page.call("explore/list", server=id, kind="tasks"))["items"]
        assert task["status"] == "completed"
        [span] = (await page.call("traffic/spans", server=id, filter="method:tools/call"))["spans"]
        assert (span["kind"], span["label"]) == ("task", "report")


async def test_what_is_no_object_in_a_list_does_not_reach_the_page(tmp_path):
    program = tmp_path / "odd.py"
    program.write_text(ODD_LISTS)
    async with connected_page({"command": sys.executable, "args": [str(program)]}) as (page, id):
        found = await page.call("explore/list", server=id, kind="tools")
        assert found["items"] == [{"name": "a", "inputSchema": {"$ref": "#"}}]
