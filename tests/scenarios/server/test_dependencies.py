"""What functions depend on, for everything that has functions, on everything that carries requests."""

import asyncio
import json
import signal
import subprocess
import sys
import textwrap
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Annotated, Any

import pytest

from dragoman import AsyncClient, Context, DefinitionError, Depends, InvalidParams, Lifespan, Server, types
from dragoman.server import Header
from dragoman.server.http import channels
from dragoman.stores import Memory
from faults.tasks.crew import until
from scenarios.command.test_worker import started
from scenarios.http_peer import NEWEST, STATELESS, HttpPeer

DEADLINE = 60


class Visits:
    """A server whose functions depend on a session, and what happened to the sessions."""

    def __init__(self) -> None:
        self.happened: list[str] = []
        self.server = Server(secret="a secret of sixteen", store=Memory())

    async def session(self, ctx: Context) -> AsyncIterator[str]:
        self.happened.append("open")
        try:
            yield f"session of {ctx.method}"
        finally:
            self.happened.append("close")

    def tenant(self, name: Annotated[str, Header("X-Tenant")]) -> str:
        return name.upper()


@pytest.fixture
def visits() -> Visits:
    return Visits()


@pytest.mark.covers("DEP-10", "DEP-06")
@pytest.mark.parametrize("mode", ["stateless", "handshake"])
async def test_everything_that_has_a_function_has_dependencies(visits, mode):
    server = visits.server

    @server.tool
    def tool(session: Annotated[str, Depends(visits.session)]) -> str:
        return session

    @server.prompt
    async def prompt(tone: str, session: Annotated[str, Depends(visits.session)]) -> str:
        return f"{tone} {session}"

    @server.resource("text://fixed")
    def fixed(session: Annotated[str, Depends(visits.session)]) -> str:
        return session

    def upper(name: str) -> str:
        return name.upper()

    @server.resource("text://{name}/page")
    async def page(loud: Annotated[str, Depends(upper)], name: str, session: str = Depends(visits.session)) -> str:
        return f"{loud} {session}"

    @prompt.complete("tone")
    def tones(value: str, session: Annotated[str, Depends(visits.session)]) -> list[str]:
        return [value + session]

    @server.method("acme/add")
    async def add(a: int, session: Annotated[str, Depends(visits.session)]) -> dict[str, str]:
        return {"sum": f"{a} {session}"}

    async with AsyncClient(server, mode=mode) as client:
        assert (await client.call_tool("tool")).text == "session of tools/call"
        assert (await client.get_prompt("prompt", {"tone": "kind"})).messages[0].content.text.startswith("kind session")
        assert (await client.read_resource("text://fixed")).contents[0].text == "session of resources/read"
        assert (await client.read_resource("text://a/page")).contents[0].text == "A session of resources/read"
        completed = await client.complete({"type": "ref/prompt", "name": "prompt"}, "tone", "k")
        assert completed.values == ["ksession of completion/complete"]
        assert (await client.request("acme/add", {"a": 1}))["sum"] == "1 session of acme/add"
        (entry,) = await client.prompts()
        assert [argument.name for argument in entry.arguments] == ["tone"]
    assert sorted(visits.happened) == ["close"] * 6 + ["open"] * 6


@pytest.mark.covers("DEP-10")
async def test_hooks_have_dependencies(visits):
    @visits.server.on_read_resource
    async def read(uri: str, session: Annotated[str, Depends(visits.session)]) -> str:
        return f"{uri} {session}"

    @visits.server.on_list_resources
    def listed(session: Annotated[str, Depends(visits.session)]) -> list[types.Json]:
        return [{"uri": "text://a", "name": session}]

    async with AsyncClient(visits.server) as client:
        assert (await client.read_resource("text://b")).contents[0].text == "text://b session of resources/read"
        assert [one.name for one in await client.resources()] == ["session of resources/list"]
    assert visits.happened == ["open", "close"] * 2


@pytest.mark.covers("DEP-11")
@pytest.mark.parametrize("mode", ["stateless", "handshake"])
async def test_each_run_of_a_handler_that_asks_has_its_own_dependencies(visits, mode):
    async def asked(ctx: Context, before: str = Depends(visits.session)) -> str:
        return (await ctx.elicit("Who?", str)).content

    @visits.server.tool
    async def greet(ctx: Context, name: str = Depends(asked)) -> str:
        return f"{name} {(await ctx.elicit('From where?', str)).content}"

    answers = iter(["Ada", "Oslo"])
    async with AsyncClient(visits.server, mode=mode, on_elicitation=lambda request: {"value": next(answers)}) as client:
        assert (await client.call_tool("greet")).text == "Ada Oslo"
    assert visits.happened == ["open", "close"] * (3 if mode == "stateless" else 1)


