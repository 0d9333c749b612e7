"""Resources that results of tools link to: read for the model, offered to it, or named."""

import asyncio

import pytest

from dragoman import AsyncChat, AsyncClient, AsyncClients, Chat, Client, Clients, Server, types
from dragoman.chat import Media, Policy, ToolCall
from dragoman.testing import ScriptedModel
from scenarios.chat_checks import DEADLINE, assert_valid, call


class Library:
    """A server whose tool links to books, and what was read of them."""

    def __init__(self, name="library", *, cover=b""):
        self.read = []
        self.server = Server(name)

        @self.server.tool
        def search(count: int = 1) -> list[object]:
            """Finds books."""
            return [types.ResourceLink(uri=f"book:///{number}", name=f"book {number}") for number in range(count)]

        @self.server.resource("book:///{number}", name="book")
        async def book(number: int) -> str | bytes:
            self.read.append(number)
            if number == 9:
                raise LookupError("burnt")
            return cover or f"Text {number} of {name}"


@pytest.fixture
def library():
    return Library()


def read(uri, name="library__read_resource", id="2"):
    return ToolCall(id, name, {"uri": uri})


@pytest.mark.covers("LMT-06", "LMR-12")
def test_a_model_reads_what_a_result_links_to(library, era):
    model = ScriptedModel(call("search"), read("book:///0"), "A good book.")
    with Client(library.server, mode=era) as client:
        chat = Chat(model).with_tools(client)
        reply = chat.ask("What is there to read?")
    assert [result.text for result in reply.tool_results] == ["[book 0](book:///0)", "Text 0 of library"]
    assert [[tool.name for tool in asked.tools] for asked in model.requests] == [
        ["search"],
        ["search", "library__read_resource"],
        ["search", "library__read_resource"],
    ]
    assert library.read == [0]
    assert_valid(chat.messages)


@pytest.mark.covers("LMT-06")
async def test_a_picture_that_a_result_links_to_reaches_the_model_as_a_picture():
    library = Library(cover=b"\x89PNG")
    async with AsyncClient(library.server) as client:
        model = ScriptedModel(call("search"), read("book:///0"), "Nice.")
        reply = await AsyncChat(model).with_tools(client).ask("Show me")
    assert [type(part) for part in reply.tool_results[1].message.content] == [Media]


@pytest.mark.covers("LMR-12")
@pytest.mark.parametrize("uri", ["book:///7", "file:///etc/passwd", None, ["book:///0"]])
def test_only_what_was_linked_can_be_read(library, uri):
    with Client(library.server) as client:
        chat = Chat(ScriptedModel(call("search"), read(uri), "Then not.")).with_tools(client)
        result = chat.ask("Read").tool_results[1]
    assert result.is_error
    assert result.text == f"Error: No result of a tool links to {uri!r}; the last links are: book:///0"
    assert library.read == []


@pytest.mark.covers("LMR-12")
def test_each_server_has_its_own_links_and_its_own_tool_that_reads_them():
    one, two = Library("one"), Library("two")
    wanted = [call("one__search"), call("two__search")]
    reads = [read("book:///0", f"{name}__read_resource", name) for name in ("two", "one")]
    model = ScriptedModel(wanted, reads, "Both.")
    with Clients({"one": one.server, "two": two.server}) as clients:
        reply = Chat(model).with_tools(clients).ask("Read")
    assert [result.text for result in reply.tool_results[2:]] == ["Text 0 of two", "Text 0 of one"]


@pytest.mark.covers("LMR-12")
async def test_a_policy_decides_about_reading_as_about_every_call(library):
    for policy in (Policy(deny=["read_resource"]), Policy(deny=["library__read_*"])):
        async with AsyncClients({"library": library.server}) as clients:
            tools = await clients.tools(include=["search"])
            chat = AsyncChat(ScriptedModel(call("search"), read("book:///0"), "Then not."), policy=policy)
            results = (await chat.with_tools(*tools).ask("Read")).tool_results
        assert results[1].text == "Error: This tool may not be called"
    assert library.read == []


def test_a_tool_of_the_server_keeps_its_name_beside_the_one_that_reads_links(library):
    library.server.tool(lambda: "mine", name="library__read_resource", description="The server's own.")
    model = ScriptedModel(call("search"), call("library__read_resource"), "Fine.")
    with Client(library.server) as client:
        reply = Chat(model).with_tools(client).ask("Read")
    assert reply.tool_results[1].text == "mine"
    assert len({tool.name for tool in model.requests[1].tools}) == 3


@pytest.mark.covers("LMT-06")
def test_links_are_followed_where_that_is_wanted_and_the_program_has_the_result_as_it_was(library, era):
    model = ScriptedModel(call("search", count=2), "Two books.")
    with Client(library.server, mode=era) as client:
        chat = Chat(model, resource_links="follow").with_tools(client)
        [result] = chat.ask("Read").tool_results
    assert result.text == "[book 0](book:///0)\nText 0 of library\n[book 1](book:///1)\nText 1 of library"
    assert [block.uri for block in result.result.content] == ["book:///0", "book:///1"]
    assert [tool.name for tool in model.requests[1].tools] == ["search"]


def test_of_many_links_the_first_are_followed_and_the_others_offered(library):
    model = ScriptedModel(call("search", count=12), read("book:///11"), "Many books.")
    with Client(library.server) as client:
        chat = Chat(model, resource_links="follow").with_tools(client)
        many, last = chat.ask("Read").tool_results
    assert sorted(library.read) == [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 11]
    assert "[book:///9 cannot be read: " in many.text
    assert not many.is_error
    assert last.text == "Text 11 of library"


def test_links_are_only_named_where_that_is_wanted(library):
    model = ScriptedModel(call("search"), "A book.")
    with Client(library.server) as client:
        Chat(model, resource_links="name").with_tools(client).ask("Read")
    assert [tool.name for tool in model.requests[1].tools] == ["search"]
    assert model.requests[1].messages[-1].text == "[book 0](book:///0)"


def test_another_way_with_links_is_refused():
    with pytest.raises(ValueError, match='must be "offer", "follow" or "name"'):
        Chat(ScriptedModel(), resource_links="all")


async def test_links_have_a_bound_and_the_oldest_are_forgotten(library):
    async with AsyncClient(library.server) as client:
        wanted = [call("search", count=1005), [read("book:///4"), read("book:///5", id="3")], "Done."]
        chat = AsyncChat(ScriptedModel(*wanted)).with_tools(client)
        reply = await asyncio.wait_for(chat.ask("Read"), DEADLINE)
    assert [result.is_error for result in reply.tool_results[1:]] == [True, False]
