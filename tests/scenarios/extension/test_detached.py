"""A tool that runs apart from its request, in both eras: its questions, replays, errors and cancellation."""

import asyncio
from typing import Any

import msgspec
import pytest
from msgspec import Raw

from dragoman import BlockingContext, Context, Server, ToolError, types
from dragoman.errors import DefinitionError, RpcError, UrlElicitationRequired
from dragoman.server import DetachedCall, Elicit, ExtensionRow, InputRequired, ServerExtension
from dragoman.testing import WirePeer
from scenarios.jobs import DECLARED, ID, Jobs

ERAS = ["stateless", "2025-11-25"]
OSLO = {"action": "accept", "content": {"value": "Oslo"}}
DEADLINE = 60


def peer_of(server: Server, era: str) -> WirePeer:
    return WirePeer(server, era, capabilities=DECLARED)


async def begun(peer: WirePeer, tool: str, **arguments: Any) -> str:
    result = (await peer.request("tools/call", {"name": tool, "arguments": arguments}))["result"]
    assert result.get("resultType") == ("job" if peer.version.stateless else None)
    return result["jobId"]


async def told(peer: WirePeer, id: str) -> types.Json:
    result = (await peer.request("jobs/get", {"jobId": id}))["result"]
    return {name: value for name, value in result.items() if name not in ("resultType", "_meta")}


async def answered(peer: WirePeer, id: str, **answers: Any) -> types.Json:
    keyed = {key.replace("_", "-"): value for key, value in answers.items()}
    assert "result" in await peer.request("jobs/answer", {"jobId": id, "answers": keyed})
    return await told(peer, id)


@pytest.mark.covers("EXS-11")
@pytest.mark.parametrize("era", ERAS)
async def test_its_result_is_what_the_call_would_have_given(era):
    server = Server(extensions=[Jobs()])

    @server.tool(job="now")
    def add(a: int, b: int) -> int:
        return a + b

    async with peer_of(server, era) as peer, WirePeer(server, era) as plain:
        job = await told(peer, await begun(peer, "add", a=1, b=2))
        call = {"name": "add", "arguments": {"a": 1, "b": 2}}
        assert job == {"status": "done", "result": (await plain.request("tools/call", call))["result"]}
        assert job["result"]["structuredContent"] == {"result": 3}


@pytest.mark.covers("EXS-11")
@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("kind", ["async", "def"])
async def test_it_runs_again_with_recorded_answers_and_steps(kind, era):
    jobs, ran = Jobs(), []
    server = Server(extensions=[jobs])

    @server.tool(name="async", job="now")
    async def book(ctx: Context) -> str:
        await ctx.report_progress(1, message="asking")
        city = (await ctx.elicit("Which city?", str)).content
        booking = await ctx.step("book", lambda: ran.append(city) or len(ran))
        nights = (await ctx.elicit("How many nights?", str)).content
        return f"{city}, {nights}, {booking}, {ctx.task.id}"

    @server.tool(name="def", job="now")
    def book_blocking(ctx: BlockingContext) -> str:
        ctx.report_progress(1, message="asking")
        city = ctx.elicit("Which city?", str).content
        booking = ctx.step("book", lambda: ran.append(city) or len(ran))
        nights = ctx.elicit("How many nights?", str).content
        return f"{city}, {nights}, {booking}, {ctx.task.id}"

    async with peer_of(server, era) as peer:
        id = await begun(peer, kind)
        job = await told(peer, id)
        assert (job["status"], list(job["questions"])) == ("asking", ["elicit-1"])
        assert job["questions"]["elicit-1"]["params"]["message"] == "Which city?"
        job = await answered(peer, id, elicit_1=OSLO, unknown={"ignored": True})
        assert list(job["questions"]) == ["elicit-2"]
        job = await answered(peer, id, elicit_2={"action": "accept", "content": {"value": "3"}}, elicit_1=5)
        assert job["result"]["content"][0]["text"] == f"Oslo, 3, 1, {id}"
        assert peer.received == []
    kept = jobs.jobs[id]
    assert (kept.runs, ran) == (3, ["Oslo"])
    assert kept.steps == [("book", None), ("book", b"1")]
    assert kept.progress == [(1, None, "asking")] * 3


