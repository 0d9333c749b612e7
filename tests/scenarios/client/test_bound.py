"""Tools, prompts, resources and templates that are bound to a client."""

import asyncio
import base64
import queue

import pytest

from dragoman import AsyncClient, Client, NotFound, RpcError, Server, ValidationError, types
from dragoman.errors import CapabilityNotAvailable
from scenarios.scripted_server import DEADLINE, ScriptedServer, page, served


class Library:
    """A server with one of everything, and a resource that changes."""

    def __init__(self):
        self.text = "one"
        self.reads = 0
        self.server = server = Server("library")

        @server.tool(annotations={"readOnlyHint": True}, title="Adds", meta={"x": 1})
        def add(a: int, b: int) -> int:
            """Adds two numbers."""
            return a + b

        @server.tool
        def echo(method: str, self: str, args: str) -> str:
            return f"{method} {self} {args}"

        @server.prompt
        def greet(name: str, times: int = 1) -> str:
            return f"Hello {name} " * times

        @greet.complete("name")
        def names(value, arguments):
            return [name for name in ("Jo", "Joan", "Ann") if name.startswith(value)]

        @server.resource("note:///one", name="note", mime_type="text/plain")
        def note() -> str:
            self.reads += 1
            return self.text

        @server.resource("blob:///one", name="blob")
        def blob() -> bytes:
            return b"\x00\xff"

        @server.resource("log:///{date}/{level}{?tail}", name="logs")
        def logs(date: str, level: str, tail: str = "all") -> str:
            return f"{date} {level} {tail}"

        @logs.complete("level")
        def levels(value, arguments):
            return [f"{value}-{arguments.get('date')}"]

        @server.on_subscribe
        def subscribed(uri):
            """Let resources be subscribed to."""


@pytest.fixture
def library():
    return Library()


@pytest.mark.covers("CLI-09")
async def test_a_bound_tool_shows_its_definition_and_can_be_called(library, era):
    async with AsyncClient(library.server, mode=era) as client:
        tool = await client.tool("add")
        assert (tool.name, tool.title, tool.description) == ("add", "Adds", "Adds two numbers.")
        assert tool.annotations.read_only_hint
        assert tool.meta == {"x": 1}
        assert tool.icons == []
        assert set(tool.input_schema["properties"]) == {"a", "b"}
        assert tool.output_schema is not None
        assert repr(tool) == "<AsyncBoundTool 'add'>"
        assert (await tool(a=1, b=2)).structured == 3
        assert (await tool.call({"a": 1, "b": 3}, timeout=5)).structured == 4
        assert (await client.call_tool(tool, {"a": 2, "b": 2})).structured == 4


def test_arguments_may_have_any_name(library):
    with Client(library.server) as client:
        assert client.tool("echo")(method="a", self="b", args="c").text == "a b c"


@pytest.mark.covers("LMP-01", "CLI-06")
async def test_a_bound_prompt_is_filled_in_with_text_and_with_what_is_no_text(library, era):
    async with AsyncClient(library.server, mode=era) as client:
        prompt = await client.prompt("greet")
        assert [(argument.name, argument.required) for argument in prompt.arguments] == [
            ("name", True),
            ("times", None),
        ]
        result = await prompt.fetch(name="Jo", times=2)
        assert result.messages[0].content.text == "Hello Jo Hello Jo "
        assert (await client.get_prompt("greet", {"name": "Jo"})).messages[0].role == "user"


async def test_arguments_of_prompts_that_are_no_text_are_sent_as_json():
    server = ScriptedServer({"prompts/get": {"messages": []}})
    async with AsyncClient(server) as client:
        await client.get_prompt("p", {"text": "a", "number": 3, "flag": True, "list": [1, "x"], "none": None})
    assert server.sent("prompts/get")[0]["arguments"] == {
        "text": "a",
        "number": "3",
        "flag": "true",
        "list": '[1,"x"]',
        "none": "null",
    }


@pytest.mark.covers("LMP-05")
async def test_a_prompt_that_the_server_refuses_raises(library, era):
    async with AsyncClient(library.server, mode=era) as client:
        with pytest.raises(RpcError, match="name"):
            await client.get_prompt("greet")
        prompt = await client.prompt("greet")
        with pytest.raises(TypeError, match="name"):
            await prompt.fetch()


