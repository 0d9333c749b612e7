"""Which connection to the target a call of a proxy uses: shared, unless that would mix what must stay apart."""

import asyncio
import gc

import pytest

from dragoman import AsyncClient, Configuration, Context, Server
from dragoman.errors import DefinitionError, RpcError, TransportError
from ports import free_port
from scenarios.proxied_server import HANDSHAKE, STATELESS
from scenarios.raw_http import serving

DEADLINE = 60


def counting(version=HANDSHAKE):
    """Return a server that tells its connections apart."""
    server = Server("counting", configuration=Configuration(protocol_version=version))
    server.sessions = []

    @server.tool
    async def session(ctx: Context) -> int:
        kept = ctx._call.session
        if kept not in server.sessions:
            server.sessions.append(kept)
        return server.sessions.index(kept)

    @server.tool
    async def seen(ctx: Context) -> dict[str, object]:
        capabilities = ctx.client.capabilities
        return {"name": ctx.client.info.name, "elicits": capabilities.elicitation is not None}

    @server.tool
    async def ask(ctx: Context) -> str:
        return (await ctx.elicit("Who?", str)).content

    return server


def by_header(request):
    return request.headers.get("X-User")


async def asked(request):
    return {"value": "Ada"}


async def test_clients_that_cannot_be_asked_share_a_connection_and_those_that_can_have_their_own():
    proxy = Server.proxy(counting())
    async with proxy.serving():
        async with AsyncClient(proxy, mode="handshake") as one, AsyncClient(proxy, mode="handshake") as two:
            numbers = [(await client.call_tool("session")).structured for client in (one, two, one)]
        assert numbers == [0, 0, 0]
        open_clients = [AsyncClient(proxy, mode="handshake", on_elicitation=asked) for _ in range(2)]
        numbers = [(await client.call_tool("session")).structured for client in (*open_clients, open_clients[0])]
        assert numbers == [1, 2, 1]
        for client in open_clients:
            await client.stop()


async def test_a_stateless_target_has_one_connection_and_sees_each_client_as_it_is():
    target = counting(STATELESS)
    proxy = Server.proxy(target)
    async with proxy.serving():
        plain = AsyncClient(proxy, name="plain", mode="stateless")
        asking = AsyncClient(proxy, name="asking", mode="stateless", on_elicitation=asked)
        assert (await plain.call_tool("seen")).structured == {"name": "plain", "elicits": False}
        assert (await asking.call_tool("seen")).structured == {"name": "asking", "elicits": True}
        assert (await plain.call_tool("session")).structured == (await asking.call_tool("session")).structured
        await plain.stop()
        await asking.stop()


async def test_a_question_goes_to_the_client_whose_call_caused_it():
    async with serving(Server.proxy(counting()).asgi()) as url:
        names = [f"client {number}" for number in range(4)]
        clients = [
            AsyncClient(url, mode=mode, on_elicitation=lambda _, name=name: {"value": name})
            for name, mode in zip(names, ["stateless", "handshake"] * 2, strict=True)
        ]
        calls = [client.call_tool("ask") for client in clients for _ in range(3)]
        answers = [result.text for result in await asyncio.gather(*calls)]
        assert answers == [name for name in names for _ in range(3)]
        for client in clients:
            await client.stop()


@pytest.mark.parametrize(("isolate", "shared"), [(None, True), ("principal", False)])
async def test_principals_share_connections_unless_they_are_isolated(isolate, shared):
    async with (
        serving(counting().asgi()) as target,
        serving(Server.proxy(target, isolate=isolate).asgi(auth=by_header)) as url,
    ):
        numbers = {}
        for given in ("a", "b", "a"):
            async with AsyncClient(url, headers={"X-User": given}, mode="handshake") as client:
                numbers.setdefault(given, set()).add((await client.call_tool("session")).structured)
        assert {len(found) for found in numbers.values()} == {1}
        assert (numbers["a"] == numbers["b"]) is shared


async def test_sessions_have_their_own_connections_if_they_are_isolated():
    proxy = Server.proxy(counting(), isolate="session")
    async with proxy.serving(), AsyncClient(proxy, mode="handshake") as one, AsyncClient(proxy) as two:
        assert (await one.call_tool("session")).structured == 0
        assert (await two.call_tool("session")).structured == 1
        assert (await one.call_tool("session")).structured == 0


async def test_the_connection_of_a_session_ends_with_the_session():
    ended = asyncio.Event()
    target = counting()

    @target.lifespan
    async def noting():
        yield
        ended.set()

    proxy = Server.proxy(target)
    async with proxy.serving():
        async with AsyncClient(proxy, mode="handshake", on_elicitation=asked) as client:
            await client.call_tool("session")
        del client
        async with asyncio.timeout(DEADLINE):
            while not ended.is_set():
                gc.collect()
                await asyncio.sleep(0)


async def test_beyond_the_limit_the_connection_that_was_idle_longest_is_closed():
    proxy = Server.proxy(counting(), max_connections=2)
    async with proxy.serving():
        clients = [AsyncClient(proxy, mode="handshake", on_elicitation=asked) for _ in range(3)]
        for client in clients:
            assert (await client.call_tool("ask")).text == "Ada"
        assert (await clients[0].call_tool("ask")).text == "Ada"
        for client in clients:
            await client.stop()


