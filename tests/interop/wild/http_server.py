"""Our server as an ASGI application, and as a WSGI application, for the HTTP servers of others."""

from dragoman import Server
from dragoman.transports.http.wsgi import WsgiApp

server = Server("deployed", secret="a secret of sixteen")


@server.tool
def add(a: int, b: int) -> int:
    """Adds two numbers."""
    return a + b


app = server.asgi()


def wsgi() -> WsgiApp:
    """Return the WSGI application."""
    return server.wsgi()
