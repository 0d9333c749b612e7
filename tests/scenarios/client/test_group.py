"""Many servers at once: real processes and an HTTP server, some of which are dead, slow, locked, or misconfigured."""

import asyncio
import inspect
import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from aiohttp import web
from fastapi import FastAPI

from dragoman import (
    AsyncClient,
    AsyncClients,
    AuthRequired,
    Client,
    Clients,
    ConfigError,
    ConnectError,
    Context,
    NotFound,
    RpcError,
    Server,
    ServerCrashed,
    Timeout,
    ToolError,
)
from dragoman.client import register_transport
from dragoman.client.group.blocking import GroupTool
from dragoman.client.group.group import AsyncGroupTool
from dragoman.runtime.portal import portal
from scenarios.client_peer import DEADLINE, Script, Web, discovered, scenario, until
from scenarios.scripted_server import STATELESS, ScriptedServer, page, served

NOTES = """
import os
from dragoman import Server, ToolError

server = Server("notes")

@server.tool
def search(text: str) -> str:
    return f"notes about {text}"

@server.tool
def delete(id: int) -> str:
    raise ToolError("It is locked")

@server.tool
def who() -> str:
    return f"{os.environ.get('WHO', 'nobody')} in {os.path.basename(os.getcwd())}"

@server.tool
def crash() -> str:
    os._exit(3)

@server.prompt
def summary() -> str:
    return "Summarise the notes."

@server.resource("notes://all")
def all_notes() -> str:
    return "tea"

@server.resource("notes://{id}")
def note(id: int) -> str:
    return f"note {id}"

server.run()
"""
HANGING = [sys.executable, "-S", "-E", "-c", "import sys; sys.stdin.read()"]
DEAD = [sys.executable, "-S", "-E", "-c", "raise SystemExit('MY_KEY is not set')"]
LATE = """
import os.path, time
def answer(m):
    ends = time.monotonic() + 30
    while not os.path.exists(sys.argv[1] + ".now") and time.monotonic() < ends:
        time.sleep(0.01)
    if m.get("method") == "initialize":
        initialized(m, tools={})
    elif m.get("method") == "tools/list":
        result(m, {"tools": [{"name": "late", "inputSchema": {"type": "object"}}]})
    elif "id" in m:
        error(m, -32601)
"""


@pytest.fixture
def notes(tmp_path) -> Path:
    path = tmp_path / "notes.py"
    path.write_text(NOTES)
    return path


def weather() -> Server:
    server = Server("weather")

    @server.tool
    def forecast(city: str) -> str:
        return f"rain in {city}"

    @server.tool(name="search")
    def find(text: str) -> str:
        return f"weather of {text}"

    @server.prompt
    def packing() -> str:
        return "What should I pack?"

    return server


def closed_port() -> str:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        return f"http://127.0.0.1:{listening.getsockname()[1]}/mcp"


def names(tools) -> list[str]:
    return sorted(tool.qualified_name for tool in tools)


# Failures are isolated.


@pytest.mark.covers("LMG-01", "LMG-02", "LMG-07")
@scenario
async def test_dead_hanging_and_misconfigured_servers_harm_no_other(notes, caplog):
    servers = {
        "notes": notes,
        "weather": weather(),
        "dead": DEAD,
        "refused": closed_port(),
        "wrong": {"command": "run", "env": {"KEY": "${NOBODY_SET_THIS}"}},
        "off": {"command": "run", "disabled": True},
    }
    clients = AsyncClients(servers)
    await clients.add("hanging", HANGING, connect_timeout=1)
    async with clients:
        status = clients.status
        assert status.pop("hanging") == "connecting"
        assert status == {
            "notes": "ready",
            "weather": "ready",
            "dead": "failed",
            "refused": "failed",
            "wrong": "failed",
            "off": "disabled",
        }
        errors = clients.errors
        assert set(errors) == {"dead", "refused", "hanging", "wrong"}
        assert isinstance(errors["dead"], ServerCrashed)
        assert "MY_KEY is not set" in str(errors["dead"])
        assert isinstance(errors["refused"], ConnectError)
        assert isinstance(errors["hanging"], Timeout)
        assert isinstance(errors["wrong"], ConfigError)
        assert (await clients.call_tool("forecast", {"city": "Oslo"})).text == "rain in Oslo"
        assert (await clients["notes"].call_tool("search", {"text": "tea"})).text == "notes about tea"
        with pytest.raises(ConfigError, match="NOBODY_SET_THIS"):
            await clients["wrong"].tools()
        with pytest.raises(Timeout, match="goes on connecting"):
            await clients["hanging"].tools()
        assert clients.status["hanging"] == "connecting"
        assert "dead: failed" in repr(clients)
    assert set(clients.status.values()) == {"stopped", "disabled"}
    assert clients.errors == {}
    assert "stopped while" not in caplog.text


