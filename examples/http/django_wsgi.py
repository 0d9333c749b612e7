"""A server in a view of a Django project, under WSGI.

PORT=8000 python examples/http/django_wsgi.py
"""

import os
from contextlib import suppress
from secrets import token_hex
from wsgiref.simple_server import make_server

from django.conf import settings
from django.core.wsgi import get_wsgi_application
from django.http import HttpRequest, HttpResponse
from django.urls import path
from django.views.decorators.csrf import csrf_exempt

from dragoman import Server

settings.configure(ROOT_URLCONF=__name__, ALLOWED_HOSTS=["localhost", "127.0.0.1"], SECRET_KEY=token_hex())
server = Server("sums", version="1.0")


@server.tool
def add(a: int, b: int) -> int:
    """Adds two numbers."""
    return a + b


def mcp(request: HttpRequest) -> HttpResponse:
    """Answer one request; clients have no CSRF token, and pages of other origins are refused."""
    reply = server.handle_http(request.method, request.headers, request.body)
    return HttpResponse(reply.body, status=reply.status, headers=dict(reply.headers))


urlpatterns = [path("mcp", csrf_exempt(mcp))]
application = get_wsgi_application()

if __name__ == "__main__":
    with make_server("127.0.0.1", int(os.environ.get("PORT", "8000")), application) as web, suppress(KeyboardInterrupt):
        web.serve_forever()
