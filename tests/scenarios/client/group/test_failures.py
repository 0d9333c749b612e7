"""A group whose servers fail, hang, come late, crash or want credentials: the others are used all the same."""

import asyncio
import sys

import pytest
from aiohttp import web

from dragoman import (
    AsyncClients,
    AuthRequired,
    ConfigError,
    ConnectError,
    NotFound,
    RpcError,
    ServerCrashed,
    Timeout,
    TransportError,
)
from scenarios.client_peer import DEADLINE, Script, Web, until
from scenarios.group_servers import DEAD, HANGING, LATE, NOTES, closed_port, names, weather
from scenarios.scripted_server import ScriptedServer, page


@pytest.mark.covers("LMG-01", "LMG-02", "LMG-07")
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
        kinds = {"dead": ServerCrashed, "refused": ConnectError, "hanging": Timeout, "wrong": ConfigError}
        assert {name: type(error) for name, error in errors.items()} == kinds
        assert "MY_KEY is not set" in str(errors["dead"])
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
async def test_nobody_waits_for_a_slow_server_and_it_comes_when_it_can(tmp_path):
    slow = Script(tmp_path, LATE, "late")
    async with AsyncClients({"slow": slow.command, "weather": weather()}, connect_timeout=1) as clients:
        assert clients.status == {"slow": "connecting", "weather": "ready"}
        assert names(await clients.tools()) == ["forecast", "search"]
        (tmp_path / "late.jsonl.now").touch()
        await until(lambda: clients.status["slow"] == "ready")
        assert clients.errors == {}
        assert names(await clients.tools()) == ["forecast", "late", "search"]


@pytest.mark.covers("LMG-08")
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
async def test_nobody_waits_for_a_required_server_longer_than_its_time():
    began = asyncio.get_running_loop().time()
    with pytest.raises(Timeout, match="'hanging' is required"):
        await AsyncClients({"hanging": HANGING}, required=["hanging"], connect_timeout=0.5).start()
    assert asyncio.get_running_loop().time() - began < 10


@pytest.mark.covers("LMG-09")
async def test_a_required_server_that_fails_is_raised_after_the_others_were_closed(notes):
    clients = AsyncClients({"notes": notes, "dead": DEAD}, required=["dead"])
    with pytest.raises(ServerCrashed, match=r"(?s)'dead' is required, and cannot be used: .*MY_KEY") as caught:
        await clients.start()
    assert caught.value.exit_code == 1
    assert clients.status == {"notes": "stopped", "dead": "stopped"}


async def test_a_required_server_that_fails_later_is_raised_by_start_and_the_others_stay(notes):
    async with AsyncClients({"notes": notes, "weather": weather()}, required=["notes"]) as clients:
        await clients["notes"].stop()
        notes.write_text("raise SystemExit(5)")
        with pytest.raises(ServerCrashed, match="'notes' is required"):
            await clients.start()
        assert clients.status == {"notes": "failed", "weather": "ready"}


async def test_a_required_server_that_is_misconfigured_is_raised_with_its_place(notes):
    servers = {"notes": notes, "wrong": {"command": "${NOBODY_SET_THIS}", "required": True}}
    with pytest.raises(ConfigError, match="server 'wrong', command"):
        async with AsyncClients(servers):
            pytest.fail("it must not start")


async def test_a_required_server_whose_headers_cannot_be_made_is_raised(notes):
    def broken():
        raise LookupError("no token")

    clients = AsyncClients({"web": closed_port()}, headers=broken, required=["web"])
    with pytest.raises(ConnectError, match="no token"):
        await clients.start()


async def test_a_required_server_is_waited_for_longer_than_others(tmp_path):
    slow = Script(tmp_path, LATE, "late")
    clients = AsyncClients({"slow": slow.command}, required=["slow"])
    starting = asyncio.ensure_future(clients.start())
    await until(lambda: slow.pids)
    (tmp_path / "late.jsonl.now").touch()
    assert (await asyncio.wait_for(starting, DEADLINE)).status == {"slow": "ready"}
    await clients.stop()