@pytest.mark.covers("EXS-11")
@pytest.mark.parametrize("era", ERAS)
async def test_questions_that_a_handler_returns_and_pages_to_visit_wait_in_the_same_way(era):
    server = Server(extensions=[Jobs()])

    @server.tool(job="now")
    async def returning(ctx: Context) -> Any:
        if "city" not in ctx.inputs:
            return InputRequired({"city": Elicit("Which city?", str)}, state={"tries": 1})
        return f"{ctx.inputs['city']['content']['value']} {ctx.state['tries']}"

    @server.tool(job="now")
    async def visiting() -> str:
        if not signed:
            raise UrlElicitationRequired([types.ElicitRequestParams("Sign in", url="https://example.com/in")])
        return "signed in"

    signed: list[bool] = []
    declared = DECLARED | {"elicitation": {"form": {}, "url": {}}}
    async with WirePeer(server, era, capabilities=declared) as peer:
        id = await begun(peer, "returning")
        assert list((await told(peer, id))["questions"]) == ["city"]
        assert (await answered(peer, id, city=OSLO))["result"]["content"][0]["text"] == "Oslo 1"
        id = await begun(peer, "visiting")
        assert (await told(peer, id))["questions"]["url-1"]["params"]["url"] == "https://example.com/in"
        signed.append(True)
        assert (await answered(peer, id, url_1={"action": "accept"}))["result"]["content"][0]["text"] == "signed in"


@pytest.mark.covers("EXS-12")
@pytest.mark.parametrize("era", ERAS)
async def test_a_cancelled_run_is_cancelled_like_a_request(era):
    server, began, seen = Server(extensions=[Jobs()]), asyncio.Event(), []

    @server.tool(job="now")
    async def wait(ctx: Context) -> str:
        ctx.on_cancel(lambda: seen.append("called back"))
        began.set()
        try:
            await asyncio.Event().wait()
        finally:
            seen.append(ctx.cancelled)
        return "never"

    async with peer_of(server, era) as peer:
        id = await begun(peer, "wait")
        await asyncio.wait_for(began.wait(), DEADLINE)
        assert "result" in await peer.request("jobs/cancel", {"jobId": id})
        assert await told(peer, id) == {"status": "cancelled"}
        assert seen == ["called back", True]


@pytest.mark.covers("EXS-12")
@pytest.mark.parametrize("era", ERAS)
async def test_a_handler_that_cancels_itself_fails_and_its_run_is_not_cancelled(era, caplog):
    server = Server(extensions=[Jobs()])

    @server.tool(job="now")
    async def wait() -> str:
        raise asyncio.CancelledError

    async with peer_of(server, era) as peer:
        job = await told(peer, await begun(peer, "wait"))
    assert job["status"] == "done"
    assert job["result"]["isError"]
    assert "wait" in caplog.text


@pytest.mark.covers("EXS-11")
@pytest.mark.parametrize("era", ERAS)
async def test_errors_are_those_that_the_client_would_receive(era, caplog):
    jobs = Jobs()
    server = Server(extensions=[jobs])

    @server.tool(job="now")
    async def fail(how: str) -> str:
        raise {"tool": ToolError("too bad"), "rpc": RpcError(-7, "refused"), "else": KeyError("secret")}[how]

    async with peer_of(server, era) as peer:
        job = await told(peer, await begun(peer, "fail", how="tool"))
        assert (job["result"]["isError"], job["result"]["content"][0]["text"]) == (True, "too bad")
        job = await told(peer, await begun(peer, "fail", how="rpc"))
        assert job == {"status": "failed", "error": {"code": -7, "message": "refused"}}
        assert caplog.records == []
        job = await told(peer, await begun(peer, "fail", how="else"))
        assert job["result"]["content"][0]["text"] == "Internal error occurred"
        assert len(caplog.records) == 1
        id = await begun(peer, "fail", how="tool")
        await told(peer, id)
        server.remove_tool("fail")
        await jobs.run(jobs.jobs[id], server)
        assert (await told(peer, id))["error"] == {"code": -32602, "message": "Unknown tool: fail"}


@pytest.mark.covers("EXS-13")
@pytest.mark.parametrize("kind", ["async", "def"])
async def test_a_task_that_begins_later_comes_after_the_rounds_of_its_request(kind):
    jobs, ran = Jobs(), []
    server = Server(extensions=[jobs])

    @server.tool(name="async", job="later")
    async def greet(ctx: Context) -> str:
        name = (await ctx.elicit("Who?", str)).content
        await ctx.step("look", lambda: ran.append(name))
        await ctx.task.begin()
        city = (await ctx.elicit("Where?", str)).content
        return f"{name} in {city} ({ctx.task.id})"

    @server.tool(name="def", job="later")
    def greet_blocking(ctx: BlockingContext) -> str:
        name = ctx.elicit("Who?", str).content
        ctx.step("look", lambda: ran.append(name))
        ctx.task.begin()
        city = ctx.elicit("Where?", str).content
        return f"{name} in {city} ({ctx.task.id})"

    async with peer_of(server, "stateless") as peer:
        asked = (await peer.request("tools/call", {"name": kind}))["result"]
        assert (asked["resultType"], "jobId" in asked) == ("input_required", False)
        alice = {"action": "accept", "content": {"value": "Alice"}}
        again = {"name": kind, "inputResponses": {"elicit-1": alice}, "requestState": asked["requestState"]}
        made = (await peer.request("tools/call", again))["result"]
        assert made.keys() - {"_meta"} == {"resultType", "jobId"}
        assert list((await told(peer, made["jobId"]))["questions"]) == ["elicit-2"]
        job = await answered(peer, made["jobId"], elicit_2=OSLO)
    assert job["result"]["content"][0]["text"] == f"Alice in Oslo ({made['jobId']})"
    assert ran == ["Alice"]