@pytest.mark.covers("LMG-08")
@scenario
async def test_nobody_waits_for_a_slow_server_and_it_comes_when_it_can(tmp_path):
    slow = Script(tmp_path, LATE, "late")
    async with AsyncClients({"slow": slow.command, "weather": weather()}, connect_timeout=4) as clients:
        assert clients.status == {"slow": "connecting", "weather": "ready"}
        assert names(await clients.tools()) == ["forecast", "search"]
        (tmp_path / "late.jsonl.now").touch()
        await until(lambda: clients.status["slow"] == "ready")
        assert clients.errors == {}
        assert names(await clients.tools()) == ["forecast", "late", "search"]


@pytest.mark.covers("LMG-08")
@scenario
async def test_a_slow_server_is_not_ended_when_the_time_of_connecting_is_over(tmp_path):
    slow = Script(tmp_path, LATE, "late")
    async with AsyncClients({"slow": slow.command}, connect_timeout=0.3, mode="handshake") as clients:
        await asyncio.sleep(0.6)
        assert clients.status == {"slow": "connecting"}
        (tmp_path / "late.jsonl.now").touch()
        await until(lambda: clients.status["slow"] == "ready")
        assert names(await clients.tools()) == ["late"]
    assert len(slow.pids) == 1


@pytest.mark.covers("LMG-08")
@scenario
async def test_nobody_waits_for_a_required_server_longer_than_its_time():
    began = asyncio.get_running_loop().time()
    with pytest.raises(Timeout, match="'hanging' is required"):
        await AsyncClients({"hanging": HANGING}, required=["hanging"], connect_timeout=0.5).start()
    assert asyncio.get_running_loop().time() - began < 10


@pytest.mark.covers("LMG-09")
@scenario
async def test_a_required_server_that_fails_is_raised_after_the_others_were_closed(notes):
    clients = AsyncClients({"notes": notes, "dead": DEAD}, required=["dead"])
    with pytest.raises(ServerCrashed, match=r"(?s)'dead' is required, and cannot be used: .*MY_KEY") as caught:
        await clients.start()
    assert caught.value.exit_code == 1
    assert clients.status == {"notes": "stopped", "dead": "stopped"}


@scenario
async def test_a_required_server_that_fails_later_is_raised_by_start_and_the_others_stay(notes):
    async with AsyncClients({"notes": notes, "weather": weather()}, required=["notes"]) as clients:
        await clients["notes"].stop()
        notes.write_text("raise SystemExit(5)")
        with pytest.raises(ServerCrashed, match="'notes' is required"):
            await clients.start()
        assert clients.status == {"notes": "failed", "weather": "ready"}


@scenario
async def test_a_required_server_that_is_misconfigured_is_raised_with_its_place(notes):
    servers = {"notes": notes, "wrong": {"command": "${NOBODY_SET_THIS}", "required": True}}
    with pytest.raises(ConfigError, match="server 'wrong', command"):
        async with AsyncClients(servers):
            pytest.fail("it must not start")


@scenario
async def test_a_required_server_whose_headers_cannot_be_made_is_raised(notes):
    def broken():
        raise LookupError("no token")

    clients = AsyncClients({"web": closed_port()}, headers=broken, required=["web"])
    with pytest.raises(ConnectError, match="no token"):
        await clients.start()


@scenario
async def test_a_required_server_is_waited_for_longer_than_others(tmp_path):
    slow = Script(tmp_path, LATE, "late")
    clients = AsyncClients({"slow": slow.command}, required=["slow"])
    starting = asyncio.ensure_future(clients.start())
    await until(lambda: slow.pids)
    (tmp_path / "late.jsonl.now").touch()
    assert (await asyncio.wait_for(starting, DEADLINE)).status == {"slow": "ready"}
    await clients.stop()


