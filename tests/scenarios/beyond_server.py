"""A server of all that the official conformance suite does not look at: run as a process, or imported and served.

python -m dragoman run tests/scenarios/beyond_server.py
"""

import asyncio
from dataclasses import dataclass
from typing import Annotated, Any

from msgspec import Meta

from dragoman import Context, Server
from dragoman.types import ResourceLink, TextContent, Tool, ToolUseContent

SECRET = "a secret that is long enough for a key"
NOTES = {"1": "Buy a coat."}
ODD_URI = "note://=?base64?bm90ZQ==?="
LOOK_UP = Tool(name="look_up", input_schema={"type": "object", "properties": {"word": {"type": "string"}}})


@dataclass
class Weather:
    city: str
    celsius: float


def make() -> Server:
    """Return a server that shares nothing with another."""
    server = Server("beyond", secret=SECRET, page_size={"tools": 3}, ttl_ms=60_000, cache_scope="public")
    add_results(server)
    add_questions(server)
    add_waiting(server)
    add_named(server)
    return server


def add_results(server: Server) -> None:
    @server.tool
    async def weather(city: str, days: Annotated[int, Meta(ge=1, le=7)] = 1) -> Weather:
        return Weather(city, 20.5 + days)

    @server.tool(output_schema={"type": "object", "properties": {"sum": {"type": "integer"}}, "required": ["sum"]})
    async def lie() -> dict[str, Any]:
        return {"sum": "not a number"}

    @server.tool
    async def link() -> list[Any]:
        return ["The note:", ResourceLink(uri="note://1", name="first", mime_type="text/plain", size=11)]


def add_questions(server: Server) -> None:
    @server.tool
    async def visit(ctx: Context) -> str:
        answer = await ctx.elicit_url("Please log in", "https://example.com/login?who=me", "login-1")
        return f"{answer.action} {answer.content if answer.accepted else None}"

    @server.tool
    async def reason(ctx: Context) -> str:
        answer = await ctx.sample("What is a dragoman?", tools=[LOOK_UP], tool_choice={"mode": "required"})
        blocks = answer.content if isinstance(answer.content, list) else [answer.content]
        assert all(isinstance(block, ToolUseContent | TextContent) for block in blocks)
        used = [f"{block.name} {block.input}" for block in blocks if isinstance(block, ToolUseContent)]
        return f"{answer.stop_reason}: {', '.join(used)}"

    @server.tool
    async def roots(ctx: Context) -> str:
        return " ".join(f"{root.name}={root.uri}" for root in await ctx.list_roots())


def add_waiting(server: Server) -> None:
    cancelled: list[str] = []

    @server.tool
    async def wait(name: str, ctx: Context) -> str:
        await ctx.report_progress(1, total=2, message="waiting")
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.append(name)
            raise
        return "never"

    @server.tool
    async def given_up() -> list[str]:
        return cancelled

    @server.tool
    async def change(uri: str) -> str:
        server.notify_resource_updated(uri)
        server.notify_tools_list_changed()
        return "told"

    @server.on_subscribe
    async def follow(uri: str) -> None:
        pass


def add_named(server: Server) -> None:
    @server.resource("note://{id}", mime_type="text/plain")
    async def note(id: str) -> str:
        return NOTES.get(id, f"about {id}")

    @server.resource(ODD_URI, name="odd")
    async def odd() -> str:
        return "not what it looks like"

    @server.prompt(name="=?base64?eA==?=")
    async def sentinel() -> str:
        return "a prompt called like a header"

    @server.prompt(name="zoë")
    async def greeting() -> str:
        return "a prompt that no header carries"


server = make()
