"""A server of fastmcp with everything that it offers; run in the environment of the peers.

python fastmcp_server.py (stdio | http PORT | sse PORT)
"""

import base64
import sys
import warnings
from dataclasses import dataclass
from typing import Any

import anyio
import mcp_types
from fastmcp import Context, FastMCP
from fastmcp.exceptions import ToolError
from fastmcp.prompts import Message
from fastmcp.utilities.types import Image

warnings.simplefilter("ignore")
SECONDS = 30.0
PIXEL = base64.b64decode("R0lGODlhAQABAAAAACwAAAAAAQABAAA=")
STATELESS = "2026-07-28"

server: FastMCP[Any] = FastMCP("Notes", version="1.2", instructions="Keep notes.", list_page_size=5)
given_up = anyio.Event()


@dataclass
class Weather:
    city: str
    degrees: float


@dataclass
class Confirmation:
    sure: bool
    seats: int = 2


@server.tool(output_schema=None)
def greet(name: str) -> str:
    """Greets."""
    return f"Hello {name}"


@server.tool
def add(a: int, b: int) -> int:
    """Adds."""
    return a + b


@server.tool
def weather(city: str) -> Weather:
    """Forecasts."""
    return Weather(city, 7.5)


@server.tool
def picture() -> Image:
    """Draws."""
    return Image(data=PIXEL, format="gif")


@server.tool
def embedded() -> mcp_types.EmbeddedResource:
    """Gives a note away."""
    return mcp_types.EmbeddedResource(resource=mcp_types.TextResourceContents(uri="note://motto", text="Onwards"))


@server.tool
def link() -> mcp_types.ResourceLink:
    """Points at a note."""
    return mcp_types.ResourceLink(uri="note://motto", name="motto")


@server.tool
def fail() -> str:
    """Fails."""
    raise ToolError("Out of ink")


@server.tool(output_schema=None)
async def count(steps: int, ctx: Context) -> str:
    """Counts."""
    for step in range(1, steps + 1):
        await ctx.report_progress(step, steps, f"step {step}")
    return f"counted {steps}"


@server.tool(output_schema=None)
async def talk(ctx: Context) -> str:
    """Logs."""
    await ctx.info("quiet", logger_name="notes")
    await ctx.error("loud", logger_name="notes")
    return "said"


@server.tool(output_schema=None)
async def wait(ctx: Context) -> str:
    """Takes longer than anyone waits."""
    try:
        await ctx.report_progress(0)
        await anyio.sleep(SECONDS)
    finally:
        given_up.set()
    return "waited"


@server.tool(output_schema=None)
async def was_given_up() -> str:
    """Tells that the wait was cancelled."""
    with anyio.fail_after(SECONDS):
        await given_up.wait()
    return "yes"


def is_stateless(ctx: Context) -> bool:
    return ctx.session.protocol_version == STATELESS


def question(request: Any) -> mcp_types.InputRequiredResult:
    """Return what asks in the stateless era."""
    return mcp_types.InputRequiredResult(input_requests={"question": request})


def answer(ctx: Context) -> Any:
    return None if ctx.input_responses is None else ctx.input_responses["question"]


@server.tool(output_schema=None)
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


@server.tool(output_schema=None)
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


@server.tool(output_schema=None)
async def where(ctx: Context) -> Any:
    """Tells the client's roots."""
    given: Any = answer(ctx)
    if not is_stateless(ctx):
        given = await ctx.session.list_roots()
    elif given is None:
        return question(mcp_types.ListRootsRequest())
    return ", ".join(str(root.uri) for root in given.roots)


@server.tool(output_schema=None)
async def sign_in(ctx: Context) -> Any:
    """Sends the user to a page."""
    given: Any = answer(ctx)
    if not is_stateless(ctx):
        given = await ctx.session.elicit_url("Sign in", "https://example.com/in", "one", ctx.request_id)
    elif given is None:
        params = mcp_types.ElicitRequestURLParams(message="Sign in", url="https://example.com/in", elicitation_id="one")
        return question(mcp_types.ElicitRequest(params=params))
    return given.action


@server.tool(output_schema=None)
async def grow(ctx: Context) -> str:
    """Adds a tool."""

    @server.tool
    def grown() -> str:
        """Is new."""
        return "grown"

    await ctx.send_notification(mcp_types.ToolListChangedNotification())
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


@server.prompt
def welcome(name: str, tone: str = "warm") -> str:
    """Welcomes."""
    return f"Welcome {name} in a {tone} tone"


@server.prompt
def sketch() -> list[Message]:
    """Shows."""
    shown = mcp_types.ImageContent(data=base64.b64encode(PIXEL).decode(), mime_type="image/gif")
    return [Message("Look at this"), Message(shown)]


TONES = {"welcome": ("warm", "wry", "cold"), "note://about/{topic}": ("tea", "time", "rain")}


@server.completion
def complete(ref: Any, argument: Any, context: Any) -> mcp_types.Completion:
    known = TONES.get(getattr(ref, "name", None) or str(getattr(ref, "uri", "")), ())
    said = (context.arguments or {}) if context is not None else {}
    found = [value for value in known if value.startswith(argument.value)] + [f"{key}={said[key]}" for key in said]
    return mcp_types.Completion(values=found, total=len(found), has_more=False)


def main(transport: str, port: str = "0") -> None:
    if transport == "stdio":
        server.run("stdio", show_banner=False, log_level="ERROR")
    else:
        server.run(transport, show_banner=False, host="127.0.0.1", port=int(port), log_level="ERROR")  # type: ignore[arg-type]


if __name__ == "__main__":
    main(*sys.argv[1:])
