"""A server for each request, with the tools that its user may call.

PORT=8000 python examples/http/server_per_user.py
"""

import os

import uvicorn
from starlette.applications import Starlette
from starlette.authentication import AuthCredentials, AuthenticationBackend, SimpleUser
from starlette.middleware import Middleware
from starlette.middleware.authentication import AuthenticationMiddleware
from starlette.requests import HTTPConnection
from starlette.routing import Mount

from dragoman import Context, Server, tool
from dragoman.server import HttpRequest, asgi


@tool
async def who_am_i(ctx: Context) -> str:
    """The name of who asks."""
    return str(ctx.server_context.display_name)


@tool
async def restart() -> str:
    """Restarts everything."""
    return "restarted"


class ByToken(AuthenticationBackend):
    """Takes the token for the name of the user."""

    async def authenticate(self, conn: HTTPConnection) -> tuple[AuthCredentials, SimpleUser] | None:
        """Say who the user is."""
        name = conn.headers.get("authorization", "").removeprefix("Bearer ")
        return (AuthCredentials(), SimpleUser(name)) if name else None


def build(request: HttpRequest) -> Server:
    """Return the server of one request."""
    user = request.scope["user"]
    tools = [who_am_i, restart] if user.display_name == "admin" else [who_am_i]
    return Server("office", version="1.0", tools=tools, server_context=user)


app = Starlette(
    routes=[Mount("/", asgi(build))],
    middleware=[Middleware(AuthenticationMiddleware, backend=ByToken())],
)

if __name__ == "__main__":
    uvicorn.run(app, port=int(os.environ.get("PORT", "8000")), log_level="warning")
