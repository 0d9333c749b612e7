"""The verbs of the traffic, by a page over HTTP and real processes."""

import asyncio
import json
import statistics
import time

import pytest

from dragoman.compose.session_file import SessionFile, SessionWriter
from dragoman.inspector.events import MAX_LOGS
from scenarios.command_line import serving
from scenarios.inspector_page import COMMAND, connected_page, open_page

MESSAGES_PER_SECOND = 10_000
PAUSE_SECONDS = 0.05


async def test_rows_are_read_newest_first_and_from_any_place():
    async with connected_page() as (page, id):
        for number in range(5):
            await page.tool(id, "echo", {"n": number})
        every = (await page.call("traffic/rows"))["rows"]
        numbers = [row["number"] for row in every]
        assert numbers == sorted(numbers)
        newest = await page.call("traffic/rows", limit=3)
        assert [row["number"] for row in newest["rows"]] == numbers[-3:]
        assert newest["matched"] == newest["kept"] == len(numbers)
        before = await page.call("traffic/rows", limit=2, before=numbers[-1])
        assert [row["number"] for row in before["rows"]] == numbers[-3:-1]
        after = await page.call("traffic/rows", limit=2, after=numbers[0])
        assert [row["number"] for row in after["rows"]] == numbers[-2:]
        assert (after["newer"], after["matched"]) == (len(numbers) - 1, len(numbers))
        assert (await page.call("traffic/rows", after=numbers[-1]))["rows"] == []


async def test_rows_are_filtered_and_a_wrong_filter_says_why():
    async with connected_page() as (page, id):
        await page.tool(id, "fail")
        await page.tool(id, "echo", {"city": "Oslo"})
        failed = (await page.call("traffic/rows", filter="method:tools/* error"))["rows"]
        assert [(row["what"], row["error"]) for row in failed] == [("response", "the tool failed")]
        found = (await page.call("traffic/rows", filter="what:request OSLO"))["rows"]
        assert [row["method"] for row in found] == ["tools/call"]
        assert (await page.call("traffic/rows", filter="server:s77"))["rows"] == []
        wrong = await page.call("traffic/rows", filter=">5parsecs")
        assert (wrong["rows"], "unknown unit" in wrong["error"]) == ([], True)
        assert (await page.refused("traffic/statistics", filter=">5parsecs")).status == 400


async def test_statistics_count_times_and_bytes_by_method():
    async with connected_page() as (page, id):
        for _ in range(3):
            await page.tool(id, "echo")
        await page.tool(id, "fail")
        found = await page.call("traffic/statistics", filter="method:tools/call", server=id)
        [method] = found["methods"]
        assert (method["method"], method["count"], method["errors"]) == ("tools/call", 4, 1)
        assert 0 < method["p50"] <= method["p95"] <= method["max"]
        assert (found["messages"], found["bytes"]) == (8, method["bytes"])


async def test_a_message_has_no_secret():
    async with connected_page() as (page, id):
        outcome = await page.tool(id, "echo", {"password": "hunter2"})
        assert outcome["result"]["structuredContent"] == {"password": "***"}
        for number in outcome["rows"]:
            _, data = await page.post("traffic/download", {"number": number})
            assert b"hunter2" not in data
        assert (await page.refused("traffic/message", number=9_999)).status == 404


async def test_a_request_is_sent_again_as_it_was_or_changed():
    async with connected_page() as (page, id):
        first = await page.tool(id, "echo", {"password": "hunter2", "a": 1})
        again = await page.call("traffic/replay", number=first["rows"][0])
        assert again["result"]["structuredContent"] == {"password": "***", "a": 1}
        assert again["row"] > first["row"]
        changed = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "echo", "arguments": {"b": 2}}}
        assert (await page.call("traffic/replay", number=first["rows"][0], message=changed))["result"][
            "structuredContent"
        ] == {"b": 2}
        assert (await page.refused("traffic/replay", number=first["row"])).status == 400
        broken = {**changed, "params": [1]}
        assert (await page.refused("traffic/replay", number=first["rows"][0], message=broken)).status == 400
        await page.call("servers/remove", server=id)
        assert (await page.refused("traffic/replay", number=first["rows"][0])).status == 409


async def test_traffic_is_saved_opened_and_closed(tmp_path):
    async with connected_page() as (page, id):
        await page.tool(id, "echo", {"password": "hunter2", "city": "Oslo"})
        response, data = await page.post("traffic/save", {"filter": "method:tools/call"})
        assert "traffic.mcpsession" in response.headers["Content-Disposition"]
        assert b"hunter2" not in data
        path = tmp_path / "saved.mcpsession"
        path.write_bytes(data)
        assert [record.message().get("method") for record in SessionFile(path).records()] == ["tools/call", None]
        session = (await page.call("traffic/open", path=str(path), follow=False))["session"]
        assert (session["name"], session["records"], session["following"]) == ("saved.mcpsession", 2, False)
        rows = (await page.call("traffic/rows", server=session["id"]))["rows"]
        assert [(row["what"], row["method"]) for row in rows] == [("request", "tools/call"), ("response", "tools/call")]
        assert rows[1]["ms"] > 0
        replayed = await page.call("traffic/replay", number=rows[0]["number"], server=id)
        assert replayed["result"]["structuredContent"]["city"] == "Oslo"
        await page.call("traffic/close", session=session["id"])
        assert (await page.call("traffic/rows", server=session["id"]))["rows"] == []
        assert (await page.refused("traffic/close", session=session["id"])).status == 404
        await page.call("traffic/clear")
        assert (await page.call("traffic/rows"))["matched"] == 0


