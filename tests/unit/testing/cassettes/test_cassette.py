"""Cassettes: a conversation is recorded once, on every carrier, and played back without the server."""

import json

import pytest

from dragoman import AsyncClient, Client, Context, RpcError, Server, ToolError
from dragoman.compose.session_file import SessionWriter
from dragoman.errors import SessionFileError
from dragoman.testing import cassette
from dragoman.testing.cassettes import cassette as cassettes
from dragoman.testing.cassettes.cassette import session_messages, write_cassette
from scenarios.raw_http import serving


def shop(calls):
    server = Server("shop")

    @server.tool
    async def greet(name: str, ctx: Context) -> dict[str, str]:
        calls.append(name)
        await ctx.report_progress(1, 2)
        return {"hello": name, "api_key": "k-000000001"}

    @server.tool
    async def ask(ctx: Context) -> str:
        calls.append("ask")
        return (await ctx.elicit("Who?", {"type": "object", "properties": {"name": {"type": "string"}}})).content[
            "name"
        ]

    @server.tool
    async def fail() -> str:
        raise ToolError("no luck")

    return server


async def converse(target, mode):
    progress = []
    async with AsyncClient(target, mode=mode, on_elicitation=lambda request: {"name": "Ada"}) as client:
        names = [tool.name for tool in await client.tools()]
        result = await client.call_tool("greet", {"name": "Bo"}, on_progress=lambda *given: progress.append(given))
        asked = await client.call_tool("ask")
        failed = await client.call_tool("fail", raise_on_error=False)
    return names, result.structured["hello"], progress, asked.text, failed.text


@pytest.mark.parametrize("mode", ["handshake", "stateless", "auto"])
@pytest.mark.parametrize("carrier", ["memory", "http"])
async def test_what_was_recorded_is_played_back_without_the_server(tmp_path, mode, carrier):
    path, calls = tmp_path / "shop.jsonl", []
    server = shop(calls)
    if carrier == "memory":
        with cassette(path, server) as tape:
            assert tape.is_recording
            recorded = await converse(tape, mode)
    else:
        async with serving(server.asgi()) as url:
            with cassette(path, url) as tape:
                recorded = await converse(tape, mode)
    seen = list(calls)
    for order in ("recorded", "any"):
        with cassette(path, server, order=order) as tape:
            assert not tape.is_recording
            assert await converse(tape, mode) == recorded
    assert calls == seen
    assert "k-000000001" not in path.read_text()
    await cassette(path).check(
        shop([]), ignore=("serverInfo", "api_key", "text", "requestState", "id", "inputRequests")
    )


def test_a_request_that_is_not_recorded_fails_the_block_and_shows_the_closest(tmp_path):
    path = tmp_path / "shop.jsonl"
    with cassette(path, shop([])) as tape, Client(tape) as client:
        client.call_tool("greet", {"name": "Bo"})
    tape = cassette(path)
    with Client(tape) as client, pytest.raises(RpcError, match="is not on the cassette"):
        client.call_tool("greet", {"name": "Al"})
    with pytest.raises(AssertionError, match='"Bo"'), tape:
        pass


def test_without_a_file_and_a_target_there_is_nothing_to_play(tmp_path):
    with pytest.raises(SessionFileError, match="record it again"):
        cassette(tmp_path / "missing.jsonl")
    with pytest.raises(SessionFileError, match="record it again"):
        cassette(tmp_path / "missing.jsonl", shop([]), record="none")


def test_recording_anew_replaces_the_file(tmp_path, monkeypatch):
    path = tmp_path / "shop.jsonl"
    path.write_text("old")
    with cassette(path, shop([]), record="all") as tape, Client(tape) as client:
        client.call_tool("greet", {"name": "Bo"})
    assert "Bo" in path.read_text()
    monkeypatch.setattr(cassettes, "is_recording", True)
    with cassette(path, shop([])) as tape, Client(tape) as client:
        client.call_tool("greet", {"name": "Cy"})
    assert "Cy" in path.read_text()
    assert "Bo" not in path.read_text()


