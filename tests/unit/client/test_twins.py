"""Blocking twins: the same members and documentation as their asynchronous twins, and what they return."""

import inspect

import pytest

from dragoman import AsyncChat, AsyncClient, AsyncClients, Chat, Client, Clients, Server, chat
from dragoman.client import (
    AsyncBoundPrompt,
    AsyncBoundResource,
    AsyncBoundResourceTemplate,
    AsyncBoundTool,
    AsyncGroupTool,
    AsyncTask,
    BoundPrompt,
    BoundResource,
    BoundResourceTemplate,
    BoundTool,
    GroupTool,
    Task,
)
from dragoman.skills import AsyncBoundSkill, BoundSkill
from dragoman.testing import ScriptedModel

OF_THREADS_ALONE = {"start_call", "submit", "asynchronous"}
"""A task does in a loop what this does for threads."""
EVERY_PAIR = pytest.mark.parametrize(
    ("asynchronous", "blocking"),
    [
        (AsyncClient, Client),
        (AsyncClients, Clients),
        (AsyncChat, Chat),
        (AsyncBoundTool, BoundTool),
        (AsyncGroupTool, GroupTool),
        (AsyncBoundPrompt, BoundPrompt),
        (AsyncBoundResource, BoundResource),
        (AsyncBoundResourceTemplate, BoundResourceTemplate),
        (AsyncBoundSkill, BoundSkill),
        (AsyncTask, Task),
    ],
    ids=lambda face: face.__name__,
)
ATTRIBUTES = {"messages", "usage", "on_tool_call", "on_tool_result", "on_message", "definition", "entry"}
"""Attributes that only an object has."""
server = Server("shop")


@server.tool
def add(a: int, b: int) -> int:
    return a + b


def public(face):
    names = {name for name in dir(face) if not name.startswith("_")} - ATTRIBUTES
    return names | ({"__call__"} & set(dir(face)) if hasattr(face, "call") else set())


def comparable(text):
    return (
        str(text).replace("async with", "with").replace("async for", "for").replace("await ", "").replace("Async", "")
    )


@pytest.mark.covers("CLI-02", "CHAT-27")
@EVERY_PAIR
def test_both_twins_have_the_same_names_and_each_is_documented(asynchronous, blocking):
    assert public(blocking) - OF_THREADS_ALONE == public(asynchronous)
    for face in (asynchronous, blocking):
        assert inspect.getdoc(face)
        for name in public(face):
            assert inspect.getdoc(inspect.getattr_static(face, name)), f"{face.__name__}.{name}"


@EVERY_PAIR
def test_both_twins_have_the_same_parameters_and_documentation(asynchronous, blocking):
    for name in public(asynchronous):
        one, other = inspect.getattr_static(asynchronous, name), inspect.getattr_static(blocking, name)
        assert comparable(inspect.getdoc(one)) == comparable(inspect.getdoc(other)), name
        if isinstance(one, classmethod):
            one, other = one.__func__, other.__func__
        if inspect.isfunction(one):
            assert not inspect.iscoroutinefunction(other), name
            first, second = inspect.signature(one), inspect.signature(other)
            taken, also_taken = first.replace(return_annotation=""), second.replace(return_annotation="")
            assert comparable(taken) == comparable(also_taken), name
            if name != "stream":
                assert comparable(first.return_annotation) == comparable(second.return_annotation), name


@pytest.mark.parametrize(
    ("asynchronous", "blocking"), [(AsyncClient, Client), (AsyncClients, Clients), (AsyncChat, Chat)]
)
def test_both_twins_take_the_same_options(asynchronous, blocking):
    assert comparable(inspect.signature(asynchronous)) == comparable(inspect.signature(blocking))


def test_a_chat_has_the_same_attributes_in_both_kinds():
    model = ScriptedModel()
    for kind in (AsyncChat(model), Chat(model)):
        assert {"messages", "usage", "on_tool_call", "on_tool_result", "on_message"} <= set(dir(kind))


def test_every_public_name_of_the_chat_is_documented():
    for name in chat.__all__:
        assert inspect.getdoc(getattr(chat, name)), name


def test_the_signature_of_a_twin_names_the_blocking_class():
    assert str(inspect.signature(Client.tools)) == "(self, *, refresh: 'bool' = False) -> 'list[BoundTool]'"
    assert inspect.signature(Client.start_tool).return_annotation == "Task"
    assert Client.tools.__qualname__ == "AsyncClient.tools"


def test_the_objects_that_a_twin_returns_belong_to_the_blocking_client():
    with Client(server) as client:
        [tool] = client.tools()
        assert type(tool) is BoundTool
        assert tool.is_same_as(client.tool("add"))
        assert tool(a=1, b=2).structured == 3


def test_a_twin_of_a_method_that_returns_its_object_returns_the_blocking_object():
    client, conversation = Client(server), Chat(ScriptedModel())
    assert client.start() is client
    client.stop()
    assert conversation.with_temperature(0.5).with_instructions("Be brief.") is conversation


def test_a_wrong_argument_is_an_error_that_names_the_blocking_method():
    with Client(server) as client, pytest.raises(TypeError, match=r"^Client\.tool\(\) got an unexpected keyword"):
        client.tool("add", nope=True)
