"""The headers of a client: fixed, given anew for each request, for one call, and those that mirror the request."""

import asyncio
import base64
import threading
from contextvars import ContextVar

import pytest

from dragoman import AsyncClient, Client, Server
from dragoman.client.connect.credentials import Credentials
from dragoman.errors import HeaderMismatch
from scenarios.http_peer import DEADLINE, SECRET, serve
from scenarios.raw_http import STATELESS, answering, classic, fine, modern, refusal, reply, result, serving

user: ContextVar[str] = ContextVar("user", default="nobody")


def schema(**properties) -> dict:
    return {"type": "object", "properties": properties}


def client_of(server, **options) -> AsyncClient:
    return AsyncClient(server.url, mode="stateless", **options)


# Whose they are.


@pytest.mark.covers("CHT-03")
async def test_fixed_headers_go_with_every_request(era):
    async with answering((modern if era == "stateless" else classic)(fine)) as server:
        async with AsyncClient(server.url, mode=era, headers={"X-Team": "blue"}, auth="token") as client:
            await client.call_tool("any")
        assert {one.headers["x-team"] for one in server.requests} == {"blue"}
        assert {tuple(one.all_headers["authorization"]) for one in server.requests} == {("Bearer token",)}


@pytest.mark.covers("CHT-03")
async def test_accept_may_be_said_otherwise_and_what_the_protocol_says_may_not():
    given = {"accept": "application/json", "content-type": "text/plain", "mcp-protocol-version": "1999-12-31"}
    async with answering(modern(fine)) as server:
        async with client_of(server, headers=given) as client:
            await client.call_tool("any")
        call = server.sent("tools/call")[0]
    assert call.all_headers["accept"] == ["application/json"]
    assert call.all_headers["content-type"] == ["application/json"]
    assert call.all_headers["mcp-protocol-version"] == [STATELESS]


@pytest.mark.covers("CHT-26")
@pytest.mark.parametrize("is_async", [True, False])
@pytest.mark.parametrize("what", ["one header", "all headers", "token"])
async def test_functions_give_headers_anew_and_see_the_context_of_the_caller(is_async, what):
    def mapping() -> dict[str, str]:
        return {"Authorization": f"Bearer {user.get()}"}

    def given(function):
        async def later():
            await asyncio.sleep(0)
            return function()

        return later if is_async else function

    options = {
        "one header": {"headers": {"Authorization": given(user.get), "X-Fixed": "1"}},
        "all headers": {"headers": given(mapping)},
        "token": {"auth": given(user.get), "headers": {"X-Fixed": "1"}},
    }[what]

    async def call(client: AsyncClient, name: str) -> None:
        user.set(name)
        await client.call_tool(name)

    async with answering(modern(fine)) as server:
        async with client_of(server, **options) as client:
            async with asyncio.timeout(DEADLINE):
                await asyncio.gather(*(call(client, name) for name in ("ada", "bob", "eve")))
        sent = {one.json["params"]["name"]: one.headers["authorization"] for one in server.sent("tools/call")}
    assert {name: said.removeprefix("Bearer ") for name, said in sent.items()} == {n: n for n in ("ada", "bob", "eve")}


@pytest.mark.covers("CHT-26")
@pytest.mark.parametrize("is_async", [True, False])
def test_functions_see_the_context_of_the_thread_that_calls_a_blocking_client(is_async):
    async def later() -> str:
        return user.get()

    loop = asyncio.new_event_loop()
    ready, end = threading.Event(), asyncio.Event()
    servers = []

    async def serve_until_told() -> None:
        async with answering(modern(fine)) as server:
            servers.append(server)
            ready.set()
            await asyncio.wait_for(end.wait(), 2 * DEADLINE)

    thread = threading.Thread(target=loop.run_until_complete, args=(serve_until_told(),), daemon=True)
    thread.start()
    assert ready.wait(DEADLINE)
    try:
        with Client(servers[0].url, mode="stateless", headers={"X-User": later if is_async else user.get}) as client:

            def call(name: str) -> None:
                user.set(name)
                client.call_tool(name)

            threads = [threading.Thread(target=call, args=(name,)) for name in ("ada", "bob")]
            for one in threads:
                one.start()
            for one in threads:
                one.join(DEADLINE)
    finally:
        loop.call_soon_threadsafe(end.set)
        thread.join(DEADLINE)
        loop.close()
    sent = {one.json["params"]["name"]: one.headers["x-user"] for one in servers[0].sent("tools/call")}
    assert sent == {"ada": "ada", "bob": "bob"}