@scenario
async def test_a_server_that_wants_credentials_is_told_from_one_that_failed():
    async with (
        Web(lambda message, request: web.Response(status=401)).running() as locked,
        AsyncClients({"locked": locked.url, "weather": weather()}) as clients,
    ):
        assert clients.status == {"locked": "needs_auth", "weather": "ready"}
        assert isinstance(clients.errors["locked"], AuthRequired)
        asked = len(locked.received)
        with pytest.raises(NotFound):
            await clients.tool("nothing")
        assert len(locked.received) == asked
        with pytest.raises(NotFound):
            await clients.tool("locked__nothing")
        assert len(locked.received) > asked


@scenario
async def test_a_list_that_cannot_be_had_harms_no_other(caplog):
    odd = ScriptedServer({"tools/list": RpcError(-32603, "out of order")})
    async with AsyncClients({"odd": odd, "weather": weather()}) as clients:
        assert names(await clients.tools()) == ["forecast", "search"]
        assert "out of order" in str(clients.errors["odd"])
        assert "tools of the server 'odd' cannot be listed" in caplog.text
        odd.answers["tools/list"] = page("tools", "mended")
        assert names(await clients.tools()) == ["forecast", "mended", "search"]
        assert clients.errors == {}


@scenario
async def test_a_start_that_is_cancelled_leaves_nothing_behind(notes):
    clients = AsyncClients({"notes": notes, "hanging": HANGING})
    starting = asyncio.ensure_future(clients.start())
    await until(lambda: clients.status["notes"] == "ready")
    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting
    assert set(clients.status.values()) == {"stopped"}


@pytest.mark.parametrize("turns", range(8))
def test_a_start_that_is_cancelled_at_any_moment_leaves_nothing_behind(turns):
    @scenario
    async def check():
        clients = AsyncClients({"weather": weather(), "hanging": HANGING})
        starting = asyncio.ensure_future(clients.start())
        for _ in range(turns):
            await asyncio.sleep(0)
        starting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await starting
        assert set(clients.status.values()) <= {"new", "stopped"}

    check()


@scenario
async def test_a_group_may_be_stopped_while_it_starts(notes):
    clients = AsyncClients({"notes": notes, "hanging": HANGING}, required=["hanging"])
    starting = asyncio.ensure_future(clients.start())
    await until(lambda: clients.status["notes"] == "ready")
    await clients.stop()
    with pytest.raises(ConnectError, match="was stopped"):
        await starting
    assert set(clients.status.values()) == {"stopped"}


# Names.


@pytest.mark.covers("LMG-05", "LMG-06")
@scenario
async def test_tools_of_one_name_are_told_apart_by_their_servers(notes):
    async with AsyncClients({"notes": notes, "weather": weather()}) as clients:
        tools = await clients.tools()
        assert names(tools) == ["crash", "delete", "forecast", "notes__search", "weather__search", "who"]
        found = {tool.qualified_name: tool for tool in tools}
        assert (found["notes__search"].name, found["notes__search"].server) == ("search", "notes")
        assert (await found["notes__search"](text="tea")).text == "notes about tea"
        assert (await found["weather__search"].call({"text": "tea"}, timeout=DEADLINE)).text == "weather of tea"
        assert (await clients.call_tool(found["weather__search"], {"text": "x"})).text == "weather of x"
        assert (await clients.call_tool(await clients["notes"].tool("who"))).text.startswith("nobody")
        assert (await clients.call_tool("notes__search", {"text": "x"})).text == "notes about x"
        assert (await clients.call_tool("weather__forecast", {"city": "x"})).text == "rain in x"
        assert (await clients.tool("forecast")).server == "weather"
        assert (await clients.tool("notes__who")).qualified_name == "who"
        with pytest.raises(ToolError, match="locked"):
            await clients.call_tool("delete", {"id": 1})
        assert (await clients.call_tool("delete", {"id": 1}, raise_on_error=False)).is_error


@scenario
async def test_a_name_that_leads_nowhere_or_to_several_is_not_found(notes):
    async with AsyncClients({"notes": notes, "weather": weather()}) as clients:
        with pytest.raises(NotFound) as caught:
            await clients.tool("search")
        assert sorted(caught.value.close_matches) == ["notes__search", "weather__search"]
        with pytest.raises(NotFound) as caught:
            await clients.call_tool("forecats")
        assert caught.value.close_matches == ["forecast"]


