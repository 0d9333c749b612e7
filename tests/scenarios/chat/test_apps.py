"""A chat and tools that belong to apps."""

import pytest

from dragoman import AsyncChat, AsyncClient, Chat, Client, Server
from dragoman.testing import ScriptedModel
from scenarios.chat_checks import call


def shop() -> Server:
    server = Server("shop")
    server.add_app("ui://shop/cart.html", "<p>")
    for name, visibility in {"cart": None, "remove": ["app"], "pay": ["model"], "both": ["model", "app"]}.items():
        server.tool(name=name, ui="ui://shop/cart.html", ui_visibility=visibility, inline=True)(lambda: "done")
    server.tool(name="odd", meta={"ui": {"visibility": 5}}, inline=True)(lambda: "done")
    return server


@pytest.mark.covers("APP-09")
async def test_a_model_sees_only_tools_that_are_visible_to_models(era):
    model = ScriptedModel(call("remove"), call("cart"), "Done.")
    async with AsyncClient(shop(), mode=era) as client:
        reply = await AsyncChat(model).with_tools(client).ask("Clear the cart")
    for request in model.requests:
        assert [tool.name for tool in request.tools] == ["cart", "pay", "both"]
    refused, made = reply.tool_results
    assert refused.is_error
    assert refused.text == "Error: There is no tool 'remove'; there are: cart, pay, both"
    assert made.text == "done"


@pytest.mark.covers("APP-09")
def test_neither_does_a_tool_that_is_given_by_itself(era):
    model = ScriptedModel("Nothing to do.")
    with Client(shop(), mode=era) as client:
        Chat(model).with_tools(client.tool("remove"), client.tool("pay")).ask("Clear the cart")
    assert [tool.name for tool in model.requests[0].tools] == ["pay"]
