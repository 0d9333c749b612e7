"""A server over HTTP with a lifespan, dependencies, questions to the user, progress and tokens, as a team writes it."""

import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import date
from typing import Annotated, Literal

from pydantic import BaseModel, Field

from dragoman import Context, Depends, Lifespan, Server, ToolError
from dragoman.auth import Bearer, Jwt
from dragoman.server import Header
from dragoman.server.middleware import RateLimit
from dragoman.types import ToolAnnotations


class Book(BaseModel):
    isbn: str = Field(pattern=r"^\d{13}$")
    title: str
    price: float = Field(ge=0)


@dataclass
class Shelf:
    books: dict[str, Book] = field(default_factory=dict[str, Book])
    orders: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])

    async def close(self) -> None:
        self.books.clear()


@dataclass
class Delivery:
    street: str
    wrapping: Literal["none", "gift"] = "none"
    day: date | None = None


@asynccontextmanager
async def open_shelf(server: Server) -> AsyncGenerator[Shelf, None]:
    shelf = Shelf({"9780000000001": Book(isbn="9780000000001", title=f"All about {server.name}", price=12.5)})
    try:
        yield shelf
    finally:
        await shelf.close()


server = Server("bookshop", version="2.1", lifespan=open_shelf, instructions="Sells books.")
server.middleware(RateLimit(100, seconds=60))


def customer(ctx: Context, tenant: Annotated[str | None, Header("x-tenant")] = None) -> str:
    return f"{tenant or 'main'}:{ctx.principal or 'guest'}"


async def basket(shelf: Annotated[Shelf, Lifespan()], name: Annotated[str, Depends(customer)]) -> list[str]:
    return [isbn for who, isbn in shelf.orders if who == name]


@server.tool(annotations=ToolAnnotations(read_only_hint=True), tags={"public"})
async def find(
    words: Annotated[str, Field(min_length=2, description="Words of the title")],
    shelf: Annotated[Shelf, Lifespan()],
    limit: int = 10,
) -> list[Book]:
    """Finds books by their titles."""
    found = [book for book in shelf.books.values() if words.lower() in book.title.lower()]
    return sorted(found, key=lambda book: book.price)[:limit]


@server.tool(scopes=["orders"], timeout=60)
async def order(
    isbns: list[str],
    ctx: Context,
    shelf: Annotated[Shelf, Lifespan()],
    name: Annotated[str, Depends(customer)],
    ordered: Annotated[list[str], Depends(basket)],
) -> str:
    """Orders books, after the user has said where to."""
    missing = [isbn for isbn in isbns if isbn not in shelf.books]
    if missing:
        raise ToolError(f"There is no book {missing[0]}; `find` lists what there is.")
    answer = await ctx.elicit(f"Where shall {len(isbns) + len(ordered)} books go?", Delivery)
    if not answer.accepted:
        return "Nothing was ordered."
    for number, isbn in enumerate(isbns, 1):
        await ctx.report_progress(number, total=len(isbns), message=shelf.books[isbn].title)
        shelf.orders.append((name, isbn))
    day = answer.content.day
    return f"To {answer.content.street}, {answer.content.wrapping}, {day.isoformat() if day else 'soon'}"


@server.resource("book://{isbn}", mime_type="application/json")
async def book(isbn: str, shelf: Annotated[Shelf, Lifespan()]) -> Book:
    return shelf.books[isbn]


@server.prompt
def recommend(taste: Literal["short", "long"] = "short") -> str:
    return f"Recommend a {taste} book."


if __name__ == "__main__":
    verifier = Jwt(issuer=os.environ["ISSUER"])
    tokens = Bearer(verifier, resource="https://books.example.com/mcp", required_scopes=["books"])
    server.run("http", port=8000, auth=tokens)