@pytest.mark.parametrize(
    ("include", "exclude", "left"),
    [
        (None, None, ["crash", "delete", "forecast", "notes__search", "weather__search", "who"]),
        ("forecast", None, ["forecast"]),
        ("search", None, ["notes__search", "weather__search"]),
        (["weather__*"], None, ["forecast", "weather__search"]),
        (None, "notes__*", ["forecast", "weather__search"]),
        (["*search", "who"], ["weather__search"], ["notes__search", "who"]),
        ([], None, []),
        (None, [], ["crash", "delete", "forecast", "notes__search", "weather__search", "who"]),
    ],
)
@pytest.mark.covers("LMG-05")
def test_tools_are_chosen_by_names_and_patterns(notes, include, exclude, left):
    @scenario
    async def check():
        async with AsyncClients({"notes": notes, "weather": weather()}) as clients:
            assert names(await clients.tools(include, exclude)) == left
            # Which names there are does not depend on what was chosen.
            assert (await clients.call_tool("weather__search", {"text": "x"})).text == "weather of x"

    check()


@scenario
async def test_a_configuration_prefixes_and_hides_tools():
    def numbered(*tools):
        return ScriptedServer({"tools/list": page("tools", *tools), "tools/call": {"content": []}})

    first, second = numbered("read", "write", "drop_all"), numbered("read", "odd name.x")
    register_transport("first", lambda: first)
    register_transport("second", lambda: second)
    servers = {
        "files": {"type": "first", "prefix": "fs", "tools": ["*"], "excludeTools": ["drop_*"]},
        "more": {"type": "second", "with_prefix": True},
    }
    async with AsyncClients(servers) as clients:
        assert names(await clients.tools()) == ["fs__read", "fs__write", "more__odd-name-x", "more__read"]
        await clients.call_tool("more__odd-name-x")
        assert second.sent("tools/call")[0]["name"] == "odd name.x"
        for name in ("write", "files__write", "fs__write"):
            await clients.call_tool(name)
        assert [sent["name"] for sent in first.sent("tools/call")] == ["write"] * 3
        with pytest.raises(NotFound):
            await clients.call_tool("files__drop_all")


@scenario
async def test_a_call_by_a_name_that_is_known_lists_nothing():
    listed = {"tools/list": page("tools", "go"), "tools/call": {"content": [], "resultType": "complete"}}
    server = ScriptedServer(listed, stateless=True, acknowledges=False)
    async with AsyncClients({"one": server}, protocol_version=STATELESS) as clients:
        await clients.call_tool("go")
        before = len(server.sent("tools/list"))
        await clients.call_tool("one__go")
        await clients.call_tool("go")
        assert len(server.sent("tools/list")) == before


@scenario
async def test_prompts_resources_and_templates_are_those_of_all_servers(notes):
    async with AsyncClients({"notes": notes, "weather": weather(), "dead": DEAD}) as clients:
        prompts = {prompt.name: prompt for prompt in await clients.prompts()}
        assert set(prompts) == {"summary", "packing"}
        assert (await prompts["summary"].fetch()).text == "Summarise the notes."
        [resource] = await clients.resources()
        assert await resource.content() == "tea"
        [template] = await clients.resource_templates(refresh=True)
        assert await template.fetch(id=3) == "note 3"


# Healing.


@pytest.mark.covers("LMG-10")
@scenario
async def test_a_server_that_failed_is_tried_again_when_it_is_used_or_started(tmp_path):
    path = tmp_path / "late.py"
    servers = {"notes": [sys.executable, str(path)], "weather": weather(), "dead": DEAD}
    async with AsyncClients(servers) as clients:
        assert clients.status["notes"] == "failed"
        assert names(await clients.tools()) == ["forecast", "search"]
        path.write_text(NOTES)
        assert (await clients.call_tool("notes__search", {"text": "tea"})).text == "notes about tea"
        assert clients.status == {"notes": "ready", "weather": "ready", "dead": "failed"}
        assert set(clients.errors) == {"dead"}
        await clients["notes"].stop()
        assert clients.status["notes"] == "stopped"
        assert await clients.start() is clients
        assert clients.status["notes"] == "ready"


