"""The tools of a conversation: names, sources, what happens when a source cannot be asked."""

import logging

import pytest

from dragoman import AsyncChat, AsyncClient, AsyncClients, Chat, Client, Clients, ConnectError, Server
from dragoman.chat.messages import ToolCall
from dragoman.chat.tools import Toolbox
from dragoman.testing import ScriptedModel
from scenarios.http_peer import scenario


def server_of(name, *tools):
    server = Server(name)
    for tool in tools:
        server.tool(lambda x=0: str(x), name=tool, description=f"{tool} of {name}")
    return server


async def names_of(*sources):
    toolbox = Toolbox()
    toolbox.add(sources)
    return await toolbox.list_tools()


@pytest.mark.covers("CHAT-10")
@scenario
async def test_tools_of_several_servers_with_one_name_are_told_apart():
    async with (
        AsyncClient(server_of("notes", "search", "add")) as notes,
        AsyncClient(server_of("web", "search", "fetch")) as web,
    ):
        tools = await names_of(notes, web)
        assert list(tools) == ["notes__search", "add", "web__search", "fetch"]
        assert tools["web__search"].judged({}).names == ("web__search", "search", "web__search")
        assert tools["web__search"].spec.description == "search of web"


@scenario
async def test_a_tool_that_is_given_twice_is_there_once():
    async with AsyncClient(server_of("notes", "search", "add")) as notes:
        assert list(await names_of(notes, *await notes.tools(), notes)) == ["search", "add"]


@scenario
async def test_two_clients_of_servers_with_one_name_have_different_tools():
    async with AsyncClient(server_of("same", "go")) as one, AsyncClient(server_of("same", "go")) as other:
        tools = await names_of(one, other)
        assert len(tools) == 2
        assert {known.tool.name for known in tools.values()} == {"go"}


@pytest.mark.covers("LMG-05", "LMG-06")
@scenario
async def test_a_group_gives_its_tools_under_the_names_that_it_has_for_them():
    servers = {"a": server_of("x", "go"), "b": server_of("x", "go", "stay")}
    async with AsyncClients(servers) as clients:
        tools = await names_of(clients)
        assert list(tools) == ["a__go", "b__go", "stay"]
        assert tools["b__go"].judged({}).names[2] == "b__go"
        assert list(await names_of(*await clients.tools(include="b__*"))) == ["b__go", "stay"]


def test_a_chat_takes_a_group_that_blocks():
    with Clients({"a": server_of("x", "go"), "b": server_of("x", "go")}) as clients:
        model = ScriptedModel(ToolCall("1", "b__go", {"x": 3}), "gone")
        reply = Chat(model).with_tools(clients).ask("Go")
        assert reply.tool_results[0].text == "3"
        assert [tool.name for tool in model.requests[0].tools] == ["a__go", "b__go"]


@scenario
async def test_arguments_are_given_as_the_tool_wants_them():
    server = Server("lists")
    server.tool(lambda: "", name="sum", input_schema={"type": "object", "properties": {"n": {"type": "array"}}})
    async with AsyncClient(server) as client:
        known = (await names_of(client))["sum"]
        assert known.arguments(ToolCall("1", "sum", {"n": "[1, 2]"})) == {"n": [1, 2]}


@pytest.mark.covers("CHAT-11")
@scenario
async def test_a_client_that_cannot_be_asked_any_more_keeps_the_tools_that_it_had(caplog):
    class Failing:
        def __init__(self, tools):
            self.answers = [tools, ConnectError("gone")]

        async def tools(self):
            answer = self.answers.pop(0)
            if isinstance(answer, Exception):
                raise answer
            return answer

    async with AsyncClient(server_of("notes", "search")) as notes:
        toolbox = Toolbox()
        toolbox.add([Failing(await notes.tools())])
        assert list(await toolbox.list_tools()) == ["search"]
        with caplog.at_level(logging.WARNING, "dragoman.chat"):
            assert list(await toolbox.list_tools()) == ["search"]
        assert "gone" in caplog.text


@scenario
async def test_a_client_that_never_could_be_asked_raises_what_is_wrong():
    client = AsyncClient("no-such-program-anywhere")
    with pytest.raises(ConnectError):
        await names_of(client)
    await client.stop()


@pytest.mark.covers("CHAT-12")
def test_what_blocks_and_what_is_awaited_are_not_mixed():
    server = server_of("notes", "search")
    asynchronous, blocking = AsyncClient(server), Client(server)
    with pytest.raises(TypeError, match="is blocking; use a Chat, or give this AsyncChat an AsyncClient"):
        AsyncChat(ScriptedModel()).with_tools(blocking)
    with pytest.raises(TypeError, match="is blocking"):
        AsyncChat(ScriptedModel()).with_tools(Clients({"a": server}))
    with pytest.raises(TypeError, match="take it from a Client, or use AsyncChat"):
        Chat(ScriptedModel()).with_tools(asynchronous)
    with pytest.raises(TypeError, match="use AsyncChat"):
        Chat(ScriptedModel()).with_tools(AsyncClients({"a": server}))
    with blocking, pytest.raises(TypeError, match="blocks; give it to a Chat"):
        AsyncChat(ScriptedModel()).with_tools(*blocking.tools())


@pytest.mark.parametrize(("chat", "given"), [(AsyncChat, 3), (Chat, 3), (AsyncChat, [3]), (Chat, [3])])
def test_what_has_no_tools_is_refused(chat, given):
    with pytest.raises(TypeError, match="is neither a tool nor a client"):
        chat(ScriptedModel()).with_tools(given)


def test_a_target_is_refused_with_the_client_to_make_of_it():
    with pytest.raises(TypeError, match=r"is neither a tool nor a client; give a client: Client\('sums.py'\)"):
        Chat(ScriptedModel()).with_tools("sums.py")
    with pytest.raises(TypeError, match=r"give a client: AsyncClient\('sums.py'\)"):
        AsyncChat(ScriptedModel()).with_tools("sums.py")


def test_a_list_of_tools_is_refused_with_the_remedy():
    for chat in (AsyncChat, Chat):
        with pytest.raises(TypeError, match=r"with_tools\(\*tools\)"):
            chat(ScriptedModel()).with_tools([])
