"""Lists of a server and its mounts."""

import pytest

from dragoman import Server
from dragoman.server.registry import PageCursors
from dragoman.skills import Skill
from dragoman.testing import WirePeer
from scenarios.forwarding_server import forwarding
from scenarios.mounted_servers import mounted, shop

EVERY_ERA = pytest.mark.parametrize("era", ["handshake", "stateless"])


@EVERY_ERA
async def test_entries_of_a_server_that_forwards_keep_what_nobody_knows_and_the_first_of_two_is_listed(era):
    def answer(method, params):
        entries = [{"name": "x", "inputSchema": {}, "later": [1]}, {"name": "buy", "inputSchema": {}}]
        return {"tools": entries} if method == "tools/list" else {}

    outer = shop()
    outer.mount(forwarding("far", answer))
    async with WirePeer(outer, era) as peer:
        tools = (await peer.request("tools/list"))["result"]["tools"]
        assert [tool["name"] for tool in tools] == ["buy", "x"]
        assert tools[1]["later"] == [1]
        assert "description" not in tools[1]


@pytest.mark.parametrize(("count", "names"), [(2, ["buy", "far_t1", "far_t2"]), (4, ["buy"])])
async def test_a_mounted_server_with_too_many_pages_is_left_out(monkeypatch, caplog, count, names):
    monkeypatch.setattr(PageCursors.__init__, "__defaults__", (3,))
    cursors = []

    def answer(method, params):
        cursors.append(params.get("cursor"))
        number = len(cursors)
        page = {"tools": [{"name": f"t{number}", "inputSchema": {}}]}
        return page | ({"nextCursor": f"c{number}"} if number < count else {})

    outer = shop()
    outer.mount(forwarding("far", answer), prefix="far")
    async with WirePeer(outer, "stateless") as peer:
        tools = (await peer.request("tools/list"))["result"]["tools"]
    assert [tool["name"] for tool in tools] == names
    assert cursors == [None, "c1", "c2"][:count]
    assert ("left out: There are more than 3 pages" in caplog.text) is (count > 3)


@EVERY_ERA
async def test_a_joined_page_is_kept_until_one_of_its_servers_changes(era):
    outer = mounted()
    (mount,) = outer.dispatcher.mounts
    async with WirePeer(outer, era) as peer:
        first = await peer.request("tools/list")
        handler = outer.dispatcher.handlers["tools/list"]
        ((_, kept),) = handler._kept.values()
        second = await peer.request("tools/list")
        assert first["result"] == second["result"]
        assert next(iter(handler._kept.values()))[1] is kept
        mount.server.owner.tool(name="later")(lambda: "")
        assert "weather_later" in [tool["name"] for tool in (await peer.request("tools/list"))["result"]["tools"]]
        outer.tool(name="own")(lambda: "")
        assert "own" in [tool["name"] for tool in (await peer.request("tools/list"))["result"]["tools"]]
        outer.name = "renamed"
        renamed = await peer.request("tools/list")
        assert (
            era == "handshake" or renamed["result"]["_meta"]["io.modelcontextprotocol/serverInfo"]["name"] == "renamed"
        )


@EVERY_ERA
async def test_a_template_of_the_parent_is_matched_before_a_mount_that_may_have_any_uri(era):
    outer, inner = Server("outer"), Server("inner")
    inner.on_read_resource(lambda uri: f"inner {uri}")
    outer.resource("data://{name}")(lambda name: f"outer {name}")
    outer.mount(inner)
    async with WirePeer(outer, era) as peer:
        for uri, text in ("data://a", "outer a"), ("other://a", "inner other://a"):
            read = await peer.request("resources/read", {"uri": uri})
            assert read["result"]["contents"][0]["text"] == text


async def test_instructions_of_all_levels_are_joined():
    top, outer = Server("top"), mounted()
    top.mount(outer)
    top.mount(Server("silent"), prefix="silent")
    async with WirePeer(top, "stateless") as peer:
        told = (await peer.request("server/discover"))["result"]["instructions"]
    assert told == "Be kind.\n\nWhat begins with 'weather_': Ask for one city."


async def test_all_pages_of_the_parent_itself_are_joined():
    outer = Server("outer", page_size=1)
    outer.mount(Server("inner"), prefix="inner")
    for number in range(5):
        outer.tool(name=f"t{number}")(lambda: "")
    async with WirePeer(outer, "stateless") as peer:
        cursor, names = {}, []
        while True:
            page = (await peer.request("tools/list", cursor))["result"]
            names += [tool["name"] for tool in page["tools"]]
            if "nextCursor" not in page:
                break
            cursor = {"cursor": page["nextCursor"]}
    assert names == [f"t{number}" for number in range(5)]


async def test_a_skill_that_no_mount_has_is_refused():
    outer, inner = Server("outer"), Server("inner")
    inner.add_skill(Skill("pdf", "Reads PDF.", "Read."))
    outer.mount(inner, prefix="inner")
    async with WirePeer(outer, "stateless") as peer:
        answer = await peer.request("skills/get", {"uri": "skill://pdf/SKILL.md"})
        assert answer["error"] == {
            "code": -32602,
            "message": "Unknown URI: skill://pdf/SKILL.md",
            "data": {"uri": "skill://pdf/SKILL.md"},
        }