@scenario
async def test_a_server_that_failed_is_tried_again_for_a_tool_that_nobody_has(tmp_path):
    path = tmp_path / "late.py"
    async with AsyncClients({"notes": [sys.executable, str(path)], "weather": weather()}) as clients:
        path.write_text(NOTES)
        assert (await clients.tool("who")).server == "notes"


@scenario
async def test_a_server_that_crashed_is_back_when_tools_are_listed(notes):
    async with AsyncClients({"notes": notes}) as clients:
        with pytest.raises(ServerCrashed):
            await clients.call_tool("crash")
        assert "search" in names(await clients.tools())
        assert clients.status == {"notes": "ready"}


# Their lives.


@scenario
async def test_the_first_use_starts_and_a_group_that_was_stopped_says_so(notes):
    clients = AsyncClients({"notes": notes, "dead": DEAD})
    assert clients.status == {"notes": "new", "dead": "new"}
    assert (await clients.call_tool("search", {"text": "x"})).text == "notes about x"
    await clients.stop()
    await clients.stop()
    for use in (clients.tools(), clients.call_tool("search", {"text": "x"}), clients.prompts()):
        with pytest.raises(ConnectError, match="start\\(\\) them again"):
            await use
    async with clients:
        assert clients.status["notes"] == "ready"


@pytest.mark.covers("LMG-03", "LMG-04")
@scenario
async def test_servers_come_and_go_while_others_are_used(notes):
    async with AsyncClients({"weather": weather()}, timeout=DEADLINE) as clients:
        client = await clients.add("notes", notes, env={"WHO": "Jo"}, cwd=notes.parent)
        assert client is clients["notes"]
        assert clients.status["notes"] == "ready"
        assert (await clients.call_tool("who")).text == f"Jo in {notes.parent.name}"
        await clients.add("dead", DEAD)
        assert clients.status["dead"] == "failed"
        with pytest.raises(ServerCrashed, match="required"):
            await clients.add("needed", DEAD, required=True)
        with pytest.raises(ValueError, match="already"):
            await clients.add("notes", notes)
        with pytest.raises(TypeError, match="did you mean 'timeout'"):
            await clients.add("other", notes, tiemout=3)
        assert list(clients) == ["weather", "notes", "dead"]
        await clients.remove("notes")
        assert client.status == "stopped"
        assert "notes" not in clients
        with pytest.raises(NotFound):
            await clients.call_tool("who")
        with pytest.raises(KeyError, match="there are: weather, dead"):
            await clients.remove("notes")


@scenario
async def test_a_server_that_is_added_before_the_start_is_started_with_the_others(notes):
    clients = AsyncClients()
    await clients.add("notes", notes)
    assert clients.status == {"notes": "new"}
    async with clients:
        assert clients.status == {"notes": "ready"}


@scenario
async def test_one_server_or_all_of_them_can_be_restarted(tmp_path):
    answers = """
def answer(m):
    if m.get("method") == "initialize":
        initialized(m, tools={})
    elif "id" in m:
        error(m, -32601)
"""
    one, two = Script(tmp_path, answers, "one"), Script(tmp_path, answers, "two")
    async with AsyncClients({"one": one.command, "two": two.command, "dead": DEAD}) as clients:
        await clients.restart("one")
        assert (len(one.pids), len(two.pids)) == (2, 1)
        await clients.restart()
        assert (len(one.pids), len(two.pids)) == (3, 2)
        assert clients.status == {"one": "ready", "two": "ready", "dead": "failed"}
        with pytest.raises(ServerCrashed):
            await clients.restart("dead")
        with pytest.raises(KeyError):
            await clients.restart("three")


@scenario
async def test_a_disabled_server_is_started_by_hand_alone(notes):
    entry = {"command": sys.executable, "args": [str(notes)], "disabled": True}
    async with AsyncClients({"notes": entry, "weather": weather()}) as clients:
        assert clients.status == {"notes": "disabled", "weather": "ready"}
        assert names(await clients.tools()) == ["forecast", "search"]
        await clients["notes"].start()
        assert clients.status["notes"] == "ready"
        assert "who" in names(await clients.tools())
    assert clients.status["notes"] == "disabled"


