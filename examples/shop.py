"""A shop: a database that exists while the server serves, and a connection for each call.

python examples/shop.py
"""

import sqlite3
from collections.abc import AsyncIterator, Iterator
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

from dragoman import Context, Depends, Lifespan, Server, ToolError


async def open_database() -> AsyncIterator[Path]:
    """Make the database before the server serves, and remove it afterwards."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "shop.db"
        with closing(sqlite3.connect(path)) as connection:
            connection.execute("create table orders (customer text, item text)")
        yield path


server = Server("shop", lifespan=open_database)


def customer(ctx: Context) -> str:
    """Return who calls."""
    return ctx.principal or "a guest"


def connect(path: Annotated[Path, Lifespan()]) -> Iterator[sqlite3.Connection]:
    """Open a connection for one call, and close it after the response."""
    with closing(sqlite3.connect(path, check_same_thread=False)) as connection:
        yield connection


Customer = Annotated[str, Depends(customer)]
Connection = Annotated[sqlite3.Connection, Depends(connect)]


@server.tool
def buy(item: str, customer: Customer, connection: Connection) -> str:
    """Buy an item.

    Args:
        item: What to buy.
    """
    if item == "elephant":
        raise ToolError("There are no elephants left.")
    with connection:  # commits before the response, so that the next call sees the order
        connection.execute("insert into orders values (?, ?)", (customer, item))
    return f"{customer} bought {item}"


@server.tool
def bought(customer: Customer, connection: Connection) -> list[str]:
    """List what you bought."""
    return [item for (item,) in connection.execute("select item from orders where customer = ?", (customer,))]


if __name__ == "__main__":
    server.run()
