"""A shop in which a weather server is mounted, for tests of mounting; as a program, it serves stdio or HTTP."""

import sys
from collections.abc import AsyncIterator
from typing import Annotated

from dragoman import Context, Lifespan, Server, types
from dragoman.server import ToolResult
from dragoman.stores import Memory

SECRET = "a secret of sixteen"
LEVELS = ["low", "high"]


def weather() -> Server:
    """Return a server with one of everything."""
    server = Server("weather", version="2", instructions="Ask for one city.", store=Memory(), secret=SECRET)
    opened: list[str] = []
    server.server_context = opened

    @server.lifespan
    async def station() -> AsyncIterator[str]:
        opened.append("opened")
        yield "station 7"
        opened.append("closed")

    @server.tool
    def forecast(city: str) -> str:
        return f"Sunny in {city}"

    @server.tool
    async def measure(where: Annotated[str, Lifespan(station)], ctx: Context) -> str:
        await ctx.report_progress(1, 2, "reading")
        await ctx.log("info", "measured")
        return f"21 at {where}"

    @server.tool
    async def ask(ctx: Context) -> str:
        city = await ctx.elicit("Which city?", str)
        day = await ctx.elicit("Which day?", str)
        return f"{city.content} on {day.content}"

    @server.tool
    async def links() -> ToolResult:
        contents = types.ResourceContents("data://cities", text="Oslo")
        return ToolResult(
            [
                types.ResourceLink(uri="data://cities", name="cities"),
                types.ResourceLink(uri="file:///elsewhere", name="not of this server"),
                types.EmbeddedResource(contents),
            ]
        )

    @server.tool
    async def touch(ctx: Context) -> str:
        await ctx.notify_resource_updated("data://cities")
        return "touched"

    @server.resource("data://cities")
    def cities() -> str:
        return "Oslo, Rome"

    @server.resource("data://cities/{city}/{level}")
    def city(city: str, level: str) -> str:
        return f"{city} {level}"

    @city.complete("level")
    def levels(value: str) -> list[str]:
        return [level for level in LEVELS if level.startswith(value)]

    @server.prompt
    def report(city: str) -> types.PromptMessage:
        return types.PromptMessage("user", types.ResourceLink(uri="data://cities", name=city))

    @report.complete("city")
    def places(value: str) -> list[str]:
        return [name for name in ("Oslo", "Rome") if name.startswith(value)]

    server.on_subscribe(opened.append)
    return server


def shop() -> Server:
    """Return a server of its own, in which nothing is mounted yet."""
    server = Server("shop", instructions="Be kind.", store=Memory(), secret=SECRET)

    @server.tool
    def buy(item: str) -> str:
        return f"bought {item}"

    @server.resource("data://prices")
    def prices() -> str:
        return "1"

    return server


def mounted() -> Server:
    """Return the shop with the weather in it."""
    server = shop()
    server.mount(weather(), prefix="weather")
    return server


if __name__ == "__main__":
    mounted().run("http", port=int(sys.argv[1])) if sys.argv[1:] else mounted().run()
