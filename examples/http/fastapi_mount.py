"""A server as a route of a FastAPI application, whose lifespan stays its own.

PORT=8000 python examples/http/fastapi_mount.py
"""

import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import uvicorn
from fastapi import FastAPI
from starlette.routing import Route

from dragoman import Server

server = Server("prices", version="1.0")
prices: dict[str, float] = {}


@server.tool
async def price(fruit: str) -> float:
    """The price of a fruit."""
    return prices[fruit]


@asynccontextmanager
async def lifespan(_: FastAPI) -> AsyncGenerator[None, None]:
    """Load what the application needs."""
    prices.update(apple=0.5, pear=0.75)
    yield
    prices.clear()


app = FastAPI(lifespan=lifespan, routes=[Route("/mcp", server.asgi())])


@app.get("/")
async def home() -> dict[str, float]:
    """A page of the application's own."""
    return prices


if __name__ == "__main__":
    uvicorn.run(app, port=int(os.environ.get("PORT", "8000")), log_level="warning")
