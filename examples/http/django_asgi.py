"""A server beside a Django project, under ASGI.

PORT=8000 python examples/http/django_asgi.py
"""

import os
from secrets import token_hex
from typing import Any

import uvicorn
from django.conf import settings
from django.core.asgi import get_asgi_application
from django.http import HttpRequest, HttpResponse
from django.urls import path

from dragoman import Server

settings.configure(ROOT_URLCONF=__name__, ALLOWED_HOSTS=["localhost", "127.0.0.1"], SECRET_KEY=token_hex())
server = Server("sums", version="1.0")


@server.tool
async def add(a: int, b: int) -> int:
    """Adds two numbers."""
    return a + b


async def home(request: HttpRequest) -> HttpResponse:
    """A page of the project's own."""
    return HttpResponse(f"Sums are served at {request.build_absolute_uri('mcp')}")


urlpatterns = [path("", home)]
django, mcp = get_asgi_application(), server.asgi()


async def application(scope: Any, receive: Any, send: Any) -> None:
    """Django serves no lifespan, and the server's ends its streams in good order."""
    is_ours = scope["type"] == "lifespan" or scope["path"].rstrip("/") == "/mcp"
    await (mcp if is_ours else django)(scope, receive, send)


if __name__ == "__main__":
    uvicorn.run(application, port=int(os.environ.get("PORT", "8000")), log_level="warning")
