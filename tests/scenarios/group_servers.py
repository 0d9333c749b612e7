"""Servers for the tests of groups: one in this process, and processes that work, fail, hang, or come late."""

import sys
from collections.abc import Iterable
from typing import Any

from dragoman import Server
from ports import free_port

NOTES = """
import os
from dragoman import Server, ToolError

server = Server("notes")

@server.tool
def search(text: str) -> str:
    return f"notes about {text}"

@server.tool
def delete(id: int) -> str:
    raise ToolError("It is locked")

@server.tool
def who() -> str:
    return f"{os.environ.get('WHO', 'nobody')} in {os.path.basename(os.getcwd())}"

@server.tool
def crash() -> str:
    os._exit(3)

@server.prompt
def summary() -> str:
    return "Summarise the notes."

@server.resource("notes://all")
def all_notes() -> str:
    return "tea"

@server.resource("notes://{id}")
def note(id: int) -> str:
    return f"note {id}"

server.run()
"""
HANGING = [sys.executable, "-S", "-E", "-c", "import sys; sys.stdin.read()"]
DEAD = [sys.executable, "-S", "-E", "-c", "raise SystemExit('MY_KEY is not set')"]
LATE = """
import os.path, time
def answer(m):
    ends = time.monotonic() + 30
    while not os.path.exists(sys.argv[1] + ".now") and time.monotonic() < ends:
        time.sleep(0.01)
    if m.get("method") == "initialize":
        initialized(m, tools={})
    elif m.get("method") == "tools/list":
        result(m, {"tools": [{"name": "late", "inputSchema": {"type": "object"}}]})
    elif "id" in m:
        error(m, -32601)
"""


def weather() -> Server:
    server = Server("weather")

    @server.tool
    def forecast(city: str) -> str:
        return f"rain in {city}"

    @server.tool(name="search")
    def find(text: str) -> str:
        return f"weather of {text}"

    @server.prompt
    def packing() -> str:
        return "What should I pack?"

    return server


def closed_port() -> str:
    return f"http://127.0.0.1:{free_port()}/mcp"


def names(tools: Iterable[Any]) -> list[str]:
    return sorted(tool.qualified_name for tool in tools)
