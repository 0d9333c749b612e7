"""Lists of a client: pages, whole collections, what is kept and for how long, what is malformed."""

import asyncio
import contextvars
import logging

import pytest

from dragoman import AsyncClient, NotFound, RpcError, Server, ValidationError
from dragoman.errors import MethodNotFound, PaginationLimit
from scenarios.scripted_server import DEADLINE, EVERYTHING, HOLD, ScriptedServer, page, served

KINDS = {
    "tools": ("tools/list", "tools"),
    "prompts": ("prompts/list", "prompts"),
    "resources": ("resources/list", "resources"),
    "resource_templates": ("resources/templates/list", "resourceTemplates"),
}
EVERY_KIND = pytest.mark.parametrize("kind", list(KINDS))


def nothing() -> str:
    return ""


def echo(id: str) -> str:
    return id


def paged(page_size=2):
    server = Server("paged", page_size=page_size)
    for number in range(5):
        server.tool(name=f"tool{number}")(nothing)
        server.prompt(name=f"prompt{number}")(nothing)
        server.resource(f"test:///{number}", name=f"resource{number}")(nothing)
        server.resource(f"test:///{number}/{{id}}", name=f"template{number}")(echo)
    return server


def scripted(kind, answer, **options):
    method, _ = KINDS[kind]
    return ScriptedServer({method: answer}, **options)


async def names(client, kind, **options):
    return [item.name for item in await getattr(client, kind)(**options)]


@pytest.mark.covers("PAG-08")
@EVERY_KIND
async def test_a_page_is_one_request_and_says_where_the_next_one_begins(era, kind):
    async with AsyncClient(paged(), mode=era) as client:
        first = await getattr(client, f"list_{kind}")()
        assert len(getattr(first, kind)) == 2
        last = await getattr(client, f"list_{kind}")("4")
        assert len(getattr(last, kind)) == 1
        assert first.next_cursor is not None
        assert last.next_cursor is None


@pytest.mark.covers("PAG-08")
async def test_a_page_has_what_the_server_attached():
    server = scripted("tools", page("tools", "a", _meta={"x": 1}, ttlMs=5, cacheScope="public"), stateless=True)
    async with AsyncClient(server) as client:
        result = await client.list_tools(meta={"trace": "t"})
    assert (result.meta, result.ttl_ms, result.cache_scope) == ({"x": 1}, 5, "public")
    assert server.sent("tools/list")[0]["_meta"]["trace"] == "t"


@pytest.mark.covers("PAG-09", "LCA-05", "BEY-12")
@EVERY_KIND
async def test_a_whole_collection_has_every_page(era, kind):
    async with AsyncClient(paged(), mode=era) as client:
        assert len(await names(client, kind)) == 5


@pytest.mark.covers("PAG-10", "PAG-12", "BEY-12")
@EVERY_KIND
async def test_pages_that_go_in_circles_end_with_what_was_collected_and_a_warning(kind, caplog):
    _, field = KINDS[kind]
    follows = {None: "a", "a": "b", "b": "a"}
    server = scripted(kind, lambda params: page(field, "x", cursor=follows[params.get("cursor")]))
    async with AsyncClient(server) as client:
        assert len(await getattr(client, kind)()) == 3
    assert f"The pages of {kind} come back to the cursor 'a'" in caplog.text
    assert len(server.sent(KINDS[kind][0])) == 3


@EVERY_KIND
async def test_a_list_that_the_server_does_not_have_is_empty(kind):
    server = scripted(kind, MethodNotFound("Method not found"))
    async with AsyncClient(server) as client:
        assert await getattr(client, kind)() == []
        with pytest.raises(MethodNotFound):
            await getattr(client, f"list_{kind}")()


