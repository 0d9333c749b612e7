"""Servers in the shape of public ones that were written for fastmcp, after the changes that the guide names."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Annotated, Any

import aiohttp
import pytest

from dragoman import AsyncClient, Context, Depends, Server, ToolError, ToolResult, tool
from dragoman.auth import Identity
from dragoman.errors import AuthRequired, InternalError
from dragoman.server import CallNext, HttpRequest, RouteRequest
from dragoman.types import Icon, ImageContent, ResourceContents, TextContent
from scenarios.http.test_uvicorn import running

if TYPE_CHECKING:
    from studio import Styles  # exists for type checkers only


class Shelf:
    """A cache that must be closed."""

    def __init__(self) -> None:
        self.prices: dict[str, float] | None = {"bread": 1.5, "milk": 0.9}

    async def close(self) -> None:
        self.prices = None


@asynccontextmanager
async def open_shop(server: Server) -> AsyncIterator[dict[str, Any]]:
    shelf = Shelf()
    try:
        yield {"shelf": shelf, "currency": "EUR"}
    finally:
        await shelf.close()


async def test_a_lifespan_that_yields_a_dict_is_read_from_the_context():
    mcp = Server("groceries", lifespan=open_shop)
    shelves = []

    @mcp.tool
    async def cost(items: list[str], ctx: Context, servings: float | None = None) -> dict[str, Any]:
        """Cost a list of groceries."""
        shelf: Shelf = ctx.lifespan["shelf"]
        shelves.append(shelf)
        assert shelf.prices is not None
        total = sum(shelf.prices.get(item, 0) for item in items)
        return {"total": total, "each": total / servings if servings else None, "currency": ctx.lifespan["currency"]}

    async with AsyncClient(mcp) as client:
        told = await client.call_tool("cost", {"items": ["bread", "milk"], "servings": 2})
        assert told.structured == {"total": 2.4, "each": 1.2, "currency": "EUR"}
    assert [shelf.prices for shelf in shelves] == [None]


class Tracker:
    """An API that tools get by a dependency."""

    def projects(self, query: str | None) -> list[str]:
        if query == "?":
            raise LookupError("a question mark is no query")
        return [name for name in ("ALPHA", "BETA") if query is None or query in name]


def get_tracker() -> Tracker:
    return Tracker()


async def test_tools_and_resources_get_an_api_by_a_dependency_in_the_form_of_a_default():
    mcp = Server("tracker", instructions="Ask for projects first.")

    @mcp.tool(annotations={"readOnlyHint": True})
    async def projects(
        query: Annotated[str | None, "A part of the name"] = None,
        raw: Annotated[bool, "Return the list"] = False,
        *,
        ctx: Context,
        tracker: Tracker = Depends(get_tracker),
    ) -> str | ToolResult:
        """List projects."""
        await ctx.info(f"listing {query}")
        try:
            found = tracker.projects(query)
        except LookupError as error:
            raise ToolError(str(error)) from error
        return ToolResult(content=", ".join(found), structured={"data": found}) if raw else ", ".join(found)

    @mcp.resource("data://projects")
    def all_projects(tracker: Tracker = Depends(get_tracker)) -> str:
        return ", ".join(tracker.projects(None))

    async with AsyncClient(mcp) as client:
        assert (await client.call_tool("projects", {"query": "AL"})).text == "ALPHA"
        assert (await client.call_tool("projects", {"raw": True})).structured == {"data": ["ALPHA", "BETA"]}
        assert (await client.read_resource("data://projects")).contents[0].text == "ALPHA, BETA"
        with pytest.raises(ToolError, match="a question mark is no query"):
            await client.call_tool("projects", {"query": "?"})
        (tool,) = await client.tools()
        assert tool.input_schema["properties"].keys() == {"query", "raw"}


def get_styles(ctx: Context) -> Styles:
    return ctx.lifespan["styles"]


async def test_prompts_get_what_the_lifespan_opened_by_a_dependency_whose_type_is_not_there_at_run_time():
    left = []

    @asynccontextmanager
    async def open_studio(_mcp: object) -> AsyncIterator[dict[str, Any]]:
        try:
            yield {"styles": {"ink": "black lines"}}
        finally:
            left.append("studio")

    mcp = Server("studio", lifespan=open_studio)

    @mcp.prompt(name="apply_style", icons=[Icon(src="https://example.com/ink.svg", mime_type="image/svg+xml")])
    def apply_style(style: str, wish: str, styles: Styles = Depends(get_styles)) -> str:
        """Apply a style to a wish."""
        return f"{wish}, {styles.get(style, 'in no style')}"

    async with AsyncClient(mcp) as client:
        (prompt,) = await client.prompts()
        assert [argument.name for argument in prompt.arguments] == ["style", "wish"]
        got = await client.get_prompt("apply_style", {"style": "ink", "wish": "A cat"})
        assert got.messages[0].content.text == "A cat, black lines"
    assert left == ["studio"]


class GalleryError(ToolError):
    """An exception of the author, whose base class was `Exception`."""

    def __init__(self, picture: str, reason: str) -> None:
        super().__init__(f"[{picture}] {reason}")


class Gallery:
    """What the lifespan opens: pictures, and the visitors who are there."""

    def __init__(self) -> None:
        self.pictures = {"sea": b"blue", "hill": b"green"}
        self.visitors: list[str] = []

    def find(self, name: str) -> bytes:
        if name not in self.pictures:
            raise GalleryError(name, "hangs nowhere")
        return self.pictures[name]


def get_gallery(ctx: Context) -> Gallery:
    return ctx.lifespan["gallery"]


@asynccontextmanager
async def get_visitor(ctx: Context, gallery: Gallery = Depends(get_gallery)) -> AsyncIterator[str]:
    visitor = ctx.claims.get("name", "somebody")
    gallery.visitors.append(visitor)
    try:
        yield visitor
    finally:
        gallery.visitors.remove(visitor)


@tool(tags={"write"})
async def paint(name: str, gallery: Gallery = Depends(get_gallery), visitor: str = Depends(get_visitor)) -> ToolResult:
    """Hang a picture."""
    if name in gallery.pictures:
        raise GalleryError(name, "hangs already")
    gallery.pictures[name] = b"new"
    return ToolResult(content=[TextContent(text=f"{visitor} painted {name}"), ImageContent(b"new", "image/png")])


@tool(tags={"read"})
async def pictures(gallery: Gallery = Depends(get_gallery), visitor: str = Depends(get_visitor)) -> str:
    """List the pictures."""
    return f"{visitor} sees {', '.join(gallery.pictures)}"


class CallLog:
    """A middleware that was a class with `on_call_tool`."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    async def __call__(self, ctx: Context, call_next: CallNext) -> object:
        if ctx.method != "tools/call":
            return await call_next()
        result = await call_next()
        request = ctx.headers.get("X-Request-ID", "no id")
        self.lines.append(f"{request}: {ctx.params.name} {'failed' if result.is_error else 'done'}")  # type: ignore[attr-defined]
        return result


