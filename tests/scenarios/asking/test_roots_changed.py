"""Functions of `on_roots_changed`: they take a context, and ask the client for its new roots."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

import pytest

from dragoman import AsyncClient, BlockingContext, Configuration, Context, DefinitionError, Server
from dragoman.testing import WirePeer
from scenarios.raw_http import serving

DEADLINE = 60
CARRIERS = pytest.mark.parametrize("carrier", ["memory", "http"])


@contextlib.asynccontextmanager
async def connected(server: Server, carrier: str) -> AsyncIterator[AsyncClient]:
    async with contextlib.AsyncExitStack() as stack:
        target = server if carrier == "memory" else await stack.enter_async_context(serving(server.asgi()))
        options = {"mode": "handshake", "roots": ["file:///first"]}
        yield await stack.enter_async_context(AsyncClient(target, **options))


@CARRIERS
@pytest.mark.parametrize("kind", ["async", "def"])
@pytest.mark.covers("NOT-03")
async def test_hook_asks_for_the_new_roots(carrier, kind):
    server = Server("roots")
    loop, roots = asyncio.get_running_loop(), asyncio.Queue()

    async def changed(ctx: Context) -> None:
        roots.put_nowait([root.uri for root in await ctx.list_roots()])

    def changed_blocking(ctx: BlockingContext) -> None:
        uris = [root.uri for root in ctx.list_roots()]
        loop.call_soon_threadsafe(roots.put_nowait, uris)

    server.on_roots_changed(changed if kind == "async" else changed_blocking)
    async with asyncio.timeout(DEADLINE), connected(server, carrier) as client:
        await client.ping()
        client.roots.add("file:///second")
        assert await roots.get() == ["file:///first", "file:///second"]


@CARRIERS
async def test_hooks_of_a_parent_and_of_mounted_servers_all_run(carrier):
    inner, outer, called = Server("inner"), Server("outer"), asyncio.Queue()

    @inner.on_roots_changed
    async def inner_changed(ctx: Context) -> None:
        called.put_nowait(("inner", len(await ctx.list_roots())))

    @outer.on_roots_changed
    async def outer_changed(ctx: Context) -> None:
        called.put_nowait(("outer", len(await ctx.list_roots())))

    outer.mount(inner, prefix="inner")
    async with asyncio.timeout(DEADLINE), connected(outer, carrier) as client:
        await client.ping()
        client.roots.add("file:///second")
        assert sorted([await called.get(), await called.get()]) == [("inner", 2), ("outer", 2)]


async def test_failing_hook_is_reported_and_the_others_run():
    reported: asyncio.Queue[tuple[BaseException, dict]] = asyncio.Queue()
    called = asyncio.Event()
    configuration = Configuration(exception_reporter=lambda error, info: reported.put_nowait((error, info)))
    server = Server("roots", configuration=configuration)

    @server.on_roots_changed
    async def failing(ctx: Context) -> None:
        raise LookupError(ctx.method)

    @server.on_roots_changed
    async def other() -> None:
        called.set()

    async with asyncio.timeout(DEADLINE), WirePeer(server) as peer:
        peer.notify("notifications/roots/list_changed")
        await called.wait()
        error, info = await reported.get()
    assert isinstance(error, LookupError)
    assert info == {"notification": "notifications/roots/list_changed"}


def test_plain_function_with_an_async_context_is_refused_at_registration():
    def changed(ctx: Context) -> None: ...

    with pytest.raises(DefinitionError, match="BlockingContext"):
        Server("roots").on_roots_changed(changed)
