"""A server as a route of a Starlette application.

PORT=8000 python examples/http/starlette_mount.py
"""

import os

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from dragoman import Server

server = Server("sums", version="1.0")


@server.tool
async def add(a: int, b: int) -> int:
    """Adds two numbers."""
    return a + b


async def home(request: Request) -> PlainTextResponse:
    """A page of the application's own."""
    return PlainTextResponse(f"Sums are served at {request.base_url}mcp")


app = Starlette(routes=[Route("/", home), Route("/mcp", server.asgi())])

if __name__ == "__main__":
    uvicorn.run(app, port=int(os.environ.get("PORT", "8000")), log_level="warning")