async def test_a_call_waits_while_every_connection_is_in_use():
    asking, may_answer = asyncio.Event(), asyncio.Event()

    async def slowly(request):
        asking.set()
        await may_answer.wait()
        return {"value": "late"}

    proxy = Server.proxy(counting(), max_connections=1)
    async with proxy.serving(), asyncio.timeout(DEADLINE):
        slow = AsyncClient(proxy, mode="handshake", on_elicitation=slowly)
        quick = AsyncClient(proxy, mode="handshake", on_elicitation=asked)
        first = asyncio.create_task(slow.call_tool("ask"))
        await asking.wait()
        second = asyncio.create_task(quick.call_tool("ask"))
        await asyncio.sleep(0.05)
        assert not second.done()
        may_answer.set()
        assert ((await first).text, (await second).text) == ("late", "Ada")
        await slow.stop()
        await quick.stop()


@pytest.mark.parametrize("limit", [1, 2])
async def test_more_clients_than_connections_are_all_served(limit):
    modes = ["handshake", "stateless", "handshake", "stateless"]
    async with serving(Server.proxy(counting(None), max_connections=limit).asgi()) as url:
        clients = [AsyncClient(url, mode=mode, on_elicitation=asked) for mode in modes]
        async with asyncio.timeout(DEADLINE):
            results = await asyncio.gather(*(client.call_tool("seen") for client in clients for _ in range(5)))
        assert [result.structured["elicits"] for result in results] == [True] * 20
        for client in clients:
            await client.stop()


def showing_credentials():
    """Return a server over HTTP that says which `Authorization` it got."""
    server = Server("inner")

    @server.tool
    async def authorization(ctx: Context) -> str:
        return ctx.headers.get("Authorization", "none")

    return server


async def exchanged(given):
    return f"{given} exchanged"


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, "none"),
        ({"auth": "own"}, "Bearer own"),
        ({"forward_credentials": True}, "Bearer a"),
        ({"forward_credentials": exchanged}, "Bearer a exchanged"),
    ],
)
@pytest.mark.parametrize("mode", ["handshake", "stateless"])
async def test_the_credentials_of_a_caller_reach_the_target_only_if_that_is_said(mode, options, expected):
    async with (
        serving(showing_credentials().asgi()) as inner,
        serving(Server.proxy(inner, **options).asgi()) as outer,
        AsyncClient(outer, auth="a", mode=mode) as client,
    ):
        assert (await client.call_tool("authorization")).text == expected


@pytest.mark.parametrize("mode", ["handshake", "stateless"])
async def test_the_credentials_of_each_call_are_forwarded_when_a_client_renews_them(mode):
    tokens = ["old"]
    async with (
        serving(showing_credentials().asgi()) as inner,
        serving(Server.proxy(inner, forward_credentials=True).asgi()) as outer,
        AsyncClient(outer, headers={"Authorization": lambda: f"Bearer {tokens[-1]}"}, mode=mode) as client,
    ):
        assert (await client.call_tool("authorization")).text == "Bearer old"
        tokens.append("new")
        assert (await client.call_tool("authorization")).text == "Bearer new"


async def test_stateless_calls_that_can_be_asked_have_connections_of_their_own_also_from_one_client():
    target = counting()
    both = asyncio.Barrier(2)

    @target.tool
    async def meet(ctx: Context) -> int:
        await both.wait()
        return id(ctx._call.session)

    async with AsyncClient(Server.proxy(target), mode="stateless", on_elicitation=asked) as client:
        async with asyncio.timeout(DEADLINE):
            one, two = await asyncio.gather(client.call_tool("meet"), client.call_tool("meet"))
        assert one.structured != two.structured


def test_a_process_gets_no_credentials():
    with pytest.raises(DefinitionError, match="needs a target with a URL"):
        Server.proxy(["server"], forward_credentials=True)


@pytest.mark.parametrize(
    ("target", "options", "message"),
    [
        (7, {}, "A proxy needs a URL, a command"),
        (["server"], {"isolate": "user"}, 'isolate must be "principal", "session" or None'),
        (["server"], {"max_connections": 0}, "max_connections must be a whole number"),
        (["server"], {"max_connections_per_principal": 0}, "max_connections_per_principal must be from 1"),
        (["server"], {"max_connections_per_principal": 101}, "max_connections_per_principal must be from 1"),
    ],
)
def test_a_proxy_that_cannot_be_is_refused(target, options, message):
    with pytest.raises(DefinitionError, match=message):
        Server.proxy(target, **options)


@pytest.mark.parametrize("mode", ["handshake", "stateless"])
async def test_a_proxy_to_itself_is_an_error_and_not_an_endless_loop(mode):
    port = free_port()
    proxy = Server.proxy(f"http://127.0.0.1:{port}/mcp", name="mirror")
    running = asyncio.create_task(proxy.run_async("http", port=port))
    try:
        async with asyncio.timeout(DEADLINE):
            while not running.done():
                client = AsyncClient(f"http://127.0.0.1:{port}/mcp", mode=mode)
                refused = ""
                try:
                    await client.call_tool("any")
                except RpcError as error:
                    refused = str(error)
                except TransportError:  # it does not listen yet
                    await asyncio.sleep(0.02)
                finally:
                    await client.stop()
                if refused:
                    break
        assert "leads back to itself" in refused
    finally:
        running.cancel()
        await asyncio.wait([running])