@pytest.mark.covers("CHT-27")
async def test_headers_of_one_call_replace_those_of_the_client_for_that_call_alone():
    async with answering(modern(fine)) as server:
        async with client_of(server, auth="mine") as client:
            await client.call_tool("one", headers={"authorization": "Bearer yours", "X-Trace": "7"})
            await client.call_tool("two")
        one, two = server.sent("tools/call")
    assert (one.all_headers["authorization"], one.headers["x-trace"]) == (["Bearer yours"], "7")
    assert two.all_headers["authorization"] == ["Bearer mine"]
    assert "x-trace" not in two.headers


@pytest.mark.covers("CHT-27")
@pytest.mark.parametrize("given", [{"authorization": "old"}, lambda: {"authorization": "old"}])
@pytest.mark.parametrize("auth", ["new", lambda: "new"])
async def test_a_header_in_two_spellings_is_sent_once(given, auth):
    async with answering(modern(fine)) as server:
        async with client_of(server, headers=given, auth=auth) as client:
            await client.call_tool("any", headers={"X-A": "1", "x-a": "2"})
        call = server.sent("tools/call")[0]
    assert call.all_headers["authorization"] == ["Bearer new"]
    assert call.all_headers["x-a"] == ["2"]


@pytest.mark.covers("CHT-26")
async def test_what_a_function_raises_is_raised_by_the_call_and_nothing_is_sent():
    failing = []

    def token() -> str:
        if failing:
            raise LookupError("nobody is logged in")
        return "token"

    async with answering(modern(fine)) as server:
        async with client_of(server, auth=token) as client:
            failing.append(True)
            with pytest.raises(LookupError, match="nobody is logged in"):
                await client.call_tool("any")
            failing.clear()
            await client.call_tool("any")
        assert len(server.sent("tools/call")) == 1


@pytest.mark.covers("CHT-26")
@pytest.mark.parametrize(
    ("headers", "problem"),
    [
        ({"Authorization": lambda: None}, "The header Authorization must be a text, not NoneType"),
        (lambda: {"X-Number": 7}, "The header X-Number must be a text, not int"),
        (lambda: None, "must give a mapping"),
        ({"X-Token": None}, "X-Token must be a text, not NoneType"),
    ],
)
async def test_what_is_no_header_is_said_so(headers, problem):
    with pytest.raises(TypeError, match=problem):
        await Credentials(headers).own_headers()


# What mirrors the request.


@pytest.mark.covers("CHT-12", "BEY-03", "BEY-04")
async def test_requests_name_their_method_and_what_they_are_about():
    async def script(request, writer):
        if request.method == "resources/read":
            return reply(200, result(request, {"contents": [], "resultType": "complete"}))
        return await fine(request, writer)

    names = {"plain": "plain", "zoë": None, "=?base64?eA==?=": None}
    async with answering(modern(script, capabilities={"tools": {}, "resources": {}})) as server:
        async with client_of(server) as client:
            for name in names:
                await client.call_tool(name)
            await client.read_resource("file:///a b")
        *calls, read = [one for one in server.requests if one.method in ("tools/call", "resources/read")]
    for call, (name, plain) in zip(calls, names.items(), strict=True):
        wrapped = f"=?base64?{base64.b64encode(name.encode()).decode()}?="
        assert call.headers["mcp-name"] == (plain or wrapped)
        assert call.headers["mcp-method"] == "tools/call"
        assert call.headers["mcp-protocol-version"] == STATELESS
    assert (read.headers["mcp-method"], read.headers["mcp-name"]) == ("resources/read", "file:///a b")