@pytest.mark.covers("DEP-08")
@pytest.mark.parametrize("version", [STATELESS, NEWEST])
async def test_over_http_the_answer_is_sent_before_the_clean_up_which_close_waits_for(visits, version):
    may_close = asyncio.Event()

    async def slow() -> AsyncIterator[str]:
        yield "made"
        visits.happened.append("closing")
        await may_close.wait()
        visits.happened.append("closed")

    @visits.server.tool
    async def say(text: Annotated[str, Depends(slow)]) -> str:
        return text

    app = visits.server.asgi()
    peer = HttpPeer(app, version)
    if version != STATELESS:
        await peer.initialize()
    exchange = peer.call("say")
    await exchange.until(lambda one: b"made" in one.body)
    assert b"made" in exchange.body
    exchange.leave()
    closing = asyncio.create_task(app.close())
    for _ in range(5):
        await asyncio.sleep(0)
    assert (visits.happened, closing.done()) == (["closing"], False)
    may_close.set()
    await closing
    await exchange.end()
    assert visits.happened == ["closing", "closed"]


@pytest.mark.parametrize("version", [STATELESS, NEWEST])
async def test_a_clean_up_that_does_not_end_does_not_hold_up_the_end_of_the_server(visits, version, monkeypatch):
    monkeypatch.setattr(channels, "STOP_SECONDS", 0.01)
    closing, before = asyncio.Event(), asyncio.all_tasks()

    async def stuck() -> AsyncIterator[str]:
        yield "made"
        closing.set()
        try:
            await asyncio.Event().wait()
        finally:
            visits.happened.append("cancelled")

    @visits.server.tool
    async def say(first: Annotated[str, Depends(visits.session)], text: Annotated[str, Depends(stuck)]) -> str:
        return text

    app = visits.server.asgi()
    peer = HttpPeer(app, version)
    if version != STATELESS:
        await peer.initialize()
    exchange = peer.call("say")
    await closing.wait()
    await app.close(0.01)
    assert (b"made" in exchange.body, visits.happened) == (True, ["open"])
    for task in asyncio.all_tasks() - before:
        task.cancel()
        await asyncio.wait([task])
    assert visits.happened == ["open", "cancelled", "close"]


@pytest.mark.covers("DEP-08")
@pytest.mark.parametrize("mode", ["stateless", "handshake"])
async def test_on_a_connection_the_answer_is_sent_before_the_clean_up(visits, mode):
    may_close = asyncio.Event()

    async def slow() -> AsyncIterator[str]:
        yield "made"
        await may_close.wait()
        visits.happened.append("closed")

    @visits.server.tool
    async def say(text: Annotated[str, Depends(slow)]) -> str:
        return text

    async with AsyncClient(visits.server, mode=mode) as client:
        assert [(await client.call_tool("say")).text for _ in range(2)] == ["made", "made"]
        assert visits.happened == []
        may_close.set()
    assert visits.happened == ["closed", "closed"]


@pytest.mark.covers("DEP-08")
@pytest.mark.parametrize("version", [NEWEST, STATELESS])
@pytest.mark.parametrize("waits_in_a_task", [False, True])
async def test_a_dependency_is_left_in_the_task_that_entered_it_also_within_middleware(
    visits, version, waits_in_a_task
):
    tasks: list[Any] = []
    may_close = asyncio.Event()

    @visits.server.middleware
    async def limit(ctx, call_next):
        result = await (asyncio.create_task(call_next()) if waits_in_a_task else call_next())
        visits.happened.append(ctx.method)
        return result

    async def scoped() -> AsyncIterator[str]:
        tasks.append(asyncio.current_task())
        yield "made"
        await may_close.wait()
        tasks.append(asyncio.current_task())

    @visits.server.tool
    async def say(text: Annotated[str, Depends(scoped)]) -> str:
        return text

    if waits_in_a_task:
        may_close.set()
    async with AsyncClient(visits.server, protocol_version=version) as client:
        assert (await client.call_tool("say")).text == "made"
        assert len(tasks) == (2 if waits_in_a_task else 1)  # plain middleware leaves the clean-up to the carrier
        may_close.set()
    app = visits.server.asgi()
    peer = HttpPeer(app, version)
    if version == NEWEST:
        await peer.initialize()
    assert (await peer.request("tools/call", {"name": "say", "arguments": {}})).json["result"]["content"]
    await app.close()
    assert tasks[0] is tasks[1] is not None
    assert tasks[2] is tasks[3] is not None
    assert "tools/call" in visits.happened