@EVERY_KIND
async def test_a_list_that_is_gone_after_its_first_page_is_an_error(kind):
    _, field = KINDS[kind]
    gone = MethodNotFound("Method not found")
    server = scripted(kind, lambda params: gone if "cursor" in params else page(field, "x", cursor="2"))
    async with AsyncClient(server) as client:
        with pytest.raises(MethodNotFound):
            await getattr(client, kind)()


@pytest.mark.covers("PAG-11", "PAG-12", "BEY-12")
async def test_more_pages_than_are_wanted_are_not_read():
    server = scripted("tools", lambda params: page("tools", "x", cursor=params.get("cursor", "") + "x"))
    async with AsyncClient(server, max_pages=7) as client:
        with pytest.raises(PaginationLimit, match="more than 7 pages of tools; raise max_pages"):
            await client.tools()
    assert len(server.sent("tools/list")) == 7


async def test_an_empty_cursor_is_a_cursor():
    server = scripted(
        "tools", lambda params: page("tools", "b") if "cursor" in params else page("tools", "a", cursor="")
    )
    async with AsyncClient(server) as client:
        assert await names(client, "tools") == ["a", "b"]


@pytest.mark.covers("LCA-01")
@EVERY_KIND
async def test_lists_of_the_handshake_era_are_kept_until_they_are_refreshed(kind):
    method, field = KINDS[kind]
    server = scripted(kind, page(field, "a"))
    async with AsyncClient(server) as client:
        await getattr(client, kind)()
        await getattr(client, kind)()
        assert len(server.sent(method)) == 1
        await getattr(client, kind)(refresh=True)
        await getattr(client, kind)()
        assert len(server.sent(method)) == 2


@pytest.mark.covers("LCA-02")
async def test_an_empty_list_is_not_kept(era):
    server = scripted("tools", page("tools", ttlMs=60_000), stateless=era == "stateless")
    async with AsyncClient(server) as client:
        assert await client.tools() == []
        assert await client.tools() == []
    assert len(server.sent("tools/list")) == 2


@pytest.mark.covers("LCA-03")
@pytest.mark.parametrize(
    ("notice", "kind"),
    [
        ("notifications/tools/list_changed", "tools"),
        ("notifications/prompts/list_changed", "prompts"),
        ("notifications/resources/list_changed", "resources"),
        ("notifications/resources/list_changed", "resource_templates"),
    ],
)
async def test_a_change_makes_the_client_ask_again(notice, kind):
    method, field = KINDS[kind]
    changed = asyncio.Queue()
    server = scripted(kind, page(field, "a"))
    async with AsyncClient(server, on_list_changed=changed.put_nowait) as client:
        await getattr(client, kind)()
        server.say(notice)
        while await asyncio.wait_for(changed.get(), DEADLINE) != kind:
            pass
        await getattr(client, kind)()
    assert len(server.sent(method)) == 2


async def test_a_list_that_changes_while_it_is_fetched_is_not_kept(era):
    changed = asyncio.Event()
    server = ScriptedServer({"tools/list": HOLD}, stateless=era == "stateless")
    async with AsyncClient(server, on_list_changed=lambda _: changed.set()) as client:
        fetching = asyncio.create_task(client.tools())
        await server.until(lambda: server.sent("tools/list"))
        server.say("notifications/tools/list_changed")
        await asyncio.wait_for(changed.wait(), DEADLINE)
        id = next(message["id"] for message in server.received if message["method"] == "tools/list")
        server.answers["tools/list"] = page("tools", "new")
        server.answer(id, page("tools", "old", ttlMs=60_000))
        assert [tool.name for tool in await fetching] == ["old"]
        assert await names(client, "tools") == ["new"]


class Clock:
    now = 1000.0

    def __call__(self):
        return self.now


