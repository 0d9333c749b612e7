"""A server that chooses what it serves to whom, and returns files."""

from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Literal, assert_type

from dragoman import AsyncClient, Audio, BlockingContext, Client, Context, File, Image, Server, Tool

server = Server("shop")


class Size(Enum):
    SMALL = "small"
    LARGE = "large"


@dataclass
class Order:
    number: int


def is_staff(ctx: Context) -> bool:
    return ctx.principal is not None and "staff" in (ctx.scopes or ())


async def is_tenant(ctx: Context) -> bool:
    return await ctx.user_state.get("tenant", str) == ctx.headers.get("X-Tenant")


@server.tool(tags={"admin"}, enabled=False, visible=is_staff)
async def ask(ctx: Context) -> str:
    assert_type((await ctx.elicit("Which size?", Size)).content, Size)
    assert_type((await ctx.elicit("How many?", int)).content, int)
    assert_type((await ctx.elicit("Really?", bool)).content, bool)
    return (await ctx.elicit("Which colour?", Literal["red", "blue"])).content


@server.tool(visible=lambda ctx: ctx.client.version.name > "2025")
def ask_blocking(ctx: BlockingContext) -> Size:
    colour: str = ctx.elicit("Which colour?", Literal["red", "blue"]).content
    print(colour)
    return ctx.elicit("Which size?", Size).content


@server.prompt(tags=["admin"], visible=is_tenant)
def look() -> list[str | Image]:
    return ["Look:", Image(path="chart.png")]


@server.resource("shop://orders/{number}", tags=("admin",), visible=is_tenant, enabled=True)
def order(number: int) -> Order:
    return Order(number)


@server.tool
def files() -> list[File | Image | Audio]:
    return [File("report.pdf"), File(Path("notes.md")), Image(b"png"), Audio(path=Path("hello.mp3"))]


class Till:
    def __init__(self, name: str) -> None:
        self.name = name

    def open(self, code: int) -> str:
        """Opens the till."""
        return f"{self.name} {code}"


till = Till("front")
opening = server.tool(till.open)
assert_type(opening(5), str)
server.add_tool(Till("back").open)


class Secret(Tool):
    tags = ("admin",)
    visible = None

    def call(self) -> str:
        return "42"


def serve() -> None:
    server.expose_as_tools(resources=True, prompts=False, tags={"public"})
    server.enable("ask")
    server.disable(opening)
    server.disable("look", kind="prompt")
    server.asgi(include_tags={"public"}, exclude_tags="admin")
    server.run(include_tags=["public"])
    server.run("http", port=0, exclude_tags={"admin"})


async def call(client: AsyncClient, blocking: Client) -> None:
    assert_type((await client.call_tool("order", result_type=Order)).structured, Order)
    assert_type((await client.call_tool("count", result_type=int)).structured, int)
    assert_type(blocking.call_tool("names", result_type=list[str]).structured, list[str])
