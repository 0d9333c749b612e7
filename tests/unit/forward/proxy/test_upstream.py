"""What passes over a connection of a proxy, and what happens when the target goes away and comes back."""

import asyncio
import contextlib
import json
import sys
import textwrap

import pytest

from dragoman import AsyncClient, Configuration, Context, Server
from dragoman.errors import RpcError
from scenarios.proxied_restart import call_while_the_target_is_killed
from scenarios.proxied_server import ERAS, Heard, everything
from scenarios.raw_http import serving

DEADLINE = 60
ODD = {
    "content": [{"type": "hologram", "voxels": [1.0, 1e2, 12345678901234567890]}, {"type": "text", "text": "\u2028é"}],
    "structuredContent": {"b": 1, "a": None},
    "x-unknown": {"deep": [{"kept": True}]},
}
PROGRAM = """
    import json, sys

    for line in sys.stdin:
        message = json.loads(line)
        method, id = message["method"], message.get("id")
        if id is None:
            continue
        if method == "initialize":
            info = {"name": "odd", "version": "1", "x-info": 1}
            capabilities = {"tools": {"x-more": 1}, "x-capability": {}}
            result = {"protocolVersion": message["params"]["protocolVersion"], "capabilities": capabilities,
                      "serverInfo": info, "x-result": [1]}
        elif method == "tools/call" and message["params"]["name"] == "end":
            sys.exit(1)
        elif method == "tools/call" and message["params"]["name"] == "echo":
            params = {key: value for key, value in message["params"].items()}
            result = {"content": [], "structuredContent": params}
        elif method == "tools/call":
            result = json.loads(sys.argv[1])
        else:
            error = {"code": -31999, "message": "No such thing", "data": {"method": method, "x": [1.0]}}
            print(json.dumps({"jsonrpc": "2.0", "id": id, "error": error}), flush=True)
            continue
        print(json.dumps({"jsonrpc": "2.0", "id": id, "result": result}), flush=True)
"""


@pytest.fixture
def odd(tmp_path):
    program = tmp_path / "odd.py"
    program.write_text(textwrap.dedent(PROGRAM))
    return [sys.executable, str(program), json.dumps(ODD)]


class RawPeer:
    """A client that sends what a test writes, and shows each answer as it comes."""

    def __init__(self, server):
        self.answers = asyncio.Queue()
        self.connection = server.connect(self.answers.put_nowait)

    async def request(self, method, params):
        message = {"jsonrpc": "2.0", "id": method, "method": method, "params": params}
        self.connection.receive(json.dumps(message).encode() + b"\n")
        async with asyncio.timeout(DEADLINE):
            return json.loads(await self.answers.get())

    async def begin(self, version="2025-06-18"):
        info = {"name": "raw", "version": "1"}
        params = {"protocolVersion": version, "capabilities": {}, "clientInfo": info}
        return await self.request("initialize", params)


@contextlib.asynccontextmanager
async def raw_peer(server):
    async with server.serving():
        peer = RawPeer(server)
        try:
            yield peer
        finally:
            peer.connection.close()


async def test_what_no_version_defines_passes_as_it_is(odd):
    async with raw_peer(Server.proxy(odd)) as peer:
        begun = (await peer.begin())["result"]
        assert begun["protocolVersion"] == "2025-06-18"
        assert (begun["serverInfo"], begun["x-result"]) == ({"name": "odd", "version": "1", "x-info": 1}, [1])
        assert begun["capabilities"] == {"tools": {"x-more": 1}, "x-capability": {}}
        assert (await peer.request("tools/call", {"name": "any", "arguments": {}}))["result"] == ODD
        sent = {
            "name": "echo",
            "arguments": {"a": 1.50, "b": None},
            "x-param": [1],
            "_meta": {"com.example/x": {"y": 1}},
        }
        assert (await peer.request("tools/call", sent))["result"]["structuredContent"] == sent
        error = (await peer.request("acme/unknown", {"a": 1}))["error"]
        assert error == {"code": -31999, "message": "No such thing", "data": {"method": "acme/unknown", "x": [1.0]}}


async def test_a_name_of_its_own_replaces_the_name_of_the_target(odd):
    async with raw_peer(Server.proxy(odd, name="front")) as peer:
        assert (await peer.begin())["result"]["serverInfo"]["name"] == "front"
    for mode in ERAS:
        async with AsyncClient(Server.proxy(everything(), name="front"), mode=mode) as client:
            assert client.server_info.name == "front"
            result = await client.call_tool("add", {"a": 1, "b": 2})
            assert (result.meta or {}).get("io.modelcontextprotocol/serverInfo", {"name": "front"})["name"] == "front"


async def test_a_process_that_ended_is_an_error_for_the_call_and_started_again_for_the_next(odd):
    async with raw_peer(Server.proxy(odd)) as peer:
        await peer.begin()
        lost = (await peer.request("tools/call", {"name": "end", "arguments": {}}))["error"]
        assert lost["message"].endswith("was lost during the request, which may have been served")
        assert (await peer.request("tools/call", {"name": "any", "arguments": {}}))["result"] == ODD


