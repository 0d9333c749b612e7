"""A server of all that the official conformance suite does not look at: run as a process, or imported and served.

python -m dragoman run tests/scenarios/beyond_server.py
"""

from dataclasses import dataclass
from typing import Annotated, Any

from msgspec import Meta

from dragoman import Server
from dragoman.types import ResourceLink

SECRET = "a secret that is long enough for a key"
NOTES = {"1": "Buy a coat."}
ODD_URI = "note://=?base64?bm90ZQ==?="


@dataclass
class Weather:
    city: str
    celsius: float


def make() -> Server:
    """Return a server that shares nothing with another."""
    server = Server("beyond", secret=SECRET, page_size={"tools": 2}, ttl_ms=60_000, cache_scope="public")
    add_results(server)
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
