"""Lifespans and dependencies in both forms, as a user would write them."""

from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Annotated

from dragoman import BlockingContext, Client, Context, Depends, Lifespan, Server
from dragoman.server import Header


class Database:
    def names(self) -> list[str]:
        return ["ann"]


@asynccontextmanager
async def open_database(server: Server) -> AsyncGenerator[Database, None]:
    yield Database()


server = Server("shop", lifespan=open_database)


@server.lifespan
async def opened() -> AsyncIterator[int]:
    yield 3


@server.lifespan
@asynccontextmanager
async def managed() -> AsyncGenerator[None, None]:
    yield


def current_user(ctx: Context, tenant: Annotated[str | None, Header("x-tenant")]) -> str:
    return f"{tenant} {ctx.principal}"


def session(database: Annotated[Database, Lifespan()], ctx: BlockingContext) -> Iterator[list[str]]:
    ctx.info("opened")
    yield database.names()


async def count(names: Annotated[list[str], Depends(session)]) -> AsyncIterator[int]:
    yield len(names)


class Page:
    def __init__(self, size: int = 10) -> None:
        self.size = size


@server.tool
async def annotated(
    size: int,
    user: Annotated[str, Depends(current_user)],
    number: Annotated[int, Depends(count, use_cache=False)],
    page: Annotated[Page, Depends()],
    limit: Annotated[int, Lifespan(opened)],
) -> str:
    return user.upper() + str(number + page.size + limit)


@server.tool
def by_default(user: str = Depends(current_user), names: list[str] = Depends(session)) -> str:
    return user.upper() + "".join(names)


@server.prompt
async def prompt(tone: str, ctx: Context, user: str = Depends(current_user)) -> str:
    return f"{tone} {user} {ctx.lifespan}"


def fake_user() -> str:
    return "ann"


with server.override(current_user, fake_user), Client(server) as client:
    text: str = client.call_tool("annotated", {"size": 1}).text
undo = server.override(open_database, Database)
undo.close()
