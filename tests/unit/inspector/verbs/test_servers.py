"""The verbs of servers, by a page over HTTP and real processes."""

import json
import sys

import pytest
from aiohttp import web

from ports import free_port
from scenarios.inspector_page import COMMAND, SERVER, STATELESS, connected_page, open_page

VERSIONS = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")


async def test_a_server_tells_what_it_is_once_it_is_connected():
    async with open_page() as page:
        [added] = (await page.call("servers/add", target=COMMAND, name="shop"))["servers"]
        assert (added["name"], added["status"], added["carrier"]) == ("shop", "disconnected", "stdio")
        server = (await page.call("servers/connect", server=added["id"]))["server"]
        assert (server["status"], server["version"], server["era"]) == ("connected", "2025-11-25", "handshake")
        assert server["serverInfo"] == {"name": "inspected", "version": "1"}
        assert server["capabilities"]["resources"] == {"subscribe": True}
        assert (server["instructions"], server["failure"]) == ("Be kind.", None)
        statuses = [event["server"]["status"] for event in page.events if event["event"] == "status"]
        assert statuses[:2] == ["disconnected", "connecting"]
        assert (await page.event("stderr"))["text"] == "started\n"
        listed = await page.call("servers/list")
        assert [one["id"] for one in listed["servers"]] == [added["id"]]
        assert listed["versions"] == [*VERSIONS, "2026-07-28"]


@pytest.mark.parametrize("version", VERSIONS)
async def test_a_server_is_connected_with_the_version_that_was_chosen(version):
    async with open_page() as page:
        added = await page.added(COMMAND)
        server = (await page.call("servers/connect", server=added["id"], version=version))["server"]
        assert (server["version"], server["requestedVersion"]) == (version, version)


async def test_a_server_changes_its_era_when_it_is_connected_again():
    async with connected_page(STATELESS) as (page, id):
        [server] = (await page.call("servers/list"))["servers"]
        assert (server["version"], server["era"]) == ("2026-07-28", "stateless")
        again = (await page.call("servers/connect", server=id, version="2025-06-18"))["server"]
        assert (again["version"], again["era"]) == ("2025-06-18", "handshake")
        assert (await page.call("servers/connect", server=id, version=None))["server"]["version"] == "2026-07-28"


async def test_a_server_that_dies_is_reported_with_its_last_words_and_comes_back_with_the_next_request():
    async with connected_page() as (page, id):
        params = {"name": "die", "arguments": {}}
        died = await page.refused("explore/request", server=id, method="tools/call", params=params, key="k")
        assert (died.status, died.error["kind"]) == (502, "ServerCrashed")
        assert "the disk is full" in died.error["message"]
        [server] = (await page.call("servers/list"))["servers"]
        assert "the disk is full" in server["stderr"]
        assert "hunter2" not in json.dumps(page.events) + server["stderr"]
        assert (await page.tool(id, "echo", {"a": 1}))["result"]["structuredContent"] == {"a": 1}


@pytest.mark.parametrize(
    ("target", "kind", "words"),
    [
        ("/nonexistent/program --serve", "ConnectError", "/nonexistent/program"),
        ([sys.executable, "-c", "import sys; sys.exit('no licence')"], "ServerCrashed", "no licence"),
        ("http://127.0.0.1:{port}/mcp", "ConnectError", "no connection"),
    ],
)
async def test_a_failed_connection_names_its_reason_and_stays_in_the_status(target, kind, words):
    if isinstance(target, list):
        target = {"command": target[0], "args": target[1:]}
    else:
        target = target.replace("{port}", str(free_port()))
    async with open_page() as page:
        added = await page.added(target)
        refused = await page.refused("servers/connect", server=added["id"])
        assert (refused.status, refused.error["kind"]) == (502, kind)
        assert words in refused.error["message"]
        assert refused.error["remedy"]
        [server] = (await page.call("servers/list"))["servers"]
        assert (server["status"], server["failure"]["kind"]) == ("failed", kind)
        late = await page.refused("explore/list", server=added["id"], kind="tools")
        assert (late.status, "not connected" in late.error["message"]) == (409, True)


async def test_servers_of_a_configuration_are_added_together_and_a_wrong_one_says_why(tmp_path):
    file = tmp_path / "mcp.json"
    entry = {"command": SERVER[0], "args": SERVER[1:]}
    file.write_text(json.dumps({"mcpServers": {"good": entry, "bad": {"url": "${NOT_SET_ANYWHERE}"}}}))
    async with open_page() as page:
        good, bad = (await page.call("servers/add", target=str(file)))["servers"]
        assert (good["name"], good["source"], good["status"]) == ("good", str(file), "disconnected")
        assert (bad["name"], bad["status"]) == ("bad", "failed")
        assert "NOT_SET_ANYWHERE" in bad["failure"]["message"]
        refused = await page.refused("servers/connect", server=bad["id"])
        assert "NOT_SET_ANYWHERE" in refused.error["message"]
        await page.call("servers/remove", server=bad["id"])
        assert (await page.event("removed"))["server"] == bad["id"]
        assert len((await page.call("servers/list"))["servers"]) == 1


async def test_a_disconnected_server_keeps_its_traffic():
    async with connected_page() as (page, id):
        gone = (await page.call("servers/disconnect", server=id))["server"]
        assert (gone["status"], gone["version"]) == ("disconnected", None)
        assert (await page.call("traffic/rows"))["matched"] > 0


async def test_an_examination_reports_each_step_as_it_goes():
    async with connected_page() as (page, id):
        found = await page.call("servers/examine", server=id)
        steps = {finding["step"]: finding for finding in found["findings"]}
        assert steps["connection"]["ok"]
        assert "2025-11-25" in steps["protocol"]["detail"]
        assert not steps["tool echo"]["ok"]  # it has no description
        await page.event("finding", lambda event: event["finding"]["step"] == "protocol")


@pytest.mark.parametrize(
    ("verb", "body", "status"),
    [
        ("servers/connect", {"server": "s9"}, 404),
        ("servers/connect", {"server": "s1", "version": "1999-01-01"}, 400),
        ("servers/add", {"target": "  "}, 400),
        ("servers/add", {"target": "x", "unknown": 1}, 400),
        ("servers/add", {"target": {"mcpServers": 3}}, 400),
        ("servers/remove", {}, 400),
    ],
)
async def test_a_wrong_request_is_refused_with_its_reason(verb, body, status):
    async with open_page(COMMAND) as page:
        refused = await page.refused(verb, **body)
        assert refused.status == status
        assert refused.error["message"]


async def test_a_server_that_repeats_the_secrets_that_it_was_sent_shows_none_of_them():
    async def repeat(request):
        return web.json_response({"error": "no", "repeated": dict(request.headers)}, status=500)

    application = web.Application()
    application.router.add_route("*", "/mcp", repeat)
    runner = web.AppRunner(application)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    url = f"http://me:hunter2@127.0.0.1:{runner.addresses[0][1]}/mcp"
    async with open_page() as page:
        headers = {"X-Tenant-Key": "hunter2-key", "Authorization": "Bearer hunter2-token"}
        [server] = (await page.call("servers/add", target=url, headers=headers))["servers"]
        answers = [
            await page.post(verb, {"server": server["id"]} if "list" not in verb else {})
            for verb in ("servers/connect", "servers/examine", "servers/list", "traffic/rows", "traffic/save")
        ]
        answers.append(await page.post("export/make", {"format": "har", "server": server["id"]}))
        assert answers[0][0].status == 502
        assert [body for _, body in answers if b"hunter2" in body] == []
    await runner.cleanup()
