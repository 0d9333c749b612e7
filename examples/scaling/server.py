"""A shop that any number of processes serve together: what they share is in Redis.

REDIS_URL=redis://localhost:6379/0 DRAGOMAN_SECRET=... dragoman run --http examples/scaling/server.py
"""

import os
import socket

from dragoman import Context, Server
from dragoman.stores import Redis

server = Server("shop", store=Redis(os.environ["REDIS_URL"]))


@server.tool
async def add_to_cart(item: str, ctx: Context) -> list[str]:
    """Puts an item into the cart of this session and returns the whole cart."""
    return await ctx.session_state.update("cart", lambda cart: [*(cart or []), item], list[str])


@server.tool
async def order(ctx: Context) -> str:
    """Orders what is in the cart, if the user agrees."""
    cart = await ctx.session_state.get("cart", list[str]) or []
    answer = await ctx.elicit(f"Order {', '.join(cart)}?", bool)
    return "ordered" if answer.accepted and answer.content else "not ordered"


@server.tool
def where() -> str:
    """Names the process that serves this request."""
    return f"{socket.gethostname()}/{os.getpid()}"


if __name__ == "__main__":
    server.run("http", host=os.environ.get("HOST", "127.0.0.1"), port=int(os.environ.get("PORT", "8000")))