@pytest.mark.covers("LCP-01", "LCP-02", "CLI-07")
async def test_arguments_of_prompts_and_templates_are_completed(library, era):
    async with AsyncClient(library.server, mode=era) as client:
        completion = await (await client.prompt("greet")).complete("name", "Jo")
        assert (completion.values, completion.has_more) == (["Jo", "Joan"], False)
        template = await client.resource_template("logs")
        assert (await template.complete("level", "w", {"date": "monday"})).values == ["w-monday"]
        reference = {"type": "ref/prompt", "name": "greet"}
        assert (await client.complete(reference, "name", "A")).values == ["Ann"]


@pytest.mark.covers("LCP-03", "LER-02", "LMR-08")
async def test_what_a_server_does_not_offer_is_not_asked_of_it(era):
    server = ScriptedServer(stateless=era == "stateless", capabilities={"resources": {}})
    async with AsyncClient(server) as client:
        with pytest.raises(CapabilityNotAvailable, match="completions"):
            await client.complete(types.PromptReference("p"), "a", "b")
        with pytest.raises(CapabilityNotAvailable, match=r"resources\.subscribe"):
            await client.subscribe("x:1")
    assert not server.sent("completion/complete")
    assert not server.sent("resources/subscribe")


@pytest.mark.covers("LMR-01")
async def test_what_a_resource_holds_is_read_when_it_is_first_wanted_and_kept(library, era):
    async with AsyncClient(library.server, mode=era) as client:
        note = await client.resource("note")
        assert (note.uri, note.mime_type, note.name, note.size) == ("note:///one", "text/plain", "note", None)
        assert library.reads == 0
        assert [await note.content(), await note.content()] == ["one", "one"]
        assert library.reads == 1
        library.text = "two"
        assert await note.content() == "one"
        assert await note.content(refresh=True) == "two"
        note.forget()
        assert (await note.contents())[0].text == "two"
        assert library.reads == 3


@pytest.mark.covers("LMR-10", "LMR-09")
async def test_a_resource_that_was_subscribed_to_is_read_anew_after_a_change(library, era):
    heard = asyncio.Queue()
    async with AsyncClient(library.server, mode=era, on_resource_updated=heard.put_nowait) as client:
        note = await client.resource("note")
        await note.subscribe(heard.put_nowait)
        assert await note.content() == "one"
        library.text = "two"
        library.server.notify_resource_updated("note:///one")
        assert [await asyncio.wait_for(heard.get(), DEADLINE) for _ in range(2)] == ["note:///one"] * 2
        assert await note.content() == "two"
        await note.unsubscribe()
        await client.ping()
        library.text = "three"
        library.server.notify_resource_updated("note:///one")
        await client.ping()
        assert heard.empty()
        assert await note.content() == "two"


async def test_a_resource_that_changes_while_it_is_read_is_not_kept():
    server = ScriptedServer({"resources/list": page("resources", "r")})
    reads = []

    def answer(params):
        reads.append(params)
        if len(reads) == 1:
            server.say("notifications/resources/updated", {"uri": params["uri"]})
        return {"contents": [{"uri": params["uri"], "text": str(len(reads))}]}

    server.answers["resources/read"] = answer
    async with AsyncClient(server) as client:
        resource = await client.resource("r")
        assert await resource.content() == "1"
        assert await resource.content() == "2"
        assert await resource.content() == "2"


async def test_a_resource_is_read_anew_after_the_connection_was_lost_and_subscribed_to_again():
    back = asyncio.Event()
    server = ScriptedServer({"resources/list": page("resources", "r")})
    server.answers["resources/read"] = lambda params: {"contents": [{"uri": params["uri"], "text": str(server.opened)}]}
    async with AsyncClient(server, on_reconnect=back.set) as client:
        resource = await client.resource("r")
        await resource.subscribe()
        assert await resource.content() == "1"
        server.hang_up()
        await asyncio.wait_for(back.wait(), DEADLINE)
        assert await resource.content() == "2"
        assert server.sent("resources/subscribe") == [{"uri": "test:///r"}] * 2


@pytest.mark.covers("LMR-13", "LMR-04")
async def test_a_resource_that_is_no_text_is_bytes(library, era):
    async with AsyncClient(library.server, mode=era) as client:
        assert await (await client.resource("blob")).content() == b"\x00\xff"


@pytest.mark.parametrize(
    ("contents", "expected"),
    [
        ([], ""),
        ([{"text": "a"}, {"text": "b"}], "a\nb"),
        ([{"text": "a"}, {"blob": base64.b64encode(b"\xff").decode()}], b"a\xff"),
        ([{"blob": ""}], b""),
    ],
)
async def test_several_contents_are_joined(contents, expected):
    server = ScriptedServer({"resources/list": page("resources", "r")})
    server.answers["resources/read"] = {"contents": [{"uri": "test:///r", **part} for part in contents]}
    async with AsyncClient(server) as client:
        assert await (await client.resource("r")).content() == expected


