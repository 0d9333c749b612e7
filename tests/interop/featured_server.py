"""A server with every feature that dragoman serves, written with the public names only.

python featured_server.py (main|routed|conversing) [PORT WORKERS]
"""

from __future__ import annotations

import asyncio
import sys
from dataclasses import dataclass
from datetime import date
from enum import Enum
from typing import Annotated, Any, Literal

from marks import marks
from msgspec import Meta

from dragoman import (
    Audio,
    BlockingContext,
    Context,
    Image,
    InvalidParams,
    Prompt,
    Resource,
    ResourceTemplate,
    RpcError,
    Server,
    Tool,
    ToolError,
    ToolResult,
    types,
)

ICON = {"src": "https://example.com/icon.png", "mimeType": "image/png", "sizes": ["48x48"], "theme": "dark"}

server = Server(
    "interop",
    title="Interoperability",
    version="1.2.3",
    description="Everything at once.",
    website_url="https://example.com",
    icons=[ICON],
    instructions="Use every tool.",
    page_size={"tools": 10, "resources": 2},
    ttl_ms=60_000,
    cache_scope="public",
)


# Tools.


@server.tool(
    title="Add",
    annotations={"readOnlyHint": True, "idempotentHint": True, "openWorldHint": False, "destructiveHint": False},
    meta={"example.com/kind": "sum"},
    icons=[ICON],
)
async def add(a: int, b: int = 40) -> int:
    """Adds two numbers.

    Args:
        a: The first.
        b: The second.
    """
    return a + b


@server.tool
def shout(text: str) -> str:
    """Says it louder, in a worker thread."""
    return text.upper()


@server.tool(inline=True)
def whisper(text: str) -> str:
    """Says it more quietly, in place."""
    return text.lower()


@dataclass
class Forecast:
    """What the weather will be."""

    city: str
    high: float
    on: date
    warnings: list[str]


@server.tool
async def forecast(city: str) -> Forecast:
    """Returns an object."""
    return Forecast(city, 21.5, date(2026, 7, 28), ["sun"])


@server.tool
async def cities() -> list[str]:
    """Returns a list."""
    return ["Oslo", "Bergen"]


@server.tool
async def perhaps(number: int | None = None) -> int | None:
    """Returns a number or null."""
    return number


@server.tool
async def picture() -> Image:
    """Returns an image."""
    return Image(b"\x89PNG", "image/png")


@server.tool
async def sound() -> Audio:
    """Returns sound."""
    return Audio(b"RIFF", "audio/wav")


@server.tool
async def attachment() -> types.EmbeddedResource:
    """Returns a resource within the content."""
    return types.EmbeddedResource(types.ResourceContents("memo://1", "text/plain", text="remember"))


@server.tool
async def link() -> types.ResourceLink:
    """Returns a link to a resource."""
    return types.ResourceLink(name="readme", uri="docs://readme", mime_type="text/markdown")


@server.tool
async def everything() -> list[Any]:
    """Returns several kinds of content at once."""
    return [
        types.TextContent("look", annotations=types.Annotations(audience=["user"], priority=0.5)),
        Image(b"\x89PNG", "image/png"),
        types.ResourceContents("memo://2", "application/octet-stream", blob="AAE="),
    ]


@server.tool
async def nothing() -> None:
    """Returns nothing."""


@server.tool
async def full_result() -> ToolResult:
    """Says each part of the result by itself."""
    return ToolResult("3 files", structured={"count": 3}, meta={"example.com/took": 12})


@server.tool
async def marked_failure() -> ToolResult:
    """Marks its own result as a failure."""
    return ToolResult("no such file", is_error=True)


@server.tool
async def refuse() -> str:
    """Raises what the model should read."""
    raise ToolError("The file is locked; close it first")


@server.tool
async def crash() -> str:
    """Raises what nobody should read."""
    raise ValueError("a secret")


@server.tool
async def reject() -> str:
    """Raises a JSON-RPC error of its own."""
    raise RpcError(-31999, "Not today", {"retryAfter": 60})


class Colour(Enum):
    """A colour."""

    RED = "red"
    BLUE = "blue"


@dataclass
class Point:
    """A place."""

    x: int
    y: int = 0


@server.tool
async def describe(
    when: date,
    colour: Colour,
    point: Point,
    size: Annotated[int, Meta(ge=1, le=9)],
    kind: Literal["big", "small"] = "big",
    label: str | None = None,
) -> str:
    """Takes typed arguments and says which types arrived."""
    return f"{when!r} {colour!r} {point!r} {size!r} {kind!r} {label!r}"


@server.tool(
    input_schema={
        "type": "object",
        "properties": {"code": {"type": "string", "pattern": "^[A-Z]{3}$"}},
        "required": ["code"],
        "additionalProperties": False,
    },
    output_schema={"type": "object", "properties": {"code": {"type": "string"}}, "required": ["code"]},
)
async def verbatim(code: str) -> dict[str, str]:
    """Has schemas that the author wrote."""
    return {"code": code}


@server.tool
async def who_asks(ctx: Context) -> dict[str, Any]:
    """Says what the request says of itself."""
    info = ctx.client.info
    return {
        "name": info.name if info else None,
        "version": info.version if info else None,
        "protocol": ctx.client.version.name,
        "trace": dict(ctx.trace),
        "custom": ctx.meta.get("example.com/custom"),
        "cancelled": ctx.cancelled,
    }


