"""The extensions of a mounted server, tasks, apps, skills and others, are declared and served by its parent."""

import asyncio

import pytest
from msgspec import Struct

from dragoman import Context, InvalidParams, Server, types
from dragoman.protocol.extensions import ExtensionRow
from dragoman.protocol.methods import Method
from dragoman.server import ServerExtension, ToolResult
from dragoman.skills import Skill
from dragoman.stores import Memory
from dragoman.testing import WirePeer, connected
from scenarios.mounted_servers import SECRET
from scenarios.task_peer import CARRIERS, DECLARED, FIRST, GENERATIONS, SECOND, task_peer

EVERY_ERA = pytest.mark.parametrize("era", ["handshake", "stateless"])
DEADLINE = 60
UNKNOWN = "There is no such task, or it has expired"


def server(name: str) -> Server:
    return Server(name, store=Memory(), secret=SECRET)


def working(name: str = "inner") -> Server:
    """Return a server whose tool runs as a task, asks, and links to a resource."""
    inner = server(name)

    @inner.resource("data://report")
    def report() -> str:
        return "report"

    @inner.tool(task=True)
    async def work(ctx: Context) -> ToolResult:
        name = (await ctx.elicit("Who?", str)).content
        return ToolResult([name, types.ResourceLink(uri="data://report", name="report")])

    return inner


@pytest.mark.parametrize("version", GENERATIONS)
@pytest.mark.parametrize("carrier", CARRIERS)
@pytest.mark.parametrize("has_own", [False, True], ids=["only there", "here too"])
@pytest.mark.covers("MNT-08")
async def test_a_task_of_a_mounted_server_is_served_by_its_parent(version, carrier, has_own):
    outer, inner = server("outer"), working()
    outer.mount(server("before"), prefix="before")
    outer.mount(inner, prefix="inner")
    if has_own:
        outer.mount(working("after"), prefix="after")

        @outer.tool(task=True)
        async def own() -> str:
            return "own"

    async with task_peer(outer, version, carrier) as peer:
        task = await peer.start("inner_work")
        waiting = await peer.until(task["taskId"], "input_required")
        if version == SECOND:
            (key,) = waiting["inputRequests"]
            answer = {key: {"action": "accept", "content": {"value": "Ann"}}}
            await peer.request("tasks/update", taskId=task["taskId"], inputResponses=answer)
            result = (await peer.outcome(task["taskId"]))["result"]
            assert [result["content"][0]["text"], result["content"][1]["uri"]] == ["Ann", "data://inner/report"]
        if has_own:
            made = await peer.start("own")
            assert (await peer.outcome(made["taskId"]))["result"]["content"][0]["text"] == "own"
        if version == FIRST and carrier == "duplex":
            listed = {one["taskId"] for one in (await peer.request("tasks/list"))["tasks"]}
            assert task["taskId"] in listed
            assert len(listed) == 1 + has_own
        other = await peer.start("inner_work")
        await peer.until(other["taskId"], "input_required")
        await peer.request("tasks/cancel", taskId=other["taskId"])
        assert (await peer.get(other["taskId"]))["status"] == "cancelled"
        assert (await peer.error("tasks/get", taskId="nothing"))["message"] == UNKNOWN


@EVERY_ERA
async def test_a_client_of_the_parent_drives_a_task_of_a_mounted_server_to_its_end(era):
    outer = server("outer")
    outer.mount(working(), prefix="inner")
    async with connected(outer, era, tasks=True, on_elicitation=lambda request: {"value": "Ann"}) as client:
        started = await client.start_tool("inner_work")
        result = await asyncio.wait_for(started.result(), DEADLINE)
        assert [result.content[0].text, result.content[1].uri] == ["Ann", "data://inner/report"]


@pytest.mark.covers("MNT-08")
async def test_a_client_listens_to_tasks_of_a_mounted_server_and_to_no_others():
    outer, inner = server("outer"), working()
    outer.mount(inner, prefix="inner")
    async with WirePeer(outer, SECOND, capabilities=DECLARED, timeout=DEADLINE) as peer:
        task = (await peer.request("tools/call", {"name": "inner_work"}))["result"]
        wanted = {"taskIds": [task["taskId"], "other"]}
        peer.start("subscriptions/listen", {"notifications": wanted})
        heard = await peer.receive()
        assert heard["params"]["notifications"] == {"taskIds": [task["taskId"]]}
        while heard["params"].get("status") != "input_required":
            heard = await peer.receive()
        (key,) = heard["params"]["inputRequests"]
        answer = {key: {"action": "accept", "content": {"value": "Ann"}}}
        await peer.request("tasks/update", {"taskId": task["taskId"], "inputResponses": answer})
        while heard["params"].get("status") != "completed":
            heard = await peer.receive()
        assert heard["params"]["result"]["content"][1]["uri"] == "data://inner/report"


@EVERY_ERA
@pytest.mark.covers("MNT-08")
async def test_a_mounted_tool_names_its_app_by_the_uri_that_the_parent_serves(era):
    outer, inner = server("outer"), server("inner")
    inner.add_app("ui://clock/app.html", "<html></html>")

    @inner.tool(ui="ui://clock/app.html")
    def now() -> str:
        return "noon"

    outer.mount(inner, prefix="inner")
    async with connected(outer, era, apps=True) as client:
        (tool,) = await client.tools()
        assert (tool.name, tool.ui.resource_uri) == ("inner_now", "ui://inner/clock/app.html")
        (contents,) = (await client.read_resource(tool.ui.resource_uri)).contents
        assert (contents.uri, contents.text) == ("ui://inner/clock/app.html", "<html></html>")
        assert "io.modelcontextprotocol/ui" in client.capabilities.extensions


