"""A server mounted in a Flask application.

PORT=8000 python examples/http/flask_mount.py
"""

import os

from flask import Flask
from werkzeug.middleware.dispatcher import DispatcherMiddleware
from werkzeug.serving import run_simple

from dragoman import Server

server = Server("sums", version="1.0")
app = Flask(__name__)


@server.tool
def add(a: int, b: int) -> int:
    """Adds two numbers."""
    return a + b


@app.get("/")
def home() -> str:
    """A page of the application's own."""
    return "Sums are served at /mcp"


application = DispatcherMiddleware(app, {"/mcp": server.wsgi()})

if __name__ == "__main__":
    run_simple("127.0.0.1", int(os.environ.get("PORT", "8000")), application, threaded=True)