@scenario
async def test_clients_of_ones_own_are_taken_by_their_names(notes):
    mine = AsyncClient(notes, name="mine")
    async with AsyncClients([mine, AsyncClient(weather())]) as clients:
        assert list(clients) == ["mine", "server2"]
        assert clients["mine"] is mine
        assert mine.status == "ready"
    assert mine.status == "stopped"


@pytest.mark.covers("LFW-02")
@scenario
async def test_a_web_application_has_the_clients_while_it_runs(notes):
    await serve_with(AsyncClients({"notes": notes}))


@pytest.mark.covers("LFW-02")
def test_a_web_application_may_have_blocking_clients(notes):
    asyncio.run(asyncio.wait_for(serve_with(Clients({"notes": notes})), DEADLINE))


async def serve_with(clients) -> None:
    app = FastAPI(lifespan=clients.lifespan)
    async with app.router.lifespan_context(app):
        assert clients.status == {"notes": "ready"}
    assert clients.status == {"notes": "stopped"}


# What is refused.


def test_a_group_is_a_mapping_of_names_to_clients():
    clients = AsyncClients({"a": weather(), "b": weather()})
    assert (list(clients), len(clients), "a" in clients, "c" in clients) == (["a", "b"], 2, True, False)
    assert all(isinstance(client, AsyncClient) for client in clients.values())
    assert dict(clients.items()) == {"a": clients["a"], "b": clients["b"]}
    assert clients.get("c") is None
    assert clients != AsyncClients()
    assert {clients: 1}[clients] == 1
    with pytest.raises(KeyError, match="there are: a, b"):
        clients["c"]
    assert repr(AsyncClients()) == "<AsyncClients of nothing>"


@pytest.mark.parametrize(
    ("make", "kind", "said"),
    [
        (lambda: AsyncClients({"a": Client(weather())}), TypeError, "'a' is a Client; here each must be a AsyncClient"),
        (lambda: Clients([AsyncClient(weather())]), TypeError, "must be a Client"),
        (lambda: AsyncClients([weather()]), TypeError, "has no name"),
        (lambda: AsyncClients({"a": 5}), TypeError, "cannot be pointed at"),
        (lambda: AsyncClients({}, tiemout=3), TypeError, "did you mean 'timeout'"),
        (lambda: AsyncClients({}, timeout=0), ValueError, "more than 0"),
        (lambda: AsyncClients({}, required=["a"]), KeyError, "no server 'a'"),
        (lambda: Clients([Client(weather(), name="x"), Client(weather(), name="x")]), ValueError, "another name"),
    ],
)
def test_what_makes_no_sense_is_refused_when_the_group_is_made(make, kind, said):
    with pytest.raises(kind, match=said):
        make()


@pytest.mark.covers("LMC-08")
@scenario
async def test_a_transport_that_nobody_registered_is_an_error_that_quotes_no_url():
    secret = "hunter2"
    servers = {"one": {"type": "owl", "url": f"owl://{secret}"}, "two": {"command": "x", "protocol_version": "1999"}}
    async with AsyncClients(servers) as clients:
        error = clients.errors["one"]
        assert isinstance(error, ConfigError)
        assert (error.server, error.field) == ("one", "type")
        assert secret not in str(error)
        assert "1999" in str(clients.errors["two"])


# Configuration files.

CONFIGURATION = """
  {
  "mcpServers": {
    "notes": { // a process
      "command": "${NOTES_PYTHON}", "args": ["notes.py"], "cwd": ".",
      "env": {"WHO": "${NOBODY:-Jo}"}, "timeout": 30000, "disabledTools": ["crash"],
    },
    "weather": {"type": "streamable-http", "url": "URL", "headers": {"X-Trace": "1"}},
    "secret": {"url": "https://example.com", "headers": {"Authorization": "Bearer ${NOBODY}"}},
    "off": {"command": "run", "disabled": true},
  },
}
"""


@pytest.mark.covers("LCF-03", "LMC-01", "LFW-03")
@scenario
async def test_a_configuration_file_is_all_that_is_needed(notes, tmp_path, monkeypatch):
    monkeypatch.setenv("NOTES_PYTHON", sys.executable)
    monkeypatch.chdir(tmp_path)
    with served(weather().asgi()) as url:
        (tmp_path / ".mcp.json").write_text(CONFIGURATION.replace("URL", url))
        async with AsyncClients.from_config(timeout=DEADLINE) as clients:
            assert clients.status == {"notes": "ready", "weather": "ready", "secret": "failed", "off": "disabled"}
            error = clients.errors["secret"]
            assert isinstance(error, ConfigError)
            assert (error.file, error.server, error.field) == (".mcp.json", "secret", "headers.Authorization")
            assert (await clients.call_tool("who")).text == f"Jo in {tmp_path.name}"
            assert names(await clients.tools()) == ["delete", "forecast", "notes__search", "weather__search", "who"]
            assert (await clients.call_tool("forecast", {"city": "Oslo"})).text == "rain in Oslo"


