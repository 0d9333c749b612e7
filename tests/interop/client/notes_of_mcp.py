"""What a server on the official Python SDK asks and tells by the means of that SDK."""

from typing import Annotated, Any

import mcp_types
from mcp.server.mcpserver import Context, Elicit, ElicitationResult, ListRoots, MCPServer, Resolve, Sample
from pydantic import BaseModel

subscribed: set[str] = set()


class Confirmation(BaseModel):
    sure: bool
    seats: int = 2


def ask_for_confirmation() -> Elicit[Confirmation]:
    return Elicit("Are you sure?", Confirmation)


def ask_the_model(topic: str) -> Sample:
    text = mcp_types.TextContent(text=topic)
    return Sample([mcp_types.SamplingMessage(role="user", content=text)], max_tokens=20)


def ask_for_roots() -> ListRoots:
    return ListRoots()


async def subscribe(ctx: Any, params: mcp_types.SubscribeRequestParams) -> mcp_types.EmptyResult:
    subscribed.add(str(params.uri))
    return mcp_types.EmptyResult()


async def unsubscribe(ctx: Any, params: mcp_types.UnsubscribeRequestParams) -> mcp_types.EmptyResult:
    subscribed.discard(str(params.uri))
    return mcp_types.EmptyResult()


def book(answer: Annotated[ElicitationResult[Confirmation], Resolve(ask_for_confirmation)]) -> str:
    """Books when the user is sure."""
    return f"booked {answer.data.seats}" if answer.action == "accept" else answer.action


def think(topic: str, answer: Annotated[mcp_types.CreateMessageResult, Resolve(ask_the_model)]) -> str:
    """Lets the client's model think about a topic."""
    assert answer.content.type == "text"
    return f"{answer.model} says {answer.content.text}"


def where(found: Annotated[mcp_types.ListRootsResult, Resolve(ask_for_roots)]) -> str:
    """Tells the client's roots."""
    return ", ".join(str(root.uri) for root in found.roots)


async def sign_in(ctx: Context) -> Any:
    """Sends the user to a page."""
    if ctx.protocol_version == "2026-07-28":
        if ctx.input_responses is None:
            params = mcp_types.ElicitRequestURLParams(
                message="Sign in", url="https://example.com/in", elicitation_id="one"
            )
            return mcp_types.InputRequiredResult(input_requests={"page": mcp_types.ElicitRequest(params=params)})
        answer: Any = ctx.input_responses["page"]
        return answer.action
    return (await ctx.elicit_url("Sign in", "https://example.com/in", "one")).action


async def touch(uri: str, ctx: Context) -> str:
    """Tells that a note changed."""
    await ctx.notify_resource_updated(uri)
    if uri in subscribed:
        await ctx.session.send_resource_updated(uri)
    return "touched"


def add_tools(server: MCPServer[Any]) -> None:
    """Add the tools, and let clients subscribe to notes."""
    low = server._lowlevel_server
    low.add_request_handler("resources/subscribe", mcp_types.SubscribeRequestParams, subscribe)
    low.add_request_handler("resources/unsubscribe", mcp_types.UnsubscribeRequestParams, unsubscribe)

    for function in (book, think, where, sign_in, touch):
        server.tool(structured_output=False)(function)

    @server.tool(structured_output=False)
    async def grow(ctx: Context) -> str:
        """Adds a tool."""
        server.add_tool(lambda: "grown", name="grown", description="Is new.", structured_output=False)
        await ctx.notify_tools_changed()
        if ctx.protocol_version != "2026-07-28":
            await ctx.session.send_tool_list_changed()
        return "grew"
