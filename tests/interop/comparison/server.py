"""The same server in each of the libraries that are compared; run in the environment of that library.

python server.py LIBRARY stdio
python server.py LIBRARY http

Over HTTP six processes serve it, and their ports are printed: two as it is, two without sessions, one where it is
mounted in an application that does not run its lifespan, and one that checks hosts where that is not the default.
All of its group of processes end when its input does.
"""

import importlib
import os
import signal
import socket
import sys
from typing import Annotated, Any

import uvicorn
from pydantic import BaseModel
from starlette.applications import Starlette
from starlette.routing import Mount

LIBRARIES = {
    "dragoman": ("dragoman", "Server", "asgi"),
    "mcp": ("mcp.server.mcpserver", "MCPServer", "streamable_http_app"),
    "fastmcp": ("fastmcp", "FastMCP", "http_app"),
}
WAYS = ("with sessions", "with sessions", "without sessions", "without sessions", "mounted", "guarded")
OPTIONS: dict[tuple[str, str], dict[str, bool]] = {
    ("dragoman", "without sessions"): {"stateless": True},
    ("mcp", "without sessions"): {"stateless_http": True},
    ("fastmcp", "without sessions"): {"stateless_http": True},
    ("fastmcp", "guarded"): {"host_origin_protection": True},
}

LIBRARY = sys.argv[1]
module_name, class_name, app_name = LIBRARIES[LIBRARY]
library: Any = importlib.import_module(module_name)
server: Any = getattr(library, class_name)("compared")


class Seats(BaseModel):
    """How many are wanted."""

    number: int


@server.tool()
def pid() -> int:
    """Says which process answers."""
    return os.getpid()


@server.tool()
async def book(ctx: library.Context) -> str:
    """Asks in the middle of its work."""
    answer = await ctx.elicit("How many seats?", Seats)
    return f"the answer: {answer.action}"


if LIBRARY == "mcp":

    def ask() -> Any:
        return library.Elicit("How many seats?", Seats)

    @server.tool()
    async def book_by_parameter(answer: Annotated[library.ElicitationResult[Seats], library.Resolve(ask)]) -> str:
        """Is called when the answer is there."""
        return f"the answer: {answer.action}"


def serve_http(listener: socket.socket, way: str) -> None:
    """Serve its ASGI application."""
    app = getattr(server, app_name)(**OPTIONS.get((LIBRARY, way), {}))
    if way == "mounted":
        app = Starlette(routes=[Mount("/", app)])
    uvicorn.Server(uvicorn.Config(app, log_level="critical")).run(sockets=[listener])


def main(transport: str) -> None:
    if transport == "stdio":
        server.run()
        return
    listeners = [socket.create_server(("127.0.0.1", 0)) for _ in WAYS]
    sys.stdout.write(" ".join(str(listener.getsockname()[1]) for listener in listeners) + "\n")
    sys.stdout.flush()
    for listener, way in zip(listeners, WAYS, strict=True):
        if os.fork() == 0:
            for other in listeners:
                if other is not listener:
                    other.close()
            serve_http(listener, way)
            os._exit(0)
    for listener in listeners:
        listener.close()
    sys.stdin.read()
    os.killpg(0, signal.SIGKILL)


if __name__ == "__main__":
    main(*sys.argv[2:])
