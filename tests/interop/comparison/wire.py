"""A server of the handshake era that belongs to no library, for the clients that are compared.

As a program it serves by stdio. Its resources tell which process answers. Of the tools that it lists one is malformed.
A call tells of its progress for longer than anyone waits who does not heed that.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from typing import Any

STEPS, PAUSE = 20, 0.25
SOUND = {"inputSchema": {"type": "object"}}
TOOLS = [{"name": "first"} | SOUND, {"name": "broken", "inputSchema": "none"}, {"name": "count"} | SOUND]

Message = dict[str, Any]
Send = Callable[[Message], None]


def serve(message: Message, send: Send) -> None:
    """Answer a request with as many messages as it takes; a notification has no answer."""
    if "id" not in message:
        return
    params = message.get("params") or {}
    if message["method"] == "tools/call":
        count(params["_meta"]["progressToken"], send)
    result = answer(message["method"], params)
    unknown = {"error": {"code": -32601, "message": "Method not found"}}
    send({"jsonrpc": "2.0", "id": message["id"]} | (unknown if result is None else {"result": result}))


def answer(method: str, params: Message) -> Message | None:
    """Return a result, or nothing for a method that it does not have."""
    if method == "initialize":
        has = {"capabilities": {"tools": {}, "resources": {}}, "serverInfo": {"name": "wire", "version": "1"}}
        return {"protocolVersion": params["protocolVersion"]} | has
    if method == "resources/read":
        return {"contents": [{"uri": params["uri"], "mimeType": "text/plain", "text": str(os.getpid())}]}
    fixed: dict[str, Message] = {
        "ping": {},
        "tools/list": {"tools": TOOLS},
        "tools/call": {"content": [{"type": "text", "text": "counted"}]},
    }
    return fixed.get(method)


def count(token: str | int, send: Send) -> None:
    for step in range(1, STEPS + 1):
        time.sleep(PAUSE)
        told = {"progressToken": token, "progress": step}
        send({"jsonrpc": "2.0", "method": "notifications/progress", "params": told})


def write(message: Message) -> None:
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    for line in sys.stdin:
        serve(json.loads(line), write)