@EVERY_ERA
@pytest.mark.covers("MNT-08")
async def test_skills_of_a_mounted_server_are_listed_loaded_and_verified(era, tmp_path):
    outer, inner = server("outer"), server("inner")
    folder = tmp_path / "pdf"
    (folder / "scripts").mkdir(parents=True)
    (folder / "SKILL.md").write_text("---\nname: pdf\ndescription: Reads PDF.\n---\nRun scripts/run.py.", "utf-8")
    (folder / "scripts/run.py").write_text("print(1)", "utf-8")
    inner.add_skill(folder)
    outer.add_skill(Skill("own", "Of the parent.", "Do it."))
    outer.mount(inner, prefix="inner")
    async with connected(outer, era, on_approval=lambda call: True) as client:
        skills = {skill.name: skill for skill in await client.skills()}
        assert {name: skill.uri for name, skill in skills.items()} == {
            "own": "skill://own/SKILL.md",
            "pdf": "skill://inner/pdf/SKILL.md",
        }
        assert "Run scripts/run.py." in await skills["pdf"].load()
        assert await skills["pdf"].read("scripts/run.py") == "print(1)"
    async with WirePeer(outer, era) as peer:
        got = (await peer.request("skills/get", {"uri": "skill://inner/pdf/SKILL.md"}))["result"]["skill"]
        assert {one["uri"] for one in got["resources"]} == {
            "skill://inner/pdf/SKILL.md",
            "skill://inner/pdf/scripts/run.py",
        }
        below = (await peer.request("resources/directory/read", {"uri": "skill://inner/pdf"}))["result"]["resources"]
        assert {one["uri"] for one in below} == {"skill://inner/pdf/SKILL.md", "skill://inner/pdf/scripts"}
        unknown = await peer.request("skills/get", {"uri": "skill://nothing/SKILL.md"})
        assert unknown["error"]["code"] == -32602


class Prices(ServerExtension):
    """An extension whose requests name nothing, with a notification of clients."""

    rows = (
        ExtensionRow(
            id="com.example/prices",
            one_sided=True,
            methods=(
                Method(name="prices/all", result=types.Result),
                Method(name="notifications/prices/seen", sender=("client",)),
            ),
        ),
    )
    seen = None

    def handlers(self):
        return {"prices/all": self.every, "notifications/prices/seen": self.see}

    async def every(self, ctx, params):
        return {"prices": [1, 2]}

    async def see(self, ctx, params):
        self.seen.set()


@EVERY_ERA
@pytest.mark.covers("MNT-08")
async def test_an_extension_of_an_author_answers_for_the_parent_and_hears_what_clients_notify(era):
    prices, outer = Prices(), server("outer")
    prices.seen = asyncio.Event()
    outer.mount(Server("inner", extensions=[prices]), prefix="inner")
    async with WirePeer(outer, era) as peer:
        assert (await peer.request("prices/all"))["result"]["prices"] == [1, 2]
        peer.notify("notifications/prices/seen")
        await asyncio.wait_for(prices.seen.wait(), DEADLINE)


class FindParams(types.Params):
    book: str = ""


class LoanParams(types.Params):
    at: str = ""


class Book(Struct):
    code: str
    cover: str = ""


class Books(types.PaginatedResult, kw_only=True):
    books: list[Book]


class Found(types.Result, kw_only=True):
    pages: list[types.Json] | None = None
    at: str = ""


class Library(ServerExtension):
    """An extension with a list, requests about names and URIs, and URIs in its results and notifications."""

    rows = (
        ExtensionRow(
            id="com.example/library",
            one_sided=True,
            methods=(
                Method(
                    name="books/list",
                    params=types.PaginatedRequestParams,
                    result=Books,
                    name_in="code",
                    uris=("cover",),
                ),
                Method(
                    name="books/find",
                    params=FindParams,
                    result=Found,
                    name_in="book",
                    listed_in=("books/list",),
                    uris=("pages[].scan",),
                ),
                Method(name="books/lend", params=LoanParams, result=Found, uri_in="at", uris=("at",)),
            ),
        ),
    )

    def __init__(self, *codes):
        self.codes = codes

    def handlers(self):
        return {"books/list": self.every, "books/find": self.find, "books/lend": self.lend}

    async def every(self, ctx, params):
        return Books(books=[Book(code, f"scan://{code}") for code in self.codes])

    async def find(self, ctx, params):
        if params.book not in self.codes:
            raise InvalidParams("No such book")
        return Found(pages=[{"scan": f"scan://{params.book}/1"}])

    async def lend(self, ctx, params):
        return Found(at=params.at)


@EVERY_ERA
@pytest.mark.parametrize("front", ["mount", "proxy"])
async def test_an_extension_works_behind_a_mount_and_a_proxy_by_what_its_rows_declare(era, front):
    outer = server("outer")
    for name, code in ("inner", "a"), ("other", "b"):
        inner = Server(name, extensions=[Library(code)])
        inner.resource("scan://{+path}")(lambda path: path)
        outer.mount(inner, prefix=name)
    async with WirePeer(Server.proxy(outer) if front == "proxy" else outer, era) as peer:
        listed = (await peer.request("books/list"))["result"]["books"]
        assert listed == [
            {"code": "inner_a", "cover": "scan://inner/a"},
            {"code": "other_b", "cover": "scan://other/b"},
        ]
        assert (await peer.request("books/find", {"book": "other_b"}))["result"]["pages"] == [
            {"scan": "scan://other/b/1"}
        ]
        assert (await peer.request("books/find", {"book": "other_a"}))["error"]["code"] == -32602
        lent = await peer.request("books/lend", {"at": "scan://inner/a"})
        assert lent["result"]["at"] == "scan://inner/a"