class Tickets:
    """An object that verifies tokens, and was a `TokenVerifier`."""

    async def __call__(self, request: HttpRequest) -> Identity | None:
        scheme, _, token = request.headers.get("Authorization", "").partition(" ")
        return Identity("visitor", claims={"name": token}) if scheme == "Bearer" and token == "ann" else None


def gallery_server(log: CallLog) -> Server:
    @asynccontextmanager
    async def open_gallery(_server: Server) -> AsyncIterator[dict[str, Any]]:
        gallery = Gallery()
        yield {"gallery": gallery}
        log.lines.append(f"closed with {len(gallery.visitors)} visitors")

    mcp = Server("gallery", lifespan=open_gallery, tools=[paint, pictures])
    mcp.middleware(log)

    @mcp.resource("picture://{name}/view{?format,width}", mime_type="application/octet-stream")
    async def view(
        name: str, format: str = "", width: int = 0, gallery: Gallery = Depends(get_gallery), *, ctx: Context
    ) -> ResourceContents:
        data = gallery.find(name)[: width or None]
        return ResourceContents(ctx.params.uri, f"image/{format or 'png'}", blob=data)

    @mcp.route("/health")
    async def health(_request: RouteRequest) -> dict[str, str]:
        return {"status": "healthy"}

    return mcp


async def test_exceptions_of_the_author_reach_the_client_from_tools_and_resources_when_they_are_tool_errors():
    log = CallLog()
    async with AsyncClient(gallery_server(log)) as client:
        painted = await client.call_tool("paint", {"name": "moon"})
        assert [type(block) for block in painted.content] == [TextContent, ImageContent]
        assert painted.text == "somebody painted moon"
        with pytest.raises(ToolError, match=r"^\[sea\] hangs already$"):
            await client.call_tool("paint", {"name": "sea"})
        with pytest.raises(InternalError, match=r"\[sky\] hangs nowhere"):
            await client.read_resource("picture://sky/view")
    assert log.lines == ["no id: paint done", "no id: paint failed", "closed with 0 visitors"]


async def test_a_template_with_a_query_says_the_mime_type_of_each_reading():
    async with AsyncClient(gallery_server(CallLog())) as client:
        (whole,) = (await client.read_resource("picture://sea/view")).contents
        assert (whole.uri, whole.mime_type, b64decode(whole.blob)) == ("picture://sea/view", "image/png", b"blue")
        (part,) = (await client.read_resource("picture://hill/view?format=webp&width=2")).contents
        assert (part.mime_type, b64decode(part.blob)) == ("image/webp", b"gr")


@pytest.mark.parametrize("mode", ["stateless", "handshake"])
async def test_over_http_a_dependency_reads_the_claims_and_tags_hide_what_writes(mode: str):
    log = CallLog()
    app = gallery_server(log).asgi(auth=Tickets(), exclude_tags={"write"})
    async with running(app) as port:
        url = f"http://127.0.0.1:{port}/mcp"
        async with AsyncClient(url, auth="ann", headers={"X-Request-ID": "r-17"}, mode=mode) as client:
            assert [tool.name for tool in await client.tools()] == ["pictures"]
            assert (await client.call_tool("pictures")).text == "ann sees sea, hill"
        with pytest.raises(AuthRequired):
            await AsyncClient(url, auth="bob", mode=mode).start()
        async with aiohttp.ClientSession() as session, session.get(f"http://127.0.0.1:{port}/health") as health:
            assert await health.json() == {"status": "healthy"}
    assert log.lines == ["r-17: pictures done", "closed with 0 visitors"]