async def test_a_session_file_is_uploaded_and_what_is_none_is_refused():
    async with connected_page() as (page, id):
        await page.tool(id, "echo")
        _, data = await page.post("traffic/save")
        head = {"X-Dragoman-Name": "%E2%98%95.mcpsession"}
        response, body = await page.post("traffic/upload", data=data, headers=head)
        session = json.loads(body)["session"]
        assert (response.status, session["name"], session["path"]) == (200, "☕.mcpsession", None)
        assert session["records"] > 2
        response, body = await page.post("traffic/upload", data=b"no database", headers=head)
        assert (response.status, json.loads(body)["error"]["kind"]) == (400, "SessionFileError")


async def test_a_tap_that_runs_is_followed(tmp_path):
    path = tmp_path / "tap.mcpsession"
    with SessionWriter(path, target="python server.py") as writer:
        writer.write("client", "message", b'{"jsonrpc":"2.0","id":1,"method":"ping"}')
        async with open_page() as page:
            session = (await page.call("traffic/open", path=str(path)))["session"]
            assert (session["following"], session["target"]) == (True, "python server.py")
            writer.write("server", "message", b'{"jsonrpc":"2.0","id":1,"result":{}}')
            assert (await page.row("what:response"))["method"] == "ping"
            await page.event("session", lambda event: event["session"]["records"] == 2)


FLOODING = """
from dragoman import Context, Server

server = Server("flooding")

@server.tool
async def flood(ctx: Context, messages: int) -> str:
    for number in range(messages):
        await ctx.report_progress(number, message=f"line {number}")
    return "flooded"
"""


@pytest.fixture(params=["stdio", "http"])
def flooding(request, tmp_path):
    if request.param == "stdio":
        yield COMMAND
        return
    script = tmp_path / "flooding.py"
    script.write_text(FLOODING, encoding="utf-8")
    with serving(script, home=tmp_path) as url:
        yield url


async def test_a_flood_is_taken_whole_and_everything_else_is_answered_meanwhile(flooding):
    async with connected_page(flooding) as (page, id):
        began, answered = time.process_time(), []
        flood = asyncio.ensure_future(page.tool(id, "flood", {"messages": 20_000}))
        while not flood.done():
            asked = time.process_time()
            await page.call("traffic/rows", filter="line", limit=500)
            answered.append(time.process_time() - asked)
            await asyncio.wait([flood], timeout=PAUSE_SECONDS)
        # Processor time, because other programs of the machine make everything slower by the clock.
        assert time.process_time() - began < 20_000 / MESSAGES_PER_SECOND
        assert statistics.median(answered) < 0.1
        rows = await page.call("traffic/rows", filter="what:notification line", limit=2000)
        assert (rows["matched"], len(rows["rows"])) == (20_000, 2000)
        assert (await page.call("traffic/rows", filter='"line 19999"'))["matched"] == 1


async def test_a_flood_becomes_few_events_which_count_what_they_leave_out():
    async with connected_page() as (page, id):
        await page.tool(id, "flood", {"messages": 5_000})
        kept = (await page.call("traffic/rows"))["kept"]
        await page.event("traffic", lambda event: event["kept"] == kept)
        logs = [event for event in page.events if event["event"] == "logs"]
        assert all(len(event["logs"]) <= MAX_LOGS for event in logs)
        assert any(event["leftOut"].get(id, 0) > 0 for event in logs)
        assert len(page.events) < 1_000


@pytest.mark.parametrize("path", ["/nonexistent.mcpsession", __file__, "~nobody-of-this-name/a", "a" * 5000])
async def test_a_file_that_cannot_be_opened_says_why(path):
    async with open_page() as page:
        refused = await page.refused("traffic/open", path=path)
        assert (refused.status, refused.error["kind"]) == (400, "SessionFileError")
        assert (await page.call("servers/list"))["sessions"] == []


async def test_two_pages_get_the_same_events():
    async with open_page() as page, page.another() as other:
        id = await page.connected()
        await asyncio.gather(page.tool(id, "echo"), other.event("traffic"))
        event = await other.event("status", lambda event: event["server"]["status"] == "connected")
        assert event["server"]["id"] == id


async def test_a_saved_file_names_its_server_without_secrets(tmp_path):
    async with open_page() as page:
        command = {**COMMAND, "args": [*COMMAND["args"], "--token=hunter2"]}
        id = await page.connected(command)
        _, data = await page.post("traffic/save", {"server": id})
        path = tmp_path / "saved.mcpsession"
        path.write_bytes(data)
        assert b"hunter2" not in data
        assert SessionFile(path).facts["target"].endswith("--token=***")