async def test_a_server_that_wants_credentials_has_another_status_than_one_that_failed():
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
        with pytest.raises(NotFound, match=r"the tools of these servers are not known now: locked \(needs_auth\)$"):
            await clients.tool("locked__nothing")
        assert len(locked.received) > asked


async def test_a_list_that_cannot_be_had_harms_no_other(caplog):
    odd = ScriptedServer({"tools/list": RpcError(-32603, "out of order")})
    async with AsyncClients({"odd": odd, "weather": weather()}) as clients:
        assert names(await clients.tools()) == ["forecast", "search"]
        assert "out of order" in str(clients.errors["odd"])
        assert "tools of the server 'odd' cannot be listed" in caplog.text
        odd.answers["tools/list"] = page("tools", "mended")
        assert names(await clients.tools()) == ["forecast", "mended", "search"]
        assert clients.errors == {}


async def test_a_start_that_is_cancelled_leaves_nothing_behind(notes):
    clients = AsyncClients({"notes": notes, "hanging": HANGING})
    starting = asyncio.ensure_future(clients.start())
    await until(lambda: clients.status["notes"] == "ready")
    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting
    assert set(clients.status.values()) == {"stopped"}


@pytest.mark.parametrize("turns", range(8))
async def test_a_start_that_is_cancelled_at_any_moment_leaves_nothing_behind(turns):
    clients = AsyncClients({"weather": weather(), "hanging": HANGING})
    starting = asyncio.ensure_future(clients.start())
    for _ in range(turns):
        await asyncio.sleep(0)
    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting
    assert set(clients.status.values()) <= {"new", "stopped"}


async def test_a_group_may_be_stopped_while_it_starts(notes):
    clients = AsyncClients({"notes": notes, "hanging": HANGING}, required=["hanging"])
    starting = asyncio.ensure_future(clients.start())
    await until(lambda: clients.status["notes"] == "ready")
    await clients.stop()
    with pytest.raises(ConnectError, match="was stopped"):
        await starting
    assert set(clients.status.values()) == {"stopped"}


@pytest.mark.covers("LMG-10")
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


async def test_a_server_that_failed_is_tried_again_for_a_tool_that_nobody_has(tmp_path):
    path = tmp_path / "late.py"
    async with AsyncClients({"notes": [sys.executable, str(path)], "weather": weather()}) as clients:
        path.write_text(NOTES)
        assert (await clients.tool("who")).server == "notes"


async def test_a_server_that_crashed_is_back_when_tools_are_listed(notes):
    async with AsyncClients({"notes": notes}) as clients:
        with pytest.raises(ServerCrashed):
            await clients.call_tool("crash")
        assert "search" in names(await clients.tools())
        assert clients.status == {"notes": "ready"}


@pytest.mark.covers("LMG-05")
async def test_listing_waits_for_a_server_that_restarts_after_a_crash(notes):
    async with AsyncClients({"notes": notes, "weather": weather()}) as clients:
        tools = names(await clients.tools())
        with pytest.raises(ServerCrashed):
            await clients.call_tool("crash")
        await until(lambda: clients.status["notes"] == "connecting")
        assert names(await clients.tools()) == tools
        assert (await clients.call_tool("notes__search", {"text": "tea"})).text == "notes about tea"


async def test_listings_together_wait_for_a_slow_server_once():
    loop = asyncio.get_running_loop()
    clients = AsyncClients({"hanging": HANGING, "weather": weather()}, connect_timeout=2)
    began = loop.time()
    for listing in (asyncio.gather(clients.tools(), clients.tools()), asyncio.gather(clients.tools(), clients.tools())):
        assert [names(tools) for tools in await listing] == [["forecast", "search"]] * 2
    assert loop.time() - began < 3.9
    await clients.stop()


async def test_listing_raises_if_a_required_server_stops_the_start(notes):
    clients = AsyncClients({"notes": notes, "dead": DEAD}, required=["dead"])
    errors = await asyncio.gather(*(clients.tools() for _ in range(4)), return_exceptions=True)
    assert [isinstance(error, TransportError) for error in errors] == [True] * 4