@pytest.mark.covers("CHT-13")
async def test_arguments_that_a_tool_mirrors_become_headers():
    properties = {
        "region": {"type": "string", "x-mcp-header": "Region"},
        "count": {"type": "integer", "x-mcp-header": "Count"},
        "dry": {"type": "boolean", "x-mcp-header": "Dry"},
        "absent": {"type": "string", "x-mcp-header": "Absent"},
        "plain": {"type": "string"},
    }
    tools = [{"name": "deploy", "inputSchema": schema(**properties)}]
    async with answering(modern(fine, tools=tools)) as server:
        async with client_of(server) as client:
            await client.tools()
            await client.call_tool("deploy", {"region": "Köln", "count": 3, "dry": False, "plain": "x"})
        sent = server.sent("tools/call")[0].headers
    assert sent["mcp-param-region"] == f"=?base64?{base64.b64encode('Köln'.encode()).decode()}?="
    assert (sent["mcp-param-count"], sent["mcp-param-dry"]) == ("3", "false")
    assert not [name for name in sent if name.startswith("mcp-param-") and name[10:] not in ("region", "count", "dry")]


@pytest.mark.covers("CHT-28", "BEY-07")
async def test_a_mismatch_makes_the_client_look_the_tool_up_and_try_once_more():
    async def script(request, writer):
        if request.headers.get("mcp-param-region") != "eu":
            return reply(400, refusal(request.id, -32020, "The header Mcp-Param-Region is missing"))
        return await fine(request, writer)

    tools = [{"name": "deploy", "inputSchema": schema(region={"type": "string", "x-mcp-header": "Region"})}]
    async with answering(modern(script, tools=tools)) as server:
        async with client_of(server) as client:
            assert (await client.call_tool("deploy", {"region": "eu"})).text == "done"
            with pytest.raises(HeaderMismatch):
                await client.call_tool("deploy", {"region": "us"})
        methods = [one.method for one in server.requests]
    tried = ["tools/call", "tools/list", "tools/call"]
    assert methods == ["server/discover", *tried, *tried]


@pytest.mark.covers("CHT-28", "BEY-07")
async def test_our_server_is_satisfied_by_what_the_client_mirrors():
    server = Server("regional", secret=SECRET)

    @server.tool(input_schema=schema(region={"type": "string", "x-mcp-header": "Region"}))
    async def deploy(region: str) -> str:
        return f"deployed to {region}"

    async with serving(serve(server)) as url, AsyncClient(url, mode="stateless") as client:
        assert (await client.call_tool("deploy", {"region": "zürich"})).text == "deployed to zürich"
        assert (await client.call_tool("deploy", {"region": "eu"})).text == "deployed to eu"


@pytest.mark.covers("CHT-14")
async def test_a_tool_that_mirrors_what_no_header_carries_is_left_out_with_a_warning(era, caplog):
    tools = [
        {"name": "good", "inputSchema": schema(a={"type": "string", "x-mcp-header": "A"})},
        {"name": "empty", "inputSchema": schema(a={"type": "string", "x-mcp-header": ""})},
        {"name": "spaced", "inputSchema": schema(a={"type": "string", "x-mcp-header": "a b"})},
        {"name": "number", "inputSchema": schema(a={"type": "number", "x-mcp-header": "A"})},
    ]

    async def listing(request, writer):
        return reply(200, result(request, {"tools": tools}))

    script = modern(listing, tools=tools) if era == "stateless" else classic(listing)
    async with answering(script) as server, AsyncClient(server.url, mode=era) as client:
        names = [tool.name for tool in await client.tools()]
    assert names == (["good"] if era == "stateless" else ["good", "empty", "spaced", "number"])
    assert ("'spaced' was left out" in caplog.text) == (era == "stateless")
