"""`ctx.user_state` and `ctx.session_state`, whatever carries the request and whatever the handler is."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from dragoman import BlockingContext, Context, DefinitionError, Server
from dragoman.errors import StoreFull
from dragoman.stores import Local, Memory, Redis, StoreLimits
from dragoman.testing import WirePeer, connected
from redis_store import fresh
from scenarios.http_peer import NEWEST, SECRET, STATELESS, HttpPeer
from scenarios.wire import HANDSHAKE_VERSIONS

TOOLS = ["later", "in_thread", "in_place"]


def counting(**options: Any) -> Server:
    """A server whose tools count, for the user or in the session."""
    server = Server("counting", **{"store": Memory(), "secret": SECRET} | options)

    @server.tool
    async def later(what: str, ctx: Context) -> int:
        state = ctx.user_state if what == "user" else ctx.session_state
        assert await state.get("nothing", int) is None
        return await state.update("n", lambda n: (n or 0) + 1)

    @server.tool
    def in_thread(what: str, ctx: BlockingContext) -> int:
        state = ctx.user_state if what == "user" else ctx.session_state
        assert state.get("nothing", int, 5) == 5
        state.set("copy", state.update("n", lambda n: (n or 0) + 1), ttl=60)
        assert state.delete("nothing") is False
        copied: int = state.get("copy", int) or 0
        return copied

    @server.tool(inline=True)
    def in_place(what: str, ctx: BlockingContext) -> int:
        state = ctx.user_state if what == "user" else ctx.session_state
        return state.update("n", lambda n: (n or 0) + 1, int)

    return server


def by_header(request: Any) -> str | None:
    return request.headers.get("authorization")


class User(HttpPeer):
    """A client that says who it is."""

    def __init__(self, app: Any, name: str, version: str = NEWEST) -> None:
        super().__init__(app, version)
        self.name = name

    def send(self, method: str = "POST", body: Any = b"", headers: Any = None, **options: Any) -> Any:
        return super().send(method, body, {"authorization": self.name} | (headers or {}), **options)


async def counted(peer: HttpPeer, tool: str = "later", what: str = "user") -> Any:
    result = (await peer.call(tool, {"what": what}).end()).json["result"]
    return result.get("structuredContent", {}).get("result", result["content"][0]["text"])


@pytest.mark.covers("STA-01")
async def test_the_values_of_a_principal_are_the_same_in_every_era_and_session_and_its_own():
    app = counting().asgi(auth=by_header)
    ann, other, modern, bob = User(app, "ann"), User(app, "ann"), User(app, "ann", STATELESS), User(app, "bob")
    for peer in (ann, other, bob):
        await peer.initialize()
    numbers = [await counted(peer, tool) for peer in (ann, other, modern) for tool in TOOLS]
    assert numbers == list(range(1, 10))
    assert await counted(bob) == 1
    await app.close()


@pytest.mark.covers("STA-01")
async def test_a_state_key_says_whose_values_they_are():
    server = counting(state_key=lambda ctx: ctx.headers["x-tenant"])
    app = server.asgi(auth=by_header)

    class Tenant(User):
        def send(self, method: str = "POST", body: Any = b"", headers: Any = None, **options: Any) -> Any:
            return super().send(method, body, {"x-tenant": "acme"} | (headers or {}), **options)

    assert [await counted(Tenant(app, name, STATELESS)) for name in ("ann", "bob")] == [1, 2]
    await app.close()


@pytest.mark.covers("STA-01")
@pytest.mark.parametrize("era", [*HANDSHAKE_VERSIONS, "stateless", "none"])
@pytest.mark.parametrize("tool", TOOLS)
async def test_with_a_state_key_every_carrier_has_user_state(era, tool):
    server = counting(state_key=lambda ctx: f"somebody with {ctx.method}")
    call = {"name": tool, "arguments": {"what": "user"}}
    async with WirePeer(server, era) as peer:
        assert (await peer.request("tools/call", call))["result"]["content"][0]["text"] == "1"
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call}
    answer = await server.handle_async(message)
    assert answer["result"]["content"][0]["text"] == "2"
    reply = await server.handle_http_async(
        "POST", {"content-type": "application/json", "accept": "application/json"}, json.dumps(message)
    )
    assert '"text":"3"' in reply.body.decode()


@pytest.mark.covers("STA-02")
@pytest.mark.parametrize("version", HANDSHAKE_VERSIONS)
async def test_the_values_of_a_connection_end_with_it(version):
    server = counting()
    for _ in range(2):
        async with WirePeer(server, version) as peer:
            for number, tool in enumerate(TOOLS, 1):
                answer = await peer.request("tools/call", {"name": tool, "arguments": {"what": "session"}})
                assert answer["result"]["content"][0]["text"] == str(number)


@pytest.mark.covers("STA-02")
async def test_the_values_of_a_session_over_http_are_its_own():
    app = counting().asgi()
    one, other = HttpPeer(app), HttpPeer(app)
    for peer in (one, other):
        await peer.initialize()
    assert [await counted(one, tool, "session") for tool in TOOLS] == [1, 2, 3]
    assert await counted(other, what="session") == 1
    await app.close()


@asynccontextmanager
async def logged(caplog: Any) -> AsyncIterator[list[str]]:
    found: list[str] = []
    yield found
    found += [str(record.exc_info[1]) for record in caplog.records if record.exc_info]


@pytest.mark.covers("STA-04")
@pytest.mark.parametrize("tool", TOOLS)
async def test_nobody_knows_whose_values_they_are_without_a_principal(tool, caplog):
    server = counting()
    async with connected(server, "stateless") as client, logged(caplog) as errors:
        result = await client.call_tool(tool, {"what": "user"}, raise_on_error=False)
        assert result.is_error
    (error,) = errors
    assert error == (
        "ctx.user_state needs to know whose values they are, and this request has no principal: give auth= to asgi()"
        " or run('http'), or a function Server(state_key=...)"
    )


@pytest.mark.covers("STA-04")
@pytest.mark.parametrize("tool", TOOLS)
async def test_without_a_session_there_is_no_session_state(tool, caplog):
    server = counting()
    async with connected(server, "stateless") as client, logged(caplog) as errors:
        await client.call_tool(tool, {"what": "session"}, raise_on_error=False)
    app = server.asgi(stateless=True)
    async with logged(caplog) as others:
        await HttpPeer(app, NEWEST).call(tool, {"what": "session"}, headers={"mcp-protocol-version": NEWEST}).end()
    assert errors == ["Protocol version 2026-07-28 has no sessions, and so no session_state: use user_state"]
    assert others[-1] == "The request came without a session, and so without session_state: use user_state"
    await app.close()


@pytest.mark.covers("STA-04")
@pytest.mark.parametrize("owner", ["", " ", None, 7])
async def test_a_state_key_that_returns_no_text_is_an_error(owner, caplog):
    async with connected(counting(state_key=lambda ctx: owner)) as client, logged(caplog) as errors:
        await client.call_tool("later", {"what": "user"}, raise_on_error=False)
    assert errors == [f"state_key must return a text that is not empty, not {owner!r}"]


def test_a_state_key_is_a_function():
    with pytest.raises(DefinitionError, match="state_key must be a function of the Context that returns a text"):
        Server(state_key="ann")  # type: ignore[arg-type]


@pytest.mark.covers("STA-01")
async def test_equal_names_of_a_principal_and_of_a_state_key_are_not_one_user():
    store = Memory()
    by_principal, by_key = counting(store=store), counting(store=store, state_key=lambda ctx: "ann")
    apps = [by_principal.asgi(auth=by_header), by_key.asgi()]
    assert await counted(User(apps[0], "ann", STATELESS)) == 1
    assert await counted(User(apps[1], "ann", STATELESS)) == 1
    for app in apps:
        await app.close()


@pytest.mark.covers("STA-05")
async def test_an_inline_handler_with_a_store_that_must_be_waited_for_is_told_so(tmp_path, caplog):
    server = counting(store=Local(tmp_path), state_key=lambda ctx: "ann")
    async with connected(server) as client, logged(caplog) as errors:
        assert (await client.call_tool("later", {"what": "user"})).text == "1"
        await client.call_tool("in_place", {"what": "user"}, raise_on_error=False)
        assert (await client.call_tool("in_thread", {"what": "user"})).text == "2"
    assert errors == ["An inline handler cannot wait; make it an `async def`, or not inline"]
    await server.store.close()


OTHER_SECRET = "another secret that is long enough"


@pytest.mark.parametrize(
    ("engine", "tool"), [("memory", "in_place"), ("memory", "later"), ("local", "in_thread"), ("redis", "later")]
)
async def test_values_of_another_secret_are_an_error_and_stay(engine, tool, tmp_path, redis_server, caplog):
    stores = {"memory": Memory, "local": lambda: Local(tmp_path), "redis": lambda: Redis(redis_server.url)}
    store, owner = stores[engine](), fresh()
    known = counting(store=store, state_key=lambda ctx: owner)
    mistaken = counting(store=store, state_key=lambda ctx: owner, secret=OTHER_SECRET)
    rotated = counting(store=store, state_key=lambda ctx: owner, secret=[OTHER_SECRET, SECRET])
    call = ("tools/call", {"name": tool, "arguments": {"what": "user"}})
    async with WirePeer(known) as peer, WirePeer(mistaken) as stranger, WirePeer(rotated) as successor:
        first = (await peer.request(*call))["result"]
        for _ in range(3):
            refused = (await stranger.request(*call))["result"]
            assert refused["isError"] is True
        assert "Give the server the secret with which it was written, Server(secret=[new, old])" in caplog.text
        assert caplog.text.count("The store has data that this server cannot decrypt") == 1
        later = [(await one.request(*call))["result"]["structuredContent"] for one in (peer, successor)]
        assert [first["structuredContent"], *later] == [{"result": 1}, {"result": 2}, {"result": 3}]
    await store.close()


@pytest.mark.parametrize("engine", ["memory", "local", "redis"])
@pytest.mark.parametrize("what", ["user", "session"])
async def test_bytes_of_a_caller_are_limited(engine, what, tmp_path, redis_server):
    limits = StoreLimits(state_bytes=250_000, state_bytes_per_caller=100_000)
    stores = {
        "memory": lambda: Memory(limits=limits),
        "local": lambda: Local(tmp_path, limits=limits),
        "redis": lambda: Redis(redis_server.url, limits=limits),
    }
    server = Server(fresh(), secret=SECRET, store=stores[engine]())

    @server.tool
    async def keep(ctx: Context, key: str, size: int) -> str:
        state = ctx.user_state if what == "user" else ctx.session_state
        try:
            await state.set(key, "x" * size)
        except StoreFull as error:
            return str(error)
        return "kept"

    async def kept(peer: HttpPeer, key: str, size: int = 40_000) -> str:
        result = (await peer.request("tools/call", {"name": "keep", "arguments": {"key": key, "size": size}})).json
        return result["result"]["content"][0]["text"]

    app = server.asgi(auth=by_header)
    ann, again, ben, cid = (User(app, name) for name in ("ann", "ann", "ben", "cid"))
    for peer in (ann, again, ben, cid):
        await peer.initialize()
    assert [await kept(ann, key) for key in "ab"] == ["kept", "kept"]
    assert await kept(again, "c") == "The store has no room for this: a caller may keep 100000 bytes of it"
    assert await kept(ann, "a", 10_000) == "kept"
    assert await kept(again, "c") == "kept"
    assert [await kept(ben, key) for key in "ab"] == ["kept", "kept"]
    assert [await kept(cid, key) for key in "ab"] == [
        "kept",
        "The store has no room for this: the server may keep 250000 bytes of it",
    ]
    await app.close()
    await server.store.close()