@pytest.mark.covers("LCA-01")
async def test_a_list_of_the_stateless_era_is_kept_as_long_as_the_shortest_page_says():
    def answer(params):
        return page("tools", "b", ttlMs=2000) if "cursor" in params else page("tools", "a", cursor="1", ttlMs=9000)

    server = scripted("tools", answer, stateless=True, capabilities={"tools": {}})
    async with AsyncClient(server) as client:
        client._session.catalog.clock = clock = Clock()
        await client.tools()
        clock.now += 1.9
        await client.tools()
        assert len(server.sent("tools/list")) == 2
        clock.now += 0.2
        await client.tools()
    assert len(server.sent("tools/list")) == 4
    assert not server.sent("subscriptions/listen")


async def test_a_list_of_the_stateless_era_without_a_time_is_asked_for_each_time():
    server = scripted("tools", page("tools", "a"), stateless=True, capabilities={"tools": {}})
    async with AsyncClient(server) as client:
        await client.tools()
        await client.tools()
    assert len(server.sent("tools/list")) == 2


async def listening(client):
    """Wait until the server has said that it tells of changes."""
    await client._session.subscriptions.stream.wait_acknowledged(DEADLINE)


@pytest.mark.covers("LCA-03")
async def test_a_list_of_the_stateless_era_is_kept_while_the_server_notifies_of_changes():
    changed = asyncio.Event()
    server = scripted("tools", page("tools", "a", ttlMs=0), stateless=True)
    async with AsyncClient(server, on_list_changed=lambda _: changed.set()) as client:
        await client.tools()
        await listening(client)
        await client.tools()
        fetched = len(server.sent("tools/list"))
        await client.tools()
        assert len(server.sent("tools/list")) == fetched
        server.say("notifications/tools/list_changed")
        await asyncio.wait_for(changed.wait(), DEADLINE)
        await client.tools()
        assert len(server.sent("tools/list")) == fetched + 1


async def test_a_list_that_was_fetched_before_the_acknowledgement_is_not_trusted():
    server = scripted("tools", page("tools", "a"), stateless=True, acknowledges=False)
    async with AsyncClient(server) as client:
        await client.tools()
        await server.until(lambda: server.sent("subscriptions/listen"))
        id = next(message["id"] for message in server.received if message["method"] == "subscriptions/listen")
        meta = {"io.modelcontextprotocol/subscriptionId": id}
        said = {"notifications": {"toolsListChanged": True}, "_meta": meta}
        server.say("notifications/subscriptions/acknowledged", said)
        await listening(client)
        await client.tools()
    assert len(server.sent("tools/list")) == 2


async def test_a_dragoman_server_that_changes_is_seen_to_change(era):
    server = Server("changing")
    server.tool(name="first")(nothing)
    changed = asyncio.Event()
    async with AsyncClient(server, mode=era, on_list_changed=lambda _: changed.set()) as client:
        assert await names(client, "tools") == ["first"]
        if era == "stateless":
            await listening(client)
        server.tool(name="second")(nothing)
        server.notify_tools_list_changed()
        await asyncio.wait_for(changed.wait(), DEADLINE)
        assert await names(client, "tools") == ["first", "second"]


async def test_lists_belong_to_whom_they_were_shown(era):
    user = contextvars.ContextVar("user", default="ann")
    server = scripted("tools", page("tools", "a"), stateless=era == "stateless")
    async with AsyncClient(server, headers={"X-User": user.get}) as client:
        await client.tools()
        if era == "stateless":
            await listening(client)
            await client.tools()
        fetched = len(server.sent("tools/list"))
        await client.tools()
        assert len(server.sent("tools/list")) == fetched
        user.set("bob")
        await client.tools()
        await client.tools()
        assert len(server.sent("tools/list")) == fetched + 1


@pytest.mark.covers("LML-04")
async def test_nothing_is_kept_across_connections():
    server = scripted("tools", page("tools", "a"))
    client = AsyncClient(server)
    await client.tools()
    await client.restart()
    await client.tools()
    await client.stop()
    assert len(server.sent("tools/list")) == 2


