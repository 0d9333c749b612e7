"""A server in a Flask view that knows who is logged in.

PORT=8000 python examples/http/flask_controller.py
"""

import os

from flask import Flask, Response, abort, request

from dragoman import BlockingContext, Server

server = Server("notes", version="1.0")
app = Flask(__name__)
users = {"Bearer ada": "Ada", "Bearer grace": "Grace"}
notes: dict[str, list[str]] = {"Ada": ["Buy a loom"], "Grace": ["Find the moth"]}


@server.tool
def my_notes(ctx: BlockingContext) -> list[str]:
    """The notes of who asks."""
    return notes[ctx.server_context]


@app.route("/mcp", methods=["GET", "POST", "DELETE"])
def mcp() -> Response:
    """Answer one request of a user."""
    user = users.get(request.headers.get("Authorization", ""))
    if user is None:
        abort(401)
    reply = server.handle_http(request.method, request.headers, request.get_data(), server_context=user)
    return Response(reply.body, reply.status, reply.headers)


if __name__ == "__main__":
    app.run("127.0.0.1", int(os.environ.get("PORT", "8000")))
