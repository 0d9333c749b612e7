"""A server of the official Python SDK with everything that it offers; run in the environment of the peers.

python mcp_server.py (stdio | http PORT | sse PORT)
"""

import base64
import sys
import warnings
from typing import Annotated, Any

import anyio
import mcp_types
from mcp.server.mcpserver import (
    Context,
    Elicit,
    ElicitationResult,
    Image,
    ListRoots,
    MCPServer,
    Resolve,
    Sample,
    UserMessage,
)
from mcp.server.mcpserver.exceptions import ToolError
from pydantic import BaseModel

warnings.simplefilter("ignore")
SECONDS = 30.0
PIXEL = base64.b64decode("R0lGODlhAQABAAAAACwAAAAAAQABAAA=")

server: MCPServer[Any] = MCPServer("Notes", version="1.2", instructions="Keep notes.", log_level="ERROR")
given_up = anyio.Event()
subscribed: set[str] = set()


class Weather(BaseModel):
    city: str
    degrees: float


class Confirmation(BaseModel):
    sure: bool
    seats: int = 2


@server.tool(structured_output=False)
def greet(name: str) -> str:
    """Greets."""
    return f"Hello {name}"


@server.tool()
def add(a: int, b: int) -> int:
    """Adds."""
    return a + b


@server.tool()
def weather(city: str) -> Weather:
    """Forecasts."""
    return Weather(city=city, degrees=7.5)


@server.tool()
def picture() -> Image:
    """Draws."""
    return Image(data=PIXEL, format="gif")


@server.tool(structured_output=False)
def embedded() -> mcp_types.EmbeddedResource:
    """Gives a note away."""
    return mcp_types.EmbeddedResource(resource=mcp_types.TextResourceContents(uri="note://motto", text="Onwards"))


@server.tool(structured_output=False)
def link() -> mcp_types.ResourceLink:
    """Points at a note."""
    return mcp_types.ResourceLink(uri="note://motto", name="motto")


@server.tool()
def fail() -> str:
    """Fails."""
    raise ToolError("Out of ink")


@server.tool(structured_output=False)
async def count(steps: int, ctx: Context) -> str:
    """Counts."""
    for step in range(1, steps + 1):
        await ctx.report_progress(step, steps, f"step {step}")
    return f"counted {steps}"


@server.tool(structured_output=False)
async def talk(ctx: Context) -> str:
    """Logs."""
    await ctx.info("quiet", logger_name="notes")
    await ctx.error({"loud": True}, logger_name="notes")
    return "said"


@server.tool(structured_output=False)
async def wait(ctx: Context) -> str:
    """Takes longer than anyone waits."""
    try:
        await ctx.report_progress(0)
        await anyio.sleep(SECONDS)
    finally:
        given_up.set()
    return "waited"


@server.tool(structured_output=False)
async def was_given_up() -> str:
    """Tells that the wait was cancelled."""
    with anyio.fail_after(SECONDS):
        await given_up.wait()
    return "yes"


def ask_for_confirmation() -> Elicit[Confirmation]:
    return Elicit("Are you sure?", Confirmation)


@server.tool(structured_output=False)
def book(answer: Annotated[ElicitationResult[Confirmation], Resolve(ask_for_confirmation)]) -> str:
    """Books when the user is sure."""
    return f"booked {answer.data.seats}" if answer.action == "accept" else answer.action


def ask_the_model(topic: str) -> Sample:
    text = mcp_types.TextContent(text=topic)
    return Sample([mcp_types.SamplingMessage(role="user", content=text)], max_tokens=20)


@server.tool(structured_output=False)
def think(topic: str, answer: Annotated[mcp_types.CreateMessageResult, Resolve(ask_the_model)]) -> str:
    """Lets the client's model think about a topic."""
    assert answer.content.type == "text"
    return f"{answer.model} says {answer.content.text}"


def ask_for_roots() -> ListRoots:
    return ListRoots()


@server.tool(structured_output=False)
def where(found: Annotated[mcp_types.ListRootsResult, Resolve(ask_for_roots)]) -> str:
    """Tells the client's roots."""
    return ", ".join(str(root.uri) for root in found.roots)


@server.tool(structured_output=False)
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


@server.tool(structured_output=False)
async def touch(uri: str, ctx: Context) -> str:
    """Tells that a note changed."""
    await ctx.notify_resource_updated(uri)
    if uri in subscribed:
        await ctx.session.send_resource_updated(uri)
    return "touched"


@server.tool(structured_output=False)
async def grow(ctx: Context) -> str:
    """Adds a tool."""
    server.add_tool(lambda: "grown", name="grown", description="Is new.", structured_output=False)
    await ctx.notify_tools_changed()
    if ctx.protocol_version != "2026-07-28":
        await ctx.session.send_tool_list_changed()
    return "grew"


@server.resource("note://motto", mime_type="text/plain")
def motto() -> str:
    """What we say."""
    return "Onwards"


@server.resource("note://pixel", mime_type="image/gif")
def pixel() -> bytes:
    """What we see."""
    return PIXEL


@server.resource("note://about/{topic}")
def about(topic: str) -> str:
    """What we know."""
    return f"All about {topic}"


@server.prompt()
def welcome(name: str, tone: str = "warm") -> str:
    """Welcomes."""
    return f"Welcome {name} in a {tone} tone"


@server.prompt()
def sketch() -> list[UserMessage]:
    """Shows."""
    shown = mcp_types.ImageContent(data=base64.b64encode(PIXEL).decode(), mime_type="image/gif")
    return [UserMessage("Look at this"), UserMessage(shown)]


TONES = {"welcome": ("warm", "wry", "cold"), "note://about/{topic}": ("tea", "time", "rain")}


@server.completion()
async def complete(ref: Any, argument: Any, context: Any) -> mcp_types.Completion:
    known = TONES.get(getattr(ref, "name", None) or str(getattr(ref, "uri", "")), ())
    said = (context.arguments or {}) if context is not None else {}
    found = [value for value in known if value.startswith(argument.value)] + [f"{key}={said[key]}" for key in said]
    return mcp_types.Completion(values=found, total=len(found), has_more=False)


async def subscribe(ctx: Any, params: mcp_types.SubscribeRequestParams) -> mcp_types.EmptyResult:
    subscribed.add(str(params.uri))
    return mcp_types.EmptyResult()


async def unsubscribe(ctx: Any, params: mcp_types.UnsubscribeRequestParams) -> mcp_types.EmptyResult:
    subscribed.discard(str(params.uri))
    return mcp_types.EmptyResult()


def main(transport: str, port: str = "0") -> None:
    low = server._lowlevel_server
    low.add_request_handler("resources/subscribe", mcp_types.SubscribeRequestParams, subscribe)
    low.add_request_handler("resources/unsubscribe", mcp_types.UnsubscribeRequestParams, unsubscribe)
    if transport == "stdio":
        server.run()
    elif transport == "http":
        server.run("streamable-http", host="127.0.0.1", port=int(port))
    else:
        server.run("sse", host="127.0.0.1", port=int(port))


if __name__ == "__main__":
    main(*sys.argv[1:])