async def all_headers():
    return {"authorization": "Bearer all", "X-All": "all", "X-One": "all"}


@pytest.mark.parametrize(
    ("options", "entry", "sent"),
    [
        ({"auth": "all"}, {"auth": "${input:key}"}, {"Authorization": "Bearer one"}),
        ({"auth": "all"}, {"headers": {"Authorization": "Basic one"}}, {"Authorization": "Basic one"}),
        ({"auth": "all"}, {"headers": {"X-One": "one"}}, {"Authorization": "Bearer all", "X-One": "one"}),
        (
            {"headers": {"authorization": "all", "X-All": "all"}},
            {"headers": {"Authorization": "Basic one"}},
            {"Authorization": "Basic one", "X-All": "all"},
        ),
        (
            {"headers": all_headers},
            {"headers": {"Authorization": "Basic one", "x-one": "one"}},
            {"Authorization": "Basic one", "X-All": "all", "X-One": "one"},
        ),
        ({"headers": all_headers}, {}, {"Authorization": "Bearer all", "X-One": "all"}),
    ],
)
def test_options_of_all_servers_give_way_to_those_of_one(options, entry, sent):
    @scenario
    async def check():
        async with Web(lambda message, request: discovered(message, STATELESS)).running() as one:
            document = {"servers": {"one": {"url": one.url, **entry}}}
            async with AsyncClients.from_config(document, inputs={"key": "one"}, **options) as clients:
                assert clients.status == {"one": "ready"}
        assert {name: one.headers[0].getall(name) for name in sent} == {name: [sent[name]] for name in sent}

    check()


@scenario
async def test_variables_of_all_servers_give_way_to_those_of_one_and_these_to_what_is_added(notes):
    entry = {"command": sys.executable, "args": [str(notes)], "env": {"WHO": "one"}, "cwd": str(notes.parent)}
    here = notes.parent.name
    async with AsyncClients({"one": entry}, env={"WHO": "all"}, cwd="/") as clients:
        assert (await clients.call_tool("one__who")).text == f"one in {here}"
        await clients.add("two", entry, env={"WHO": "two"})
        assert (await clients.call_tool("two__who")).text == f"two in {here}"
        await clients.add("three", notes)
        assert (await clients.call_tool("three__who")).text == "all in "


def test_both_faces_read_the_same_file(tmp_path):
    path = tmp_path / "mcp.json"
    path.write_text(json.dumps({"servers": {"a": {"command": "x"}, "b": {"url": "https://example.com"}}}))
    assert list(Clients.from_config(path)) == list(AsyncClients.from_config(path)) == ["a", "b"]


# The blocking face.


@pytest.mark.covers("LMG-02")
def test_the_blocking_face_does_all_of_it(notes, tmp_path):
    clients = Clients({"notes": notes, "weather": weather(), "dead": DEAD})
    clients.add("hanging", HANGING, connect_timeout=1)
    with clients:
        status = clients.status
        assert status.pop("hanging") == "connecting"
        assert status == {"notes": "ready", "weather": "ready", "dead": "failed"}
        assert isinstance(clients["notes"], Client)
        assert "MY_KEY" in str(clients.errors["dead"])
        tools = {tool.qualified_name: tool for tool in clients.tools(exclude="crash")}
        assert sorted(tools) == ["delete", "forecast", "notes__search", "weather__search", "who"]
        assert isinstance(tools["notes__search"], GroupTool)
        assert (tools["notes__search"].name, tools["notes__search"].server) == ("search", "notes")
        assert tools["notes__search"](text="tea").text == "notes about tea"
        assert tools["weather__search"].call({"text": "tea"}).text == "weather of tea"
        assert clients.call_tool("forecast", {"city": "Oslo"}).text == "rain in Oslo"
        assert clients.call_tool(tools["weather__search"], {"text": "x"}).text == "weather of x"
        assert clients.tool("notes__who")().text.startswith("nobody")
        assert sorted(prompt.name for prompt in clients.prompts()) == ["packing", "summary"]
        assert clients.resources()[0].content() == "tea"
        assert clients.resource_templates()[0].fetch(id=3) == "note 3"
        added = clients.add("more", notes, env={"WHO": "Jo"})
        assert added is clients["more"]
        assert clients.call_tool("more__who").text.startswith("Jo")
        assert clients.restart("more") is clients
        clients.remove("more")
        assert added.status == "stopped"
        with pytest.raises(ServerCrashed):
            clients.restart("dead")
    assert set(clients.status.values()) == {"stopped"}
    with pytest.raises(ServerCrashed, match="required"):
        Clients({"dead": DEAD}, required=["dead"]).start()