@pytest.mark.covers("DEP-09")
async def test_a_client_that_leaves_over_http_lets_the_dependencies_be_cleaned_up(visits):
    waits = asyncio.Event()

    @visits.server.tool
    async def wait(session: Annotated[str, Depends(visits.session)]) -> str:
        waits.set()
        await asyncio.Event().wait()
        return session

    app = visits.server.asgi()
    exchange = HttpPeer(app, STATELESS).call("wait")
    await waits.wait()
    exchange.leave()
    await exchange.end()
    await app.close()
    assert visits.happened == ["open", "close"]


@pytest.mark.covers("DEP-14")
@pytest.mark.parametrize("version", [STATELESS, NEWEST])
async def test_a_dependency_reads_a_header_by_its_name(visits, version):
    @visits.server.tool
    async def who(
        tenant: Annotated[str, Depends(visits.tenant)], token: Annotated[str | None, Header("authorization")]
    ) -> str:
        return f"{tenant} {token}"

    app = visits.server.asgi()
    peer = HttpPeer(app, version)
    if version != STATELESS:
        await peer.initialize()
    told = await peer.call("who", headers={"x-tenant": "acme", "authorization": "Bearer t"}).end()
    assert told.json["result"]["content"][0]["text"] == "ACME Bearer t"
    refused = (await peer.call("who").end()).json["error"]
    assert (refused["code"], "'x-tenant'" in refused["message"]) == (-32602, True)
    await app.close()
    async with AsyncClient(visits.server) as client:
        with pytest.raises(InvalidParams, match="no HTTP header 'x-tenant'"):
            await client.call_tool("who")


async def test_the_type_of_a_dependency_need_not_exist_at_run_time(visits):
    @visits.server.prompt
    def greet(name: str, session: "OnlyForTypeCheckers" = Depends(visits.session)) -> str:  # type: ignore[name-defined]  # noqa: F821
        return f"{name} in the {session}"

    async with AsyncClient(visits.server) as client:
        (prompt,) = await client.prompts()
        assert [argument.name for argument in prompt.arguments] == ["name"]
        fetched = await client.get_prompt("greet", {"name": "Ada"})
        assert fetched.messages[0].content.text == "Ada in the session of prompts/get"


def test_single_messages_are_cleaned_up_before_their_response_is_returned(visits):
    @visits.server.tool
    def say(session: Annotated[str, Depends(visits.session)]) -> str:
        return session

    @visits.server.method("acme/note")
    def note(session: Annotated[str, Depends(visits.session)]) -> None:
        visits.happened.append("noted")

    call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "say"}}
    assert visits.server.handle(call)["result"]["content"][0]["text"] == "session of tools/call"
    assert visits.server.handle({"jsonrpc": "2.0", "method": "acme/note"}) is None
    assert visits.happened == ["open", "close", "open", "noted", "close"]


async def test_the_handler_of_a_notification_has_dependencies_too(visits):
    noted = asyncio.Event()

    @visits.server.method("acme/note")
    async def note(session: Annotated[str, Depends(visits.session)]) -> None:
        noted.set()

    async with AsyncClient(visits.server) as client:
        await client.notify("acme/note", {})
        await noted.wait()
    assert visits.happened == ["open", "close"]


WORKER = """
    import os
    from collections.abc import Iterator
    from typing import Annotated
    from dragoman import Depends, Lifespan, Server

    async def opened():
        yield {"pid": os.getpid()}

    server = Server("shop", lifespan=opened, secret="the same in every process of it")

    def session(item: str, pool: Annotated[dict, Lifespan()]) -> Iterator[str]:
        yield f"{item} {pool['pid']}"
        with open("left", "w") as file:
            file.write(str(os.getpid()))

    @server.tool(task="required")
    def buy(item: str, session: Annotated[str, Depends(session)]) -> str:
        return f"{session} {os.getpid()}"
"""


@pytest.mark.covers("DEP-10", "DEP-01")
def test_a_task_in_another_process_has_the_lifespan_and_the_dependencies_of_that_process(tmp_path, monkeypatch):
    (tmp_path / "shop.py").write_text(textwrap.dedent(WORKER))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setenv("DRAGOMAN_RUN_TASKS", "0")
    names: dict[str, Any] = {}
    exec(textwrap.dedent(WORKER), names)
    prefix = "io.modelcontextprotocol/"
    declared = {"extensions": {f"{prefix}tasks": {}}}
    meta = {f"{prefix}protocolVersion": STATELESS, f"{prefix}clientCapabilities": declared}

    def request(method: str, **params: Any) -> types.Json:
        message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {**params, "_meta": meta}}
        return names["server"].handle(message)["result"]

    id = request("tools/call", name="buy", arguments={"item": "bread"})["taskId"]
    with started(tmp_path, "shop.py", DRAGOMAN_RUN_TASKS="0") as worker:
        task = until(lambda: (found := request("tasks/get", taskId=id))["status"] != "working" and found, "it ends")
        assert task["result"]["content"][0]["text"] == f"bread {worker.pid} {worker.pid}"
        worker.send_signal(signal.SIGTERM)
        assert worker.wait(DEADLINE) == 0
    assert (tmp_path / "left").read_text() == str(worker.pid)


