"""Defaults of the process for clients: `dragoman.configure(roots=..., on_sampling=...)`."""

import asyncio
from pathlib import Path

import pytest

import dragoman
from dragoman import AsyncClient, AsyncClients, Client, Context, DefinitionError, Server, ToolError
from dragoman.config import PROCESS

DEADLINE = 60


@pytest.fixture(autouse=True)
def _restored(monkeypatch):
    monkeypatch.setattr(PROCESS, "client_options", {})


@pytest.fixture
def server():
    server = Server("asking", secret="a secret of sixteen")

    @server.tool
    async def ask(ctx: Context) -> str:
        await ctx.report_progress(1, 2, "asking")
        await ctx.warning("asking")
        roots = await ctx.list_roots()
        name = (await ctx.elicit("Who?", str)).content
        return f"{len(roots)} {name} {(await ctx.sample('Write')).text}"

    return server


@pytest.mark.covers("LNT-08")
@pytest.mark.parametrize("mode", ["handshake", "stateless"])
@pytest.mark.parametrize("kind", ["async", "blocking", "group"])
async def test_clients_have_the_defaults_of_the_process(server, mode, kind, tmp_path):
    progress, logs, approvals = [], [], []
    dragoman.configure(
        roots=iter([tmp_path, "/srv"]),
        on_sampling=lambda request: "a poem",
        on_elicitation=lambda request: {"value": "Ada"},
        on_approval=lambda call: approvals.append(call.name) or True,
        on_progress=lambda *report: progress.append(report),
        on_log=lambda message: logs.append(message.data),
        log_level="warning",
    )
    async with asyncio.timeout(DEADLINE):
        for _ in range(2):
            if kind == "async":
                async with AsyncClient(server, mode=mode) as client:
                    text = (await client.call_tool("ask")).text
            elif kind == "group":
                async with AsyncClients({"one": server}, mode=mode) as clients:
                    (tool,) = await clients.tools()
                    text = (await tool.call({})).text
            else:
                text = await asyncio.to_thread(call_blocking, server, mode)
            assert text == "2 Ada a poem"
    assert approvals == ["ask", "ask"]
    assert progress[0] == (1, 2, "asking")
    assert logs[0] == "asking"


def call_blocking(server: Server, mode: str) -> str:
    with Client(server, mode=mode) as client:
        return client.call_tool("ask").text


async def test_options_of_a_client_override_the_defaults(server, tmp_path):
    dragoman.configure(roots=[tmp_path], on_sampling=lambda request: "a poem", on_elicitation=lambda request: None)
    options = {"roots": (), "on_sampling": lambda request: "a song", "on_elicitation": None}
    async with asyncio.timeout(DEADLINE), AsyncClient(server, mode="handshake", **options) as client:
        assert client.roots.paths == []
        with pytest.raises(ToolError, match="roots"):
            await client.call_tool("ask")
        capabilities = client._session.handlers.capabilities()
        assert capabilities.elicitation is not None  # None means the default
        assert capabilities.roots is None
    hidden = {"capabilities": {"sampling": False}}
    async with asyncio.timeout(DEADLINE), AsyncClient(server, mode="handshake", **hidden) as client:
        assert client._session.handlers.capabilities().sampling is None


async def test_none_resets_a_default(server):
    dragoman.configure(roots=["/srv"])
    assert AsyncClient(server).roots.paths == [Path("/srv")]
    dragoman.configure(roots=None)
    assert AsyncClient(server).roots.paths == []


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"on_samplin": len}, "There is no option 'on_samplin'; there are .*on_sampling"),
        ({"on_log": 7}, "on_log must be callable, not 7"),
    ],
)
def test_mistakes_are_refused_and_change_nothing(options, message):
    with pytest.raises(DefinitionError, match=message):
        dragoman.configure(roots=["/srv"], **options)
    assert PROCESS.client_options == {}


def test_defaults_of_clients_do_not_concern_servers():
    with pytest.raises(TypeError):
        dragoman.Configuration(on_sampling=len)
