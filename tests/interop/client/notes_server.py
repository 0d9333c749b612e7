"""A server of the official Python SDK, or of fastmcp, with everything that it offers.

python notes_server.py (mcp|fastmcp) (stdio | http PORT | sse PORT), in the environment of the peers

What they write in their own ways is in `notes_of_mcp.py` and `notes_of_fastmcp.py`.
"""

import base64
import sys
import warnings
from typing import Any

import anyio
import mcp_types
from pydantic import BaseModel

LIBRARY = sys.argv[1]
OPTIONS: dict[str, Any] = {"version": "1.2", "instructions": "Keep notes."}
if LIBRARY == "mcp":
    import notes_of_mcp as own
    from mcp.server.mcpserver import Context, Image, MCPServer
    from mcp.server.mcpserver import UserMessage as Message
    from mcp.server.mcpserver.exceptions import ToolError

    server: Any = MCPServer("Notes", log_level="ERROR", **OPTIONS)
    PLAIN: dict[str, Any] = {"structured_output": False}
    LOUD: Any = {"loud": True}
    COMPLETION, RUNNING = server.completion(), {}
else:
    import notes_of_fastmcp as own
    from fastmcp import Context, FastMCP
    from fastmcp.exceptions import ToolError
    from fastmcp.prompts import Message
    from fastmcp.utilities.types import Image

    server = FastMCP("Notes", list_page_size=5, **OPTIONS)
    PLAIN = {"output_schema": None}
    LOUD = "loud"
    COMPLETION, RUNNING = server.completion, {"show_banner": False, "log_level": "ERROR"}

warnings.simplefilter("ignore")
SECONDS = 30.0
PIXEL = base64.b64decode("R0lGODlhAQABAAAAACwAAAAAAQABAAA=")
given_up = anyio.Event()


class Weather(BaseModel):
    city: str
    degrees: float


@server.tool(**PLAIN)
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


@server.tool(**PLAIN)
def embedded() -> mcp_types.EmbeddedResource:
    """Gives a note away."""
    return mcp_types.EmbeddedResource(resource=mcp_types.TextResourceContents(uri="note://motto", text="Onwards"))


@server.tool(**PLAIN)
def link() -> mcp_types.ResourceLink:
    """Points at a note."""
    return mcp_types.ResourceLink(uri="note://motto", name="motto")


@server.tool()
def fail() -> str:
    """Fails."""
    raise ToolError("Out of ink")


@server.tool(**PLAIN)
async def count(steps: int, ctx: Context) -> str:
    """Counts."""
    for step in range(1, steps + 1):
        await ctx.report_progress(step, steps, f"step {step}")
    return f"counted {steps}"


@server.tool(**PLAIN)
async def talk(ctx: Context) -> str:
    """Logs."""
    await ctx.info("quiet", logger_name="notes")
    await ctx.error(LOUD, logger_name="notes")
    return "said"


@server.tool(**PLAIN)
async def wait(ctx: Context) -> str:
    """Takes longer than anyone waits."""
    try:
        await ctx.report_progress(0)
        await anyio.sleep(SECONDS)
    finally:
        given_up.set()
    return "waited"


@server.tool(**PLAIN)
async def was_given_up() -> str:
    """Tells that the wait was cancelled."""
    with anyio.fail_after(SECONDS):
        await given_up.wait()
    return "yes"


own.add_tools(server)


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
def sketch() -> list[Message]:
    """Shows."""
    shown = mcp_types.ImageContent(data=base64.b64encode(PIXEL).decode(), mime_type="image/gif")
    return [Message("Look at this"), Message(shown)]


TONES = {"welcome": ("warm", "wry", "cold"), "note://about/{topic}": ("tea", "time", "rain")}


async def complete(ref: Any, argument: Any, context: Any) -> mcp_types.Completion:
    known = TONES.get(getattr(ref, "name", None) or str(getattr(ref, "uri", "")), ())
    said = (context.arguments or {}) if context is not None else {}
    found = [value for value in known if value.startswith(argument.value)] + [f"{key}={said[key]}" for key in said]
    return mcp_types.Completion(values=found, total=len(found), has_more=False)


COMPLETION(complete)


def main(transport: str, port: str = "0") -> None:
    if transport == "stdio":
        server.run("stdio", **RUNNING)
    else:
        name = {"http": "streamable-http"}.get(transport, transport)
        server.run(name, host="127.0.0.1", port=int(port), **RUNNING)


if __name__ == "__main__":
    main(*sys.argv[2:])
