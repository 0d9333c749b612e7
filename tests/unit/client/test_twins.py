"""Blocking twins: what they return, and what `help` shows of them."""

import inspect

import pytest

from dragoman import Chat, Client, Server
from dragoman.client import BoundTool
from dragoman.testing import ScriptedModel

server = Server("shop")


@server.tool
def add(a: int, b: int) -> int:
    return a + b


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
    client, chat = Client(server), Chat(ScriptedModel())
    assert client.start() is client
    client.stop()
    assert chat.with_temperature(0.5).with_instructions("Be brief.") is chat


def test_a_wrong_argument_is_an_error_that_names_the_blocking_method():
    with Client(server) as client, pytest.raises(TypeError, match=r"^Client\.tool\(\) got an unexpected keyword"):
        client.tool("add", nope=True)
