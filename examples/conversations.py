"""The protocol core answers a recorded conversation, once in each era: no loop, no socket, only bytes and values.

python examples/conversations.py
"""

from __future__ import annotations

import json
from typing import Any

import msgspec

from dragoman import types
from dragoman.errors import RpcError
from dragoman.protocol import eras, jsonrpc
from dragoman.protocol.peer import Peer, Reply

INFO = types.Implementation("conversations", "1.0")
CAPABILITIES = types.ServerCapabilities(tools=types.ListChangedCapability(list_changed=True))
OFFER = eras.Offer.of(CAPABILITIES)
ADD = types.Tool(
    name="add",
    title="Add",
    description="Adds two numbers.",
    input_schema={"type": "object", "properties": {"a": {"type": "number"}, "b": {"type": "number"}}},
    output_schema={"type": "number"},
)

HANDSHAKE = [
    {
        "id": 0,
        "method": "initialize",
        "params": {
            "protocolVersion": "2025-06-18",
            "capabilities": {},
            "clientInfo": {"name": "recorded", "version": "1"},
        },
    },
    {"method": "notifications/initialized"},
    {"id": 1, "method": "tools/list"},
    {"id": 2, "method": "tools/call", "params": {"name": "add", "arguments": {"a": 2, "b": 40}}},
    {"id": 3, "method": "server/discover"},
]
ENVELOPE = {types.PROTOCOL_VERSION: "2026-07-28", types.CLIENT_CAPABILITIES: {}}
STATELESS = [
    {"id": 0, "method": "server/discover", "params": {"_meta": ENVELOPE}},
    {"id": 1, "method": "tools/list", "params": {"_meta": ENVELOPE}},
    {"id": 2, "method": "tools/call", "params": {"name": "add", "arguments": {"a": 2, "b": 40}, "_meta": ENVELOPE}},
    {"id": 3, "method": "ping", "params": {"_meta": ENVELOPE}},
    {"id": 4, "method": "tools/list", "params": {"_meta": {**ENVELOPE, types.PROTOCOL_VERSION: "2031-01-01"}}},
]


class Conversation:
    """A server of one tool on one connection."""

    def __init__(self) -> None:
        self.peer = Peer()
        self.session: eras.Caller | None = None

    def answer(self, line: bytes) -> list[bytes]:
        """Return what is written back for a line."""
        return [data for event in self.peer.receive(line) if (data := self._answer(event)) is not None]

    def _answer(self, event: Any) -> bytes | None:
        match event:
            case Reply(data):
                return data
            case jsonrpc.Request(id):
                try:
                    return self.peer.send_result(id, self._serve(event))
                except RpcError as error:
                    return self.peer.send_error(id, error)
        return None

    def _serve(self, message: jsonrpc.Request) -> types.Result:
        request = eras.open(message, OFFER, self.session)
        params = request.params
        server_info = msgspec.Raw(jsonrpc.encode(INFO))
        match request.method.name:
            case "initialize":
                result, self.session = eras.initialize(params, OFFER, CAPABILITIES, INFO)
                self.peer.version = self.session.version
                return result
            case "server/discover":
                return eras.seal(eras.discover(OFFER, CAPABILITIES), request.caller.version, server_info)
            case "tools/list":
                return eras.seal(types.ListToolsResult([ADD]), request.caller.version, server_info)
            case _:
                arguments = msgspec.json.decode(params.arguments)
                total = arguments["a"] + arguments["b"]
                answer = types.CallToolResult([types.TextContent(str(total))], structured_content=total)
                return eras.seal(answer, request.caller.version, server_info, wraps=True)


def main() -> None:
    """Print both conversations."""
    for title, messages in (("Handshake era, 2025-06-18", HANDSHAKE), ("Stateless era, 2026-07-28", STATELESS)):
        print(f"\n== {title}")
        conversation = Conversation()
        for message in messages:
            line = json.dumps({"jsonrpc": "2.0", **message}).encode()
            print(f"\n-> {line.decode()}")
            for answer in conversation.answer(line + b"\n"):
                print(f"<- {answer.decode()}")
    print("\nThe same tool answered both: its number travels in an object where 2025-06-18 demands one, and as itself")
    print("in 2026-07-28. A method or version that an era does not have is refused by name.")


if __name__ == "__main__":
    main()
