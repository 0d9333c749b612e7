"""A shop: a database that is opened once, and a transaction for each call.

python examples/shop.py
"""

import sqlite3
from collections.abc import AsyncIterator, Iterator
from typing import Annotated

from dragoman import Context, Depends, Lifespan, Server, ToolError


async def open_database() -> AsyncIterator[sqlite3.Connection]:
    """Open the database before the server serves, and close it afterwards."""
    database = sqlite3.connect(":memory:", check_same_thread=False)
    try:
        database.execute("create table orders (customer text, item text)")
        yield database
    finally:
        database.close()


server = Server("shop", lifespan=open_database)


def customer(ctx: Context) -> str:
    """Return who calls."""
    return ctx.principal or "a guest"


def transaction(database: Annotated[sqlite3.Connection, Lifespan()]) -> Iterator[sqlite3.Cursor]:
    """Commit after the call, or roll back if it failed."""
    with database:
        yield database.cursor()


Customer = Annotated[str, Depends(customer)]
Transaction = Annotated[sqlite3.Cursor, Depends(transaction)]


@server.tool
def buy(item: str, customer: Customer, orders: Transaction) -> str:
    """Buy an item.

    Args:
        item: What to buy.
    """
    orders.execute("insert into orders values (?, ?)", (customer, item))
    if item == "elephant":
        raise ToolError("There are no elephants left.")
    return f"{customer} bought {item}"


@server.tool
def bought(customer: Customer, orders: Transaction) -> list[str]:
    """List what you bought."""
    return [item for (item,) in orders.execute("select item from orders where customer = ?", (customer,))]


if __name__ == "__main__":
    server.run()
