"""Every door of apps and skills: what authors of servers write, and what clients and chats use."""

from pathlib import Path
from typing import assert_type

from dragoman import AsyncChat, AsyncClient, Chat, Client, Clients, Context, Server, Tool, apps, tool, types
from dragoman.client import Approval
from dragoman.errors import AppRefused, SkillRefused
from dragoman.skills import AsyncBoundSkill, BoundSkill, Skill
from dragoman.testing import ScriptedModel

server = Server("shop", resources=[apps.ui_resource("ui://shop/help.html", "<p>Help")])
server.add_app(
    "ui://shop/cart.html",
    Path("cart.html"),
    csp=apps.Csp(connect=["https://api.example.com"]),
    permissions=["clipboard_write"],
    border=True,
)


def page(id: str) -> str:
    return f"<p>{id}"


server.add_app("ui://shop/{id}.html", page, domain="shop.example.com")


@server.tool(ui="ui://shop/cart.html", ui_visibility=["model", "app"])
async def cart(ctx: Context) -> str:
    return "shown" if apps.supported(ctx) else "one apple"


@tool(ui="ui://shop/cart.html", ui_visibility="app")
def remove(item: str) -> str:
    return item


class Pay(Tool):
    ui = "ui://shop/cart.html"
    ui_visibility = ("model",)

    def call(self, amount: int) -> str:
        return str(amount)


server.add_skills("skills", prefix="shop")
server.add_skill(Path("skills/refunds"))
server.add_skill(Skill("refunds", "How to refund.", "Ask first.", files={"LIMITS.md": "100", "logo.png": b""}))


@server.skill
def plain() -> str:
    """How to greet."""
    return "Say hello."


@server.skill("news", description="What is new.", fields={"license": "MIT"})
async def news(path: str, ctx: Context) -> str | bytes | None:
    return ctx.principal if path == "SKILL.md" else None


def approve(call: Approval) -> bool:
    return call.server == "shop" and bool(call.arguments["files"])


def blocking() -> None:
    with Client(server, apps=True, extensions={"com.example/maps": {"zoom": 3}}) as client:
        shown = client.tool("cart")
        assert_type(shown.ui.resource_uri, str | None)
        assert_type(client.resource("ui://shop/cart.html").ui.csp, types.Csp | None)
        view = client.view(shown)
        try:
            print(client.call_from_app(view, "remove", {"item": "apple"}, raise_on_error=False).text, view.html)
        except AppRefused as error:
            print(error.code)
        skill: BoundSkill = client.skill("refunds")
        try:
            assert_type(skill.load(approve=approve), str)
            assert_type(skill.read("LIMITS.md"), str | bytes)
        except SkillRefused as error:
            print(error.uri, skill.refresh().is_approved)
        Chat(ScriptedModel("Hello")).with_tools(client).with_skills(client)
    with Clients({"shop": server}) as clients:
        print([(one.origin, one.name, one.files) for one in clients.skills()])


async def asynchronous() -> None:
    async with AsyncClient(server, apps={"mimeTypes": [apps.MIME_TYPE]}) as client:
        found: list[AsyncBoundSkill] = await client.skills()
        assert_type(await found[0].load(approve=True), str)
        view: apps.AppView = await client.view("cart")
        await client.call_from_app(view, "remove", {"item": "apple"}, timeout=3)
        AsyncChat(ScriptedModel("Hello")).with_skills(client)


if __name__ == "__main__":
    blocking()
