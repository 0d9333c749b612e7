"""The servers of a group: started, stopped, added, removed, restarted, and refused."""

import asyncio
import sys

import pytest
from fastapi import FastAPI

from dragoman import (
    AsyncClient,
    AsyncClients,
    Client,
    Clients,
    ConnectError,
    Context,
    NotFound,
    Server,
    ServerCrashed,
)
from scenarios.client_peer import DEADLINE, Script, until
from scenarios.group_servers import DEAD, names, weather


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


@pytest.mark.covers("LMG-05")
async def test_concurrent_first_uses_find_the_tools_of_every_server(notes):
    clients = AsyncClients({"notes": notes, "weather": weather()})
    first = asyncio.ensure_future(clients.tools())
    await until(lambda: clients.status["notes"] == "connecting")
    tools, call, tool, prompts = await asyncio.gather(
        clients.tools(),
        clients.call_tool("notes__search", {"text": "tea"}),
        clients.tool("notes__who"),
        clients.prompts(),
    )
    expected = ["crash", "delete", "forecast", "notes__search", "weather__search", "who"]
    assert names(await first) == names(tools) == expected
    assert (call.text, tool.server, len(prompts)) == ("notes about tea", "notes", 2)
    await clients.stop()


@pytest.mark.covers("LMG-03", "LMG-04")
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


async def test_a_server_that_is_added_before_the_start_is_started_with_the_others(notes):
    clients = AsyncClients()
    await clients.add("notes", notes)
    assert clients.status == {"notes": "new"}
    async with clients:
        assert clients.status == {"notes": "ready"}


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


async def test_a_disabled_server_is_started_by_hand_alone(notes):
    entry = {"command": sys.executable, "args": [str(notes)], "disabled": True}
    async with AsyncClients({"notes": entry, "weather": weather()}) as clients:
        assert clients.status == {"notes": "disabled", "weather": "ready"}
        assert names(await clients.tools()) == ["forecast", "search"]
        await clients["notes"].start()
        assert clients.status["notes"] == "ready"
        assert "who" in names(await clients.tools())
    assert clients.status["notes"] == "disabled"


async def test_clients_of_ones_own_are_taken_by_their_names(notes):
    mine = AsyncClient(notes, name="mine")
    async with AsyncClients([mine, AsyncClient(weather())]) as clients:
        assert list(clients) == ["mine", "server2"]
        assert clients["mine"] is mine
        assert mine.status == "ready"
    assert mine.status == "stopped"


@pytest.mark.covers("LFW-02")
@pytest.mark.parametrize("kind", [AsyncClients, Clients])
async def test_a_web_application_has_the_clients_while_it_runs(kind):
    clients = kind({"notes": weather()})
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
        (lambda: AsyncClients({"a": 5}), TypeError, "cannot connect to"),
        (lambda: AsyncClients({}, tiemout=3), TypeError, "did you mean 'timeout'"),  # type: ignore[call-arg]
        (lambda: AsyncClients({}, timeout=0), ValueError, "more than 0"),
        (lambda: AsyncClients({}, required=["a"]), KeyError, "no server 'a'"),
        (lambda: Clients([Client(weather(), name="x"), Client(weather(), name="x")]), ValueError, "another name"),
    ],
)
def test_what_makes_no_sense_is_refused_when_the_group_is_made(make, kind, said):
    with pytest.raises(kind, match=said):
        make()


@pytest.mark.covers("CSR-07")
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