@server.tool
def who_asks_blocking(ctx: BlockingContext) -> str:
    """Says who asks, from a worker thread."""
    return ctx.client.info.name if ctx.client.info else "a stranger"


@server.tool
async def noisy() -> str:
    """Prints to stdout."""
    print("this must not reach the wire", flush=True)  # noqa: T201 - the wire must survive it
    return "said"


@server.tool
async def repeat(text: str, times: int) -> str:
    """Returns as much text as wanted."""
    return text * times


class Multiply(Tool):
    """Multiplies two numbers."""

    async def call(self, a: int, b: int) -> str:
        return str(a * b)


server.add_tool(Multiply)


# Calls that last until they are cancelled, and tools that wait for what became of them.

_began, _ended = marks(), marks()


@server.tool
async def hold(key: str) -> str:
    """Lasts until it is cancelled."""
    _began[key].set()
    try:
        await asyncio.Event().wait()
    finally:
        _ended[key].set()
    return "never"


@server.tool
async def held(key: str) -> str:
    """Waits until the call with a key runs."""
    await _began[key].wait()
    return f"{key} runs"


@server.tool
async def released(key: str) -> str:
    """Waits until the call with a key was cancelled."""
    await _ended[key].wait()
    return f"{key} was cancelled"


# Prompts.


@server.prompt(title="Review", meta={"example.com/kind": "review"}, icons=[ICON])
def review(code: str, tone: str = "kind") -> str:
    """Asks for a review.

    Args:
        code: What to review.
        tone: How to say it.
    """
    return f"Review in a {tone} tone: {code}"


@review.complete("tone")
def tones(value: str, arguments: dict[str, str]) -> list[str]:
    known = ("kind", "keen", "terse")
    return [f"{tone} {arguments['code']}" if "code" in arguments else tone for tone in known if tone.startswith(value)]


@server.prompt
async def dialogue(name: str) -> list[Any]:
    """Speaks in both roles."""
    return [
        f"Hello {name}",
        types.PromptMessage("assistant", types.TextContent("Hello!")),
        Image(b"\x89PNG", "image/png"),
        types.ResourceContents("memo://3", "text/plain", text="a memo"),
    ]


class Greet(Prompt):
    """Greets."""

    def render(self, name: str) -> str:
        return f"Greet {name}"


server.add_prompt(Greet)


# Resources.


@server.resource(
    "config://app",
    title="Configuration",
    mime_type="application/json",
    annotations={"audience": ["assistant"], "priority": 1.0},
    size=16,
    meta={"example.com/kind": "config"},
    icons=[ICON],
)
async def config() -> dict[str, Any]:
    """The configuration."""
    return {"debug": True}


@server.resource("docs://readme", mime_type="text/markdown")
def readme() -> str:
    """The readme."""
    return "# Read me"


@server.resource("images://logo", mime_type="image/png")
async def logo() -> bytes:
    """The logo."""
    return b"\x89PNG"


@server.resource("parts://all")
async def parts() -> list[types.ResourceContents]:
    """Several contents at once."""
    return [
        types.ResourceContents("parts://1", "text/plain", text="one"),
        types.ResourceContents("parts://2", "application/octet-stream", blob="Ag=="),
    ]


class Notes(Resource):
    """Notes of a class."""

    uri = "notes://all"

    def read(self) -> str:
        return "notes"


server.add_resource(Notes)


@server.resource("locked://door")
async def locked() -> str:
    """Cannot be read."""
    raise ValueError("a secret")


@server.resource("users://{user_id}/profile", mime_type="application/json", title="Profile")
async def profile(user_id: int) -> dict[str, int]:
    """The profile of a user."""
    return {"id": user_id}


@profile.complete("user_id")
async def user_ids(value: str) -> list[str]:
    return [str(number) for number in range(1000, 1250) if str(number).startswith(value)]


class Pages(ResourceTemplate):
    """Pages of a book."""

    uri_template = "book://{+path}"

    def read(self, path: str) -> str:
        return f"page {path}"


server.add_resource(Pages)


@server.on_complete
async def complete_anything(ref: Any, argument: Any, arguments: dict[str, str]) -> list[str]:
    return [f"{type(ref).__name__} {argument.name}={argument.value}"]


# Methods of the server's own.


@server.method("acme/add")
async def acme_add(a: int, b: int) -> dict[str, int]:
    return {"sum": a + b}


@server.method("acme/refuse")
def acme_refuse(params: dict[str, Any]) -> None:
    raise InvalidParams(f"Refused: {params['reason']}", {"reason": params["reason"]})


# A server whose author lists and reads resources by functions.

routed = Server("routed", page_size=1)


@routed.on_list_resources
async def list_by_author() -> list[types.Resource]:
    return [types.Resource(name="first", uri="any://1"), types.Resource(name="second", uri="any://2")]


@routed.on_read_resource
def read_by_author(uri: str) -> str:
    return f"read {uri}"


def main(name: str, port: str = "", workers: str = "1") -> None:
    """Serve by stdio, or by HTTP at a port."""
    from conversing_server import server as conversing

    chosen = {"main": server, "routed": routed, "conversing": conversing}[name]
    if port:
        chosen.run("http", port=int(port), workers=int(workers))
    else:
        chosen.run()


if __name__ == "__main__":
    main(*sys.argv[1:])
