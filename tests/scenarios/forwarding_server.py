"""A server whose handlers answer every request with what a function says, as a server in front of another does."""

import json
from collections.abc import Callable
from typing import Any

from msgspec import Raw

from dragoman import Server, types
from dragoman.server.request.call import Call

Answer = Callable[[str, types.Json], Any]
EVERYTHING = types.ServerCapabilities(
    tools=types.ListChangedCapability(list_changed=True),
    prompts=types.ListChangedCapability(list_changed=True),
    resources=types.ResourcesCapability(list_changed=True, subscribe=True),
    completions={},
)


def forwarding(name: str, answer: Answer, **own: Any) -> Server:
    """Return a server that knows none of its names; `answer` gets the method and the parameters of each request."""
    server = Server(name, capabilities=EVERYTHING)

    async def handle(_server: Server, call: Call) -> Raw:
        result = answer(call.request.method.name, json.loads(bytes(call.request.raw_params) or b"{}"))
        if isinstance(result, Exception):
            raise result
        return Raw(json.dumps(result).encode())

    kept = {"initialize", "server/discover", "ping", *own}
    server.dispatcher.handlers = {method: handle for method in server.dispatcher.handlers if method not in kept} | own
    return server