FORKED = """
import os, sys
from dragoman import Clients

clients = Clients({"notes": sys.argv[1]}).start()
search = clients.tool("search")
child = os.fork()
if child == 0:
    assert search(text="tea").text == "notes about tea"
    assert clients.call_tool("search", {"text": "x"}).text == "notes about x"
    assert [tool.name for tool in clients.tools("who")] == ["who"]
    clients.stop()
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
assert search(text="tea").text == "notes about tea"
print(clients.status)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_a_blocking_group_works_on_both_sides_of_a_fork_and_needs_no_end(notes):
    finished = subprocess.run(
        [sys.executable, "-c", FORKED, str(notes)], capture_output=True, text=True, timeout=2 * DEADLINE
    )
    assert (finished.returncode, finished.stdout, finished.stderr) == (0, "{'notes': 'ready'}\n", "")


def test_the_asynchronous_twins_serve_what_runs_on_the_loop_of_blocking_clients(notes):
    async def use(group: AsyncClients, tool: AsyncGroupTool) -> list[str]:
        found = await group.tool("notes__who")
        return [found.server, tool.qualified_name, (await tool(text="tea")).text]

    with Clients({"notes": notes}) as clients:
        search = clients.tool("search")
        used = portal().run(use(clients.asynchronous, search.asynchronous))
        assert used == ["notes", "search", "notes about tea"]


# Both faces.


def public(face) -> set[str]:
    return {name for name in dir(face) if not name.startswith("_")}


def neutral(text) -> str:
    return str(text).replace("Async", "").replace("await ", "")


def test_both_faces_have_the_same_names():
    assert public(Clients) - {"asynchronous"} == public(AsyncClients)


@pytest.mark.parametrize("name", sorted(public(AsyncClients)))
def test_both_faces_have_the_same_parameters_and_documentation(name):
    one, other = inspect.getattr_static(AsyncClients, name), inspect.getattr_static(Clients, name)
    assert inspect.getdoc(other)
    assert neutral(inspect.getdoc(one)) == neutral(inspect.getdoc(other))
    if isinstance(one, classmethod):
        one, other = one.__func__, other.__func__
    if inspect.isfunction(one):
        assert not inspect.iscoroutinefunction(other)
        assert neutral(inspect.signature(one)) == neutral(inspect.signature(other))


@pytest.mark.parametrize("name", ["server", "qualified_name"])
def test_the_tools_of_both_faces_say_the_same_of_themselves(name):
    assert inspect.getdoc(getattr(AsyncGroupTool, name)) == inspect.getdoc(getattr(GroupTool, name))


def test_both_faces_are_made_in_the_same_way():
    assert str(inspect.signature(AsyncClients)).replace("Async", "") == str(inspect.signature(Clients))


@pytest.mark.covers("CSR-07")
@scenario
async def test_a_server_of_a_group_asks_under_the_name_that_it_has_in_the_group():
    server = Server("the other bank")
    asked = []

    @server.tool
    async def pay(ctx: Context) -> str:
        return (await ctx.elicit("Your PIN?", {"type": "object", "properties": {}})).action

    def ask(request):
        asked.append(request.server)

    def approve(call):
        asked.append(call.server)
        return True

    async with AsyncClients({"bank": server}, on_elicitation=ask, on_approval=approve) as clients:
        assert (await clients.call_tool("pay")).text == "cancel"
        assert clients["bank"].server_name == "bank"
    assert asked == ["bank", "bank"]