async def test_a_blob_that_is_no_base64_is_an_error():
    server = ScriptedServer({"resources/list": page("resources", "r")})
    server.answers["resources/read"] = {"contents": [{"uri": "test:///r", "blob": "a"}]}
    async with AsyncClient(server) as client:
        with pytest.raises(ValidationError, match="The blob of test:///r is not valid base64"):
            await (await client.resource("r")).content()


@pytest.mark.covers("LMR-05")
async def test_a_resource_with_a_web_address_is_read_from_its_server():
    entry = {"name": "page", "uri": "https://example.invalid/page"}
    server = ScriptedServer({"resources/list": {"resources": [entry]}})
    server.answers["resources/read"] = lambda params: {"contents": [{"uri": params["uri"], "text": "ours"}]}
    async with AsyncClient(server) as client:
        assert await (await client.resource("page")).content() == "ours"


@pytest.mark.covers("LMR-06")
async def test_a_template_is_filled_in_and_read(library, era):
    async with AsyncClient(library.server, mode=era) as client:
        logs = await client.resource_template("logs")
        assert logs.uri_template == "log:///{date}/{level}{?tail}"
        assert logs.uri(date="a b", level="x/y", tail=3) == "log:///a%20b/x%2Fy?tail=3"
        assert await logs.fetch(date="today", level="info") == "today info all"
        assert await logs.fetch(date="today", level="info", tail=5) == "today info 5"
        with pytest.raises(TypeError, match="has no variable 'when'; there are: date, level, tail"):
            await logs.fetch(when="today")


@pytest.mark.covers("LMR-06")
def test_a_blocking_client_has_the_same_of_everything(library):
    with Client(library.server) as client:
        assert [tool.name for tool in client.tools()] == ["add", "echo"]
        assert client.tool("add")(a=1, b=2).structured == 3
        assert client.tool("add").call({"a": 1, "b": 2}, timeout=5).structured == 3
        assert client.prompt("greet").fetch(name="Jo", times=1).messages[0].content.text == "Hello Jo "
        assert client.prompt("greet").complete("name", "Joa").values == ["Joan"]
        assert [prompt.name for prompt in client.prompts(refresh=True)] == ["greet"]
        note = client.resource("note")
        assert (note.content(), note.content(), library.reads) == ("one", "one", 1)
        note.forget()
        assert (note.contents()[0].text, library.reads) == ("one", 2)
        assert {resource.uri for resource in client.resources()} == {"note:///one", "blob:///one"}
        assert client.resource_template("logs").fetch(date="d", level="l") == "d l all"
        assert client.resource_template("logs").complete("level", "w", {"date": "m"}).values == ["w-m"]
        assert [template.name for template in client.resource_templates()] == ["logs"]
        assert repr(note) == "<BoundResource 'note'>"
        with pytest.raises(NotFound):
            client.tool("subtract")


def test_a_blocking_client_is_notified_of_changes_between_calls(library, era):
    heard = queue.Queue()
    with Client(library.server, mode=era) as client:
        note = client.resource("note")
        note.subscribe(heard.put)
        assert note.content() == "one"
        library.text = "two"
        library.server.notify_resource_updated("note:///one")
        assert heard.get(timeout=DEADLINE) == "note:///one"
        assert note.content() == "two"
        note.unsubscribe()


@pytest.mark.parametrize("stateless", [False, True])
async def test_what_is_bound_is_usable_after_the_client_has_connected_again(stateless):
    server = ScriptedServer({"tools/list": page("tools", "t"), "tools/call": {"content": []}}, stateless=stateless)
    client = AsyncClient(server)
    tool = await client.tool("t")
    await client.restart()
    await tool()
    server.hang_up()
    await asyncio.sleep(0)
    await tool()
    await client.stop()
    assert len(server.sent("tools/call")) == 2


def test_bound_things_work_over_http(library, era):
    with served(library.server.asgi()) as url, Client(url, mode=era) as client:
        assert client.tool("add")(a=1, b=2).structured == 3
        assert client.resource("blob").content() == b"\x00\xff"
        assert client.resource_template("logs").fetch(date="d", level="l") == "d l all"
        assert client.prompt("greet").complete("name", "A").values == ["Ann"]
