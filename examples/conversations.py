"""One server, asked in both protocol eras over stdin and stdout.

python examples/conversations.py
"""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

SERVER = Path(__file__).with_name("weather.py")

INTRODUCTION = {
    "protocolVersion": "2025-06-18",
    "capabilities": {},
    "clientInfo": {"name": "recorded", "version": "1"},
}
ENVELOPE = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
}

Message = dict[str, Any]

HANDSHAKE: list[Message] = [
    {"id": 0, "method": "initialize", "params": INTRODUCTION},
    {"method": "notifications/initialized"},
    {"id": 1, "method": "tools/list"},
    {"id": 2, "method": "tools/call", "params": {"name": "forecast", "arguments": {"city": "Oslo"}}},
    {"id": 3, "method": "tools/call", "params": {"name": "forecast", "arguments": {"city": "Atlantis"}}},
    {"id": 4, "method": "server/discover", "params": {"_meta": {}}},
]
STATELESS: list[Message] = [
    {"id": 0, "method": "server/discover", "params": {"_meta": ENVELOPE}},
    {"id": 1, "method": "tools/call", "params": {"name": "forecast", "arguments": {"city": "Oslo"}, "_meta": ENVELOPE}},
    {"id": 2, "method": "prompts/get", "params": {"name": "packing", "arguments": {"city": "Oslo"}, "_meta": ENVELOPE}},
    {"id": 3, "method": "resources/read", "params": {"uri": "cities://all", "_meta": ENVELOPE}},
    {"id": 4, "method": "ping", "params": {"_meta": ENVELOPE}},
]


def converse(messages: list[Message]) -> None:
    """Start the server, send it the messages one by one, and print what goes back and forth."""
    command = [sys.executable, "-m", "dragoman", "run", str(SERVER)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        for message in messages:
            line = json.dumps({"jsonrpc": "2.0", **message})
            print(f"\n-> {line}")
            server.stdin.write(line.encode() + b"\n")
            server.stdin.flush()
            if "id" in message:
                print(f"<- {server.stdout.readline().decode().rstrip()}")
        server.stdin.close()
        print(f"\nThe server ended with exit code {server.wait(timeout=10)}.")


def main() -> None:
    """Print both conversations."""
    for title, messages in (("Handshake era, 2025-06-18", HANDSHAKE), ("Stateless era, 2026-07-28", STATELESS)):
        print(f"\n== {title}")
        converse(messages)
    print("\nThe same tool answered in both eras; what an era does not have is refused by name.")
    print("Next: read docs/server.md, or type requests into: .venv/bin/python examples/weather.py")


if __name__ == "__main__":
    main()