async def test_a_target_that_cannot_be_started_is_a_clear_error_without_its_secrets(caplog):
    proxy = Server.proxy(["/no/such/program", "--token=secret"], name="front")
    async with raw_peer(proxy) as peer:
        error = (await peer.begin())["error"]
        assert error["message"] == "The server behind the proxy 'front' cannot be reached; try again later"
    assert "no/such/program" in caplog.text


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("target_era", ERAS)
async def test_a_call_that_the_client_cancels_is_cancelled_at_the_target(era, target_era):
    server = Server("slow", configuration=Configuration(protocol_version=ERAS[target_era]))
    began, cancelled = asyncio.Event(), asyncio.Event()

    @server.tool
    async def wait() -> str:
        began.set()
        try:
            return str(await asyncio.Event().wait())
        finally:
            cancelled.set()

    async with (
        serving(server.asgi()) as target,
        serving(Server.proxy(target).asgi()) as url,
        AsyncClient(url, mode=era) as client,
        asyncio.timeout(DEADLINE),
    ):
        call = asyncio.create_task(client.call_tool("wait"))
        await began.wait()
        call.cancel()
        await cancelled.wait()
        with pytest.raises(asyncio.CancelledError):
            await call


CHANGING = """
    import os, sys
    from dragoman import Server

    server = Server("changing")

    @server.tool
    async def end() -> str:
        os._exit(1)

    if os.path.exists(sys.argv[1]):
        @server.tool
        async def added() -> str:
            return "added"

    server.run()
"""


async def test_a_session_hears_that_lists_may_have_changed_after_the_target_was_replaced(tmp_path):
    program, flag, heard = tmp_path / "changing.py", tmp_path / "flag", Heard()
    program.write_text(textwrap.dedent(CHANGING))
    proxy = Server.proxy([sys.executable, str(program), str(flag)])
    async with proxy.serving(), asyncio.timeout(DEADLINE):
        client = heard.client(proxy, mode="handshake")
        assert [tool.name for tool in await client.tools()] == ["end"]
        flag.touch()
        with pytest.raises(RpcError, match="was lost"):
            await client.call_tool("end")
        while await heard.changes.get() != "tools":
            pass
        assert [tool.name for tool in await client.tools()] == ["end", "added"]
        assert (await client.call_tool("added")).text == "added"
        await client.stop()


ROOTED = """
    import json, sys

    def say(**message):
        print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)

    for line in sys.stdin:
        message = json.loads(line)
        method = message.get("method")
        if method == "initialize":
            version = message["params"]["protocolVersion"]
            info = {"name": "rooted", "version": "1"}
            say(id=message["id"], result={"protocolVersion": version, "capabilities": {}, "serverInfo": info})
        elif method == "notifications/roots/list_changed":
            say(id="question", method="roots/list")
        elif message.get("id") == "question":
            uris = [root["uri"] for root in message["result"]["roots"]]
            say(method="notifications/message", params={"level": "info", "data": uris})
"""


@pytest.mark.parametrize("front", ["memory", "http"])
async def test_a_question_between_calls_goes_to_the_session_that_has_the_connection(front, tmp_path):
    program, logs = tmp_path / "rooted.py", asyncio.Queue()
    program.write_text(textwrap.dedent(ROOTED))
    proxy = Server.proxy([sys.executable, str(program)])
    options = {"mode": "handshake", "roots": ["file:///a"], "on_log": lambda message: logs.put_nowait(message.data)}
    async with contextlib.AsyncExitStack() as stack, asyncio.timeout(DEADLINE):
        where = proxy if front == "memory" else await stack.enter_async_context(serving(proxy.asgi()))
        client = await stack.enter_async_context(AsyncClient(where, **options))
        client.roots.add("file:///b")
        assert await logs.get() == ["file:///a", "file:///b"]


async def test_logs_that_belong_to_no_call_are_not_shown_to_several_people():
    target = Server("target", configuration=Configuration(protocol_version=ERAS["handshake"]))

    @target.tool
    async def log(ctx: Context) -> str:
        await ctx.warning("mine")
        return "logged"

    heard = {"ada": Heard(), "bo": Heard()}
    async with (
        serving(target.asgi()) as inner,
        serving(Server.proxy(inner).asgi(auth=lambda request: request.headers.get("X-User"))) as url,
    ):
        clients = [
            AsyncClient(
                url,
                headers={"X-User": name},
                mode="handshake",
                on_log=lambda message, one=one: one.logs.append(message.data),
            )
            for name, one in heard.items()
        ]
        for client in clients:
            await client.start()
        target.log("warning", "about somebody")
        for client in clients:
            await client.call_tool("log")
        for client in clients:
            await client.stop()
    assert [one.logs for one in heard.values()] == [["mine"], ["mine"]]


@pytest.mark.parametrize("carriers", [("asgi", "stdio"), ("http", "stdio"), ("http", "http")])
async def test_a_target_that_is_killed_while_many_call_it_loses_and_doubles_nothing(carriers, tmp_path):
    await call_while_the_target_is_killed(tmp_path, clients=20, kills=2, carriers=carriers)