@pytest.mark.parametrize(
    ("kind", "bad"),
    [
        ("tools", {"name": "bad", "inputSchema": "nonsense"}),
        ("prompts", {"name": "bad", "arguments": 3}),
        ("resources", {"name": "bad"}),
        ("resource_templates", {"name": "bad", "uriTemplate": 3}),
    ],
)
async def test_one_malformed_entry_is_left_out_with_a_warning_that_names_it(kind, bad, caplog):
    method, field = KINDS[kind]
    listed = page(field, "good", "fine")
    listed[field].insert(1, bad)
    async with AsyncClient(scripted(kind, listed)) as client:
        assert await names(client, kind) == ["good", "fine"]
    [record] = [record for record in caplog.records if record.levelno == logging.WARNING]
    assert record.name == "dragoman.client"
    assert method in record.getMessage()
    assert "'bad' was left out" in record.getMessage()


async def test_an_entry_without_a_name_is_named_by_its_place(caplog):
    listed = page("tools", "good")
    listed["tools"].append({"inputSchema": {}})
    async with AsyncClient(scripted("tools", listed)) as client:
        assert await names(client, "tools") == ["good"]
    assert "$.tools[1] was left out" in caplog.text


async def test_a_list_that_is_none_cannot_be_read():
    async with AsyncClient(scripted("tools", {"tools": "many"})) as client:
        with pytest.raises(ValidationError, match="The result of tools/list cannot be read"):
            await client.tools()


@pytest.mark.covers("LCAPS-02")
@pytest.mark.parametrize("stateless", [False, True])
@EVERY_KIND
async def test_what_a_server_does_not_offer_is_empty_without_a_request(kind, stateless):
    server = ScriptedServer(stateless=stateless, capabilities={})
    async with AsyncClient(server) as client:
        assert await getattr(client, kind)() == []
        assert getattr(await getattr(client, f"list_{kind}")(), kind) == []
    assert not server.sent(KINDS[kind][0])
    assert not server.sent("subscriptions/listen")


@pytest.mark.covers("LER-04")
@pytest.mark.parametrize(
    ("getter", "kind", "close"),
    [
        ("tool", "tool", "tool1"),
        ("prompt", "prompt", "prompt1"),
        ("resource", "resource", "resource1"),
        ("resource_template", "resource template", "template1"),
    ],
)
async def test_what_is_not_there_is_not_found_and_what_is_close_is_named(era, getter, kind, close):
    async with AsyncClient(paged(), mode=era) as client:
        with pytest.raises(NotFound) as caught:
            await getattr(client, getter)(close.replace("1", "11"))
    assert caught.value.kind == kind
    assert close in caught.value.close_matches
    assert close in str(caught.value)


async def test_resources_are_found_by_uri_too():
    async with AsyncClient(paged()) as client:
        assert (await client.resource("test:///3")).name == "resource3"
        assert (await client.resource_template("test:///3/{id}")).name == "template3"


@pytest.mark.covers("LCAPS-01")
async def test_what_the_server_offers_can_be_read():
    async with AsyncClient(ScriptedServer(capabilities=EVERYTHING)) as client:
        assert client.capabilities.tools.list_changed
        assert client.capabilities.resources.subscribe
        assert client.capabilities.completions is not None
        assert client.server_info.name == "scripted"
        assert client.protocol_version == "2025-11-25"
    assert client.capabilities.tools is None
    assert client.server_info is None
    assert client.protocol_version is None
    assert client.instructions is None


@pytest.mark.covers("CLI-08")
async def test_the_refusal_of_a_list_is_raised():
    async with AsyncClient(scripted("tools", RpcError(-32603, "no disk"))) as client:
        with pytest.raises(RpcError, match="no disk") as caught:
            await client.tools()
    assert caught.value.code == -32603


async def test_lists_over_http_are_as_in_memory(era):
    with served(paged().asgi()) as url:
        async with AsyncClient(url, mode=era) as client:
            assert await names(client, "tools") == [f"tool{number}" for number in range(5)]
            assert len(await names(client, "resource_templates")) == 5
