"""A client: options that make sense, its life, and handlers that are set later."""

import inspect
from pathlib import Path

import pytest

from dragoman import AsyncClient, Client, DragomanError, RpcError, Server, types
from dragoman.client.options import ClientOptions
from scenarios.http_peer import scenario
from scenarios.scripted_server import ScriptedServer

ROOT = Path(__file__).resolve().parents[3]


def test_every_option_is_documented():
    source = Path(inspect.getfile(ClientOptions)).read_text(encoding="utf-8")
    lines = [line.strip() for line in source[source.index("class ClientOptions") :].splitlines()]
    for name in ClientOptions.__annotations__:
        place = next(index for index, line in enumerate(lines) if line.startswith(f"{name}: "))
        assert lines[place + 1].startswith('"""'), name


@pytest.mark.covers("LMC-08")
@pytest.mark.parametrize(
    ("options", "error", "said"),
    [
        ({"tiemout": 3}, TypeError, "no option 'tiemout'; did you mean 'timeout'"),
        ({"zzz": 3}, TypeError, "no option 'zzz'$"),
        ({"timeout": 0}, ValueError, "timeout must be more than 0"),
        ({"total_timeout": -1}, ValueError, "total_timeout must be more than 0"),
        ({"max_pages": 0}, ValueError, "max_pages must be more than 0"),
        ({"max_pages": "3"}, TypeError, "max_pages must be an integer"),
        ({"log_level": "loud"}, ValueError, "no log level 'loud'; there are debug, info"),
        ({"on_log": "print"}, TypeError, "on_log must be a function"),
        ({"mode": "old"}, ValueError, "mode must be"),
        ({"protocol_version": "1999-01-01"}, ValueError, "1999-01-01"),
        ({"auth": 3}, TypeError, "auth must be a bearer token"),
        ({"transport": "pigeon"}, ValueError, "no transport 'pigeon'"),
    ],
)
@pytest.mark.parametrize("face", [AsyncClient, Client])
def test_options_that_make_no_sense_are_refused_at_once(face, options, error, said):
    with pytest.raises(error, match=said):
        face("http://localhost:1/mcp", **options)


def test_what_is_no_target_is_refused_at_once():
    with pytest.raises(TypeError, match="cannot connect to 3"):
        Client(3)


@scenario
async def test_a_client_says_who_it_is():
    server = ScriptedServer()
    async with AsyncClient(server, name="mine", version="7"):
        pass
    assert server.sent("initialize")[0]["clientInfo"] == {"name": "mine", "version": "7"}


@pytest.mark.covers("LML-01", "LML-02")
@scenario
async def test_a_client_starts_once_and_stops_and_starts_again():
    server = ScriptedServer()
    client = AsyncClient(server)
    assert (client.status, client.alive) == ("new", False)
    assert await client.start() is client
    await client.start()
    assert (client.status, client.alive, server.opened) == ("ready", True, 1)
    await client.stop()
    await client.stop()
    assert (client.status, client.alive) == ("stopped", False)
    with pytest.raises(DragomanError, match=r"start\(\) it again"):
        await client.tools()
    await client.restart()
    assert (client.status, server.opened) == ("ready", 2)
    await client.stop()


@scenario
async def test_the_first_request_starts_a_client():
    client = AsyncClient(Server("x"))
    assert await client.ping()
    assert client.status == "ready"
    await client.stop()


@pytest.mark.covers("LML-06")
@pytest.mark.parametrize("stateless", [True, False])
@scenario
async def test_a_ping_tells_whether_the_server_answers(stateless):
    server = ScriptedServer(stateless=stateless)
    async with AsyncClient(server) as client:
        assert await client.ping()
        server.answers["server/discover" if stateless else "ping"] = RpcError(-32603, "ill")
        assert await client.ping() is False
    assert await client.ping() is False


@scenario
async def test_handlers_that_are_told_may_be_set_at_any_time():
    server = ScriptedServer({"tools/call": {"content": []}})
    async with AsyncClient(server) as client:
        assert client.on_notification is None
        seen = []
        client.on_notification = seen.append
        server.say("notifications/x", {"a": 1})
        await client.call_tool("t")
        assert seen[0].params == {"a": 1}
        with pytest.raises(TypeError, match="on_notification must be a function"):
            client.on_notification = 3
        client.on_notification = None
        server.say("notifications/x", {"a": 2})
        await client.call_tool("t")
        assert len(seen) == 1


@pytest.mark.parametrize("name", ["on_sampling", "on_elicitation"])
@scenario
async def test_a_handler_that_carries_a_capability_is_set_before_a_handshake(name):
    server = ScriptedServer()
    client = AsyncClient(server)
    setattr(client, name, lambda request: None)
    await client.start()
    capability = name.removeprefix("on_")
    assert capability in server.sent("initialize")[0]["capabilities"]
    with pytest.raises(DragomanError, match=f"{name} cannot be set while the client is connected"):
        setattr(client, name, None)
    await client.stop()
    setattr(client, name, None)
    await client.start()
    assert capability not in server.sent("initialize")[1]["capabilities"]
    await client.stop()


@scenario
async def test_a_handler_that_is_set_later_is_declared_from_then_on_in_the_stateless_era():
    server = ScriptedServer({"tools/call": {"content": []}}, stateless=True)
    async with AsyncClient(server) as client:
        await client.call_tool("t")
        client.on_elicitation = lambda request: None
        assert client.on_elicitation is not None
        await client.call_tool("t")
    declared = [sent["_meta"][types.CLIENT_CAPABILITIES] for sent in server.sent("tools/call")]
    assert "elicitation" not in declared[0]
    assert "elicitation" in declared[1]


@pytest.mark.covers("HIL-02")
@scenario
async def test_approval_is_asked_for_set_and_taken_away_at_any_time():
    asked = []
    server = ScriptedServer({"tools/call": {"content": []}})
    async with AsyncClient(server) as client:
        client.on_approval = lambda call: asked.append((call.name, call.arguments, call.server)) or True
        await client.call_tool("t", {"a": 1})
        client.on_approval = None
        await client.call_tool("t")
    assert asked == [("t", {"a": 1}, "scripted")]


@scenario
async def test_a_method_of_the_servers_own_can_be_asked_for():
    async with AsyncClient(ScriptedServer({"acme/add": lambda params: {"sum": params["a"] + 1}})) as client:
        assert await client.request("acme/add", {"a": 1}) == {"sum": 2}
        with pytest.raises(RpcError, match="There is no acme/sub"):
            await client.request("acme/sub")


@pytest.mark.covers("BEY-17")
@scenario
async def test_the_roots_of_a_client_are_told_of_when_they_change(tmp_path):
    server = ScriptedServer()
    async with AsyncClient(server, roots=[tmp_path]) as client:
        assert client.roots.paths == [tmp_path]
        client.roots.add(tmp_path / "more")
        await server.until(lambda: server.sent("notifications/roots/list_changed"))