def test_a_recording_that_failed_is_not_kept(tmp_path):
    path = tmp_path / "shop.jsonl"
    with pytest.raises(RuntimeError, match="stop"), cassette(path, shop([])):
        raise RuntimeError("stop")
    assert not path.exists()


async def test_a_cassette_is_made_of_a_session_file(tmp_path):
    session, path = tmp_path / "x.mcpsession", tmp_path / "x.jsonl"
    ping, pong = {"jsonrpc": "2.0", "id": 1, "method": "ping"}, {"jsonrpc": "2.0", "id": 1, "result": {"x": 1}}
    with SessionWriter(session) as writer:
        writer.write("client", "message", json.dumps(ping).encode())
        writer.write("server", "stderr", b"hello")
        writer.write("server", "message", json.dumps([pong]).encode())
    write_cassette(path, session_messages(session))
    received = []
    tape = cassette(path)
    await tape.open(received.append, print)
    await tape.send(json.dumps({**ping, "id": 8}).encode())
    assert json.loads(received[0]) == {**pong, "id": 8}
    await tape.close()


def test_a_session_file_with_a_message_that_was_cut_makes_no_cassette(tmp_path):
    session = tmp_path / "x.mcpsession"
    with SessionWriter(session, max_data_bytes=5) as writer:
        writer.write("client", "message", b'{"jsonrpc":"2.0","id":1,"method":"ping"}')
    with pytest.raises(SessionFileError, match="was cut"):
        session_messages(session)


@pytest.mark.parametrize("mode", ["handshake", "stateless"])
async def test_secrets_that_the_client_sends_are_masked_and_played_back(tmp_path, mode):
    server, path = Server("vault"), tmp_path / "vault.jsonl"
    schema = {"type": "object", "properties": {"password": {"type": "string"}}}

    @server.tool
    async def unlock(api_key: str, ctx: Context) -> str:
        return str(len((await ctx.elicit("Password?", schema)).content["password"]))

    asked = []

    async def answer(request):
        asked.append(request.message)
        return {"password": "hunter22"}

    for _ in range(2):
        with cassette(path, server) as tape:
            async with AsyncClient(tape, mode=mode, on_elicitation=answer) as client:
                assert (await client.call_tool("unlock", {"api_key": "k-000000001"})).text == "8"
    assert asked == ["Password?", "Password?"]
    assert "hunter22" not in path.read_text()
    assert "k-000000001" not in path.read_text()


@pytest.mark.parametrize("mode", ["handshake", "stateless"])
async def test_tasks_are_played_back_however_often_the_client_polls(tmp_path, mode):
    server, path = Server("kitchen"), tmp_path / "kitchen.jsonl"

    @server.tool(task=True)
    async def bake(what: str, ctx: Context) -> str:
        await ctx.report_progress(1, 2, "kneading")
        return f"{what} with {(await ctx.elicit('What?', str)).content}"

    for _ in range(2):
        with cassette(path, server) as tape:
            async with AsyncClient(tape, mode=mode, tasks=True, on_elicitation=lambda _: {"value": "salt"}) as client:
                assert (await client.call_tool("bake", {"what": "bread"})).text == "bread with salt"
                assert (await client.call_tool("bake", {"what": "pie"})).text == "pie with salt"


def test_bodies_of_a_login_are_no_messages_of_a_cassette(tmp_path):
    path = tmp_path / "shop.mcpsession"
    with SessionWriter(path) as writer:
        writer.write("client", "message", b'{"client_name": "x"}')
        writer.write("server", "message", b'{"issuer": "https://login.example.com"}')
        writer.write("client", "message", b'{"jsonrpc":"2.0","id":1,"method":"ping"}')
    assert [message["method"] for _, message in session_messages(path)] == ["ping"]
