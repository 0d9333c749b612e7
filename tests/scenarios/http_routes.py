"""A server with routes, by every carrier of HTTP: `run` with one and two workers, uvicorn, and mounted in Starlette."""

import contextlib
from collections.abc import AsyncIterator
from types import ModuleType
from typing import Any

import aiohttp
from starlette.applications import Starlette
from starlette.routing import Mount

from scenarios.http.test_uvicorn import running
from scenarios.http_crew import DEADLINE, crew

SOURCE = """
import sys, threading
from dragoman import Server
from dragoman.server import Response, RouteRequest
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse, StreamingResponse
from starlette.routing import Route

server = Server("shop", max_message_bytes=4096, secret="a secret that is long enough for a key")

@server.tool
def add(a: int, b: int) -> int:
    return a + b

@server.route("/orders/{id}", methods=["GET", "PUT"])
def order(request: RouteRequest) -> dict[str, object]:
    on_loop = threading.current_thread() is threading.main_thread()
    sent = request.json() if request.body() else None
    return {"id": request.path_params["id"], "query": request.query, "sent": sent, "loop": on_loop}

@server.route("/page")
async def page() -> Response:
    return Response("<h1>Page</h1>", 203, {"x-from": "page"}, "text/html")

@server.route("/hook", "POST")
async def hook(request: RouteRequest) -> None:
    request.text()

@server.route("/broken")
def broken() -> str:
    raise ValueError("a secret text")

@server.route("/secret", auth=True)
async def secret(request: RouteRequest) -> str:
    return f"for {request.principal}"

async def parts(request):
    async def several():
        for number in range(3):
            yield f"{number} "
    return StreamingResponse(several(), 201, media_type="text/plain")

async def echo(request):
    body = await request.body()
    return PlainTextResponse(f"{request.scope['root_path']} {request.url.path} {body.decode()}")

async def fails(request):
    raise ValueError("a secret text")

mounted = Starlette(routes=[Route("/parts", parts), Route("/echo", echo, methods=["POST"]), Route("/fails", fails)])
server.mount_asgi("/admin", mounted)

def who(request):
    return "alice" if request.headers.get("authorization") == "Bearer right" else None
"""
OPTIONS: dict[str, Any] = {"health": True, "allowed_origins": ["https://app.example.com"]}
RUN = """
server.run("http", port=int(sys.argv[1]), workers=int(sys.argv[2]), auth=who, health=True,
           allowed_origins=["https://app.example.com"])
"""
CARRIERS = ("run", "workers", "uvicorn", "mounted")


def shop() -> ModuleType:
    """Return the module of the server, made anew."""
    made = ModuleType("shop")
    exec(compile(SOURCE, "shop.py", "exec"), vars(made))
    return made


@contextlib.asynccontextmanager
async def served(carrier: str) -> AsyncIterator[str]:
    """Serve the shop, and give the URL of its root."""
    if carrier in ("run", "workers"):
        async with crew(1 if carrier == "run" else 2, SOURCE + RUN) as processes:
            await processes.ready()
            yield f"http://127.0.0.1:{processes.port}"
        return
    module = shop()
    app: Any = module.server.asgi(auth=module.who, **OPTIONS)
    if carrier == "mounted":
        app = Starlette(routes=[Mount("/api", app)])
    async with running(app) as port:
        yield f"http://127.0.0.1:{port}" + ("/api" if carrier == "mounted" else "")


@contextlib.asynccontextmanager
async def browsing(carrier: str) -> AsyncIterator[tuple[aiohttp.ClientSession, str]]:
    """Serve the shop, and give an HTTP client and the URL of the root."""
    timeout = aiohttp.ClientTimeout(DEADLINE)
    async with served(carrier) as url, aiohttp.ClientSession(timeout=timeout) as http:
        yield http, url