ENDED = """
    import asyncio, sys
    from typing import Annotated
    from dragoman import Depends, Lifespan, Server

    def say(text):
        print(text, file=sys.stderr, flush=True)

    async def opened():
        yield "open"
        say("the lifespan ends")

    async def session(database: Annotated[str, Lifespan()]):
        try:
            yield database
        finally:
            await asyncio.sleep(0.05)
            say("cleaned up")

    server = Server("shop", lifespan=opened)

    @server.tool(tags={"public"}, timeout=60)
    async def wait(session: Annotated[str, Depends(session)]):
        say("began")
        await asyncio.Event().wait()
"""


@pytest.mark.covers("DEP-01")
@pytest.mark.parametrize(
    "run", ["server.run(include_tags='public')", "asyncio.run(server.run_async('stdio', handle_signals=True))"]
)
def test_a_signal_over_stdio_lets_requests_clean_up_before_the_lifespan_ends(tmp_path, run):
    (tmp_path / "shop.py").write_text(f"{textwrap.dedent(ENDED)}\n{run}\n")
    prefix = "io.modelcontextprotocol/"
    meta = {f"{prefix}protocolVersion": STATELESS, f"{prefix}clientCapabilities": {}}
    params = {"name": "wait", "arguments": {}, "_meta": meta}
    message = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params})
    with subprocess.Popen(
        [sys.executable, "shop.py"],
        cwd=tmp_path,
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdin is not None
        assert process.stderr is not None
        process.stdin.write(f"{message}\n")
        process.stdin.flush()
        assert process.stderr.readline() == "began\n"
        process.send_signal(signal.SIGTERM)
        assert process.wait(DEADLINE) == 0
        assert process.stderr.read().split("\n") == ["cleaned up", "the lifespan ends", ""]


@pytest.mark.covers("DEP-02")
def test_what_cannot_be_a_lifespan_is_refused_at_registration():
    async def coroutine() -> None: ...
    def generator() -> Iterator[None]:
        yield

    async def demanding(server: Server, url: str) -> AsyncIterator[None]:
        yield

    @asynccontextmanager
    async def fine() -> AsyncIterator[None]:
        yield

    wrong: list[Any] = [coroutine, generator, fine(), "text"]
    for given in wrong:
        with pytest.raises(DefinitionError, match="write an `async def` that yields once"):
            Server(lifespan=given)
    with pytest.raises(DefinitionError, match="it takes the server, or nothing"):
        Server().lifespan(demanding)
    assert Server().lifespan(fine) is fine


class Pool:
    """An async context manager of its own, whose class is a lifespan."""

    def __init__(self, size: int = 3) -> None:
        self.size = size

    async def __aenter__(self) -> "Pool":
        return self

    async def __aexit__(self, *_: object) -> None:
        self.size = 0


@pytest.mark.covers("DEP-02", "DEP-03", "DEP-13")
async def test_several_lifespans_compose_and_can_be_overridden(visits):
    happened = visits.happened
    server = Server(lifespan=Pool)

    @server.lifespan
    async def counted(given: Server) -> AsyncIterator[int]:
        happened.append("open")
        yield 7
        happened.append("close")

    @server.lifespan
    async def unvalued() -> AsyncIterator[None]:
        happened.append("open last")
        yield
        happened.append("close first")

    @server.tool
    async def say(ctx: Context, pool: Annotated[Pool, Lifespan()], number: Annotated[int, Lifespan(counted)]) -> str:
        assert ctx.lifespan == (pool, number)
        return f"{pool.size} {number}"

    async with AsyncClient(server) as client:
        assert (await client.call_tool("say")).text == "3 7"
    assert happened == ["open", "open last", "close first", "close"]

    async def fake() -> AsyncIterator[int]:
        yield 8

    with server.override(counted, fake):
        async with AsyncClient(server) as client:
            assert (await client.call_tool("say")).text == "3 8"


async def test_a_lifespan_that_was_not_entered_is_an_error_that_says_how(caplog):
    server, sent = Server(lifespan=Pool), []

    @server.tool(inline=True)
    def size(pool: Annotated[Pool, Lifespan()]) -> int:
        return pool.size

    connection = server.connect(sent.append)
    connection.receive(b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"size"}}\n')
    assert json.loads(sent[0])["result"]["isError"]
    assert "connect within `async with server.serving()`" in caplog.text
    connection.close()