@pytest.mark.covers("EXS-13")
@pytest.mark.parametrize("era", ERAS)
async def test_a_task_begins_in_the_middle_of_a_request_in_both_eras_even_if_the_handler_catches_everything(era):
    jobs, seen = Jobs(), []
    server = Server(extensions=[jobs])

    @server.tool(job="later")
    async def stubborn(ctx: Context, *, plain: bool = False) -> str:
        if plain:
            return "plain"
        try:
            await asyncio.gather(ctx.task.begin(), asyncio.sleep(0))
        except BaseException as error:
            seen.append(type(error).__name__)
        return f"task {ctx.task.id}"

    async with peer_of(server, era) as peer:
        plain = (await peer.request("tools/call", {"name": "stubborn", "arguments": {"plain": True}}))["result"]
        assert plain["content"][0]["text"] == "plain"
        id = await begun(peer, "stubborn")
        assert (await told(peer, id))["result"]["content"][0]["text"] == f"task {id}"
    async with WirePeer(server, era) as peer:  # a client without the extension
        result = (await peer.request("tools/call", {"name": "stubborn"}))["result"]
        assert result["content"][0]["text"] == "task None"
    assert (seen, len(jobs.jobs)) == (["CancelledError"], 1)


class Noting(ServerExtension):
    """Notes which calls pass through it."""

    def __init__(self, name: str, noted: list[str]) -> None:
        self.rows = (ExtensionRow(id=f"com.example/{name}"),)
        self.name, self.noted = name, noted

    async def around_call(self, ctx: Context, call_next: Any) -> Any:
        self.noted.append(self.name)
        return await call_next()


async def test_a_run_passes_through_middleware_and_through_the_extensions_after_its_own():
    noted: list[str] = []
    server = Server(extensions=[Noting("outer", noted), Jobs(), Noting("inner", noted)])

    @server.middleware
    async def note(ctx, call_next):
        if ctx.method == "tools/call":
            noted.append(f"middleware {ctx.task.id}")
            ctx.values["user"] = "ann"
        return await call_next()

    @server.tool(job="now")
    async def who(ctx: Context) -> str:
        return ctx.values["user"]

    async with peer_of(server, "stateless") as peer:
        job = await told(peer, await begun(peer, "who"))
    assert job["result"]["content"][0]["text"] == "ann"
    assert noted == ["middleware None", "outer", "middleware 1", "inner"]


async def test_a_call_keeps_who_called_and_none_of_the_headers():
    jobs, server = Jobs(), Server()
    server = Server(extensions=[jobs])

    @server.tool(job="now", scopes=["read"])
    async def who(ctx: Context) -> str:
        return f"{ctx.principal} {sorted(ctx.scopes)} {ctx.claims['a']} {ctx.request_id} {ctx.client.info}"

    call = DetachedCall(
        id=7,
        params=Raw(b'{"name":"who"}'),
        version="2025-11-25",
        capabilities=types.ClientCapabilities(extensions={ID: {}}),
        principal="ann",
        scopes=frozenset({"read"}),
        claims={"a": 1},
    )
    assert repr(call) == "<DetachedCall 7>"
    result = await jobs.run_detached(server, msgspec.json.decode(msgspec.json.encode(call), type=DetachedCall))
    assert result.content[0].text == "ann ['read'] 1 7 None"
    lacking = msgspec.structs.replace(call, scopes=frozenset())
    with pytest.raises(RpcError, match="scope"):
        await jobs.run_detached(server, lacking)
    with pytest.raises(RpcError, match="version"):
        await jobs.run_detached(server, msgspec.structs.replace(call, version="1999-01-01"))
    with pytest.raises(DefinitionError, match="is not an extension of the server"):
        await Jobs().run_detached(server, call)


async def test_a_run_tells_subscribers_of_resources_and_cannot_ask_over_a_connection():
    jobs = Jobs()
    server = Server(extensions=[jobs], capabilities={"resources": {"subscribe": True}})

    @server.tool(job="now")
    async def change(ctx: Context) -> str:
        await ctx.notify_resource_updated("file:///a")
        await ctx.info("nobody reads this")
        await ctx.ping()
        return "done"

    async with WirePeer(server, "2025-11-25", capabilities=DECLARED) as peer:
        await peer.request("resources/subscribe", {"uri": "file:///a"})
        job = await told(peer, await begun(peer, "change"))
        assert (await peer.receive())["params"] == {"uri": "file:///a"}
    assert job["result"]["isError"]
