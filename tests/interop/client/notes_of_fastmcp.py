"""What a server on fastmcp asks and tells by the means of fastmcp."""

from dataclasses import dataclass
from typing import Any

import mcp_types
from fastmcp import Context, FastMCP

STATELESS = "2026-07-28"


@dataclass
class Confirmation:
    sure: bool
    seats: int = 2


def is_stateless(ctx: Context) -> bool:
    return ctx.session.protocol_version == STATELESS


def question(request: Any) -> mcp_types.InputRequiredResult:
    """Return what asks in the stateless era."""
    return mcp_types.InputRequiredResult(input_requests={"question": request})


def answer(ctx: Context) -> Any:
    return None if ctx.input_responses is None else ctx.input_responses["question"]


async def book(ctx: Context) -> Any:
    """Books when the user is sure."""
    if not is_stateless(ctx):
        said = await ctx.elicit("Are you sure?", Confirmation)
        return f"booked {said.data.seats}" if said.action == "accept" else said.action
    schema = {
        "type": "object",
        "properties": {"sure": {"type": "boolean"}, "seats": {"type": "integer", "default": 2}},
        "required": ["sure"],
    }
    params = mcp_types.ElicitRequestFormParams(message="Are you sure?", requested_schema=schema)
    given = answer(ctx)
    if given is None:
        return question(mcp_types.ElicitRequest(params=params))
    return f"booked {given.content['seats']}" if given.action == "accept" else given.action


async def think(topic: str, ctx: Context) -> Any:
    """Lets the client's model think about a topic."""
    messages = [mcp_types.SamplingMessage(role="user", content=mcp_types.TextContent(text=topic))]
    given: Any = answer(ctx)
    if not is_stateless(ctx):
        given = await ctx.session.create_message(messages, max_tokens=20, related_request_id=ctx.request_id)
    elif given is None:
        params = mcp_types.CreateMessageRequestParams(messages=messages, max_tokens=20)
        return question(mcp_types.CreateMessageRequest(params=params))
    return f"{given.model} says {given.content.text}"


async def where(ctx: Context) -> Any:
    """Tells the client's roots."""
    given: Any = answer(ctx)
    if not is_stateless(ctx):
        given = await ctx.session.list_roots()
    elif given is None:
        return question(mcp_types.ListRootsRequest())
    return ", ".join(str(root.uri) for root in given.roots)


async def sign_in(ctx: Context) -> Any:
    """Sends the user to a page."""
    given: Any = answer(ctx)
    if not is_stateless(ctx):
        given = await ctx.session.elicit_url("Sign in", "https://example.com/in", "one", ctx.request_id)
    elif given is None:
        params = mcp_types.ElicitRequestURLParams(message="Sign in", url="https://example.com/in", elicitation_id="one")
        return question(mcp_types.ElicitRequest(params=params))
    return given.action


def add_tools(server: FastMCP[Any]) -> None:
    """Add the tools."""

    for function in (book, think, where, sign_in):
        server.tool(output_schema=None)(function)

    @server.tool(output_schema=None)
    async def grow(ctx: Context) -> str:
        """Adds a tool."""

        @server.tool
        def grown() -> str:
            """Is new."""
            return "grown"

        await ctx.send_notification(mcp_types.ToolListChangedNotification())
        return "grew"
