"""Servers in the shape of public ones that were written for fastmcp, after the changes that the guide names."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Annotated, Any

import pytest

from dragoman import AsyncClient, Context, Depends, Server, ToolError, ToolResult
from dragoman.types import Icon

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
