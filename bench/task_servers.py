"""The servers that `tasks.py` measures: `python task_servers.py (dragoman|fastmcp) PORT STORE`.

STORE is "local", the store of one machine or process that needs nothing to install, or a URL of Redis.
"""

import sys
from importlib import import_module
from typing import Any


def dragoman(port: int, where: str) -> None:
    """Serve a task that does nothing."""
    from dragoman import Server
    from dragoman.stores import Local, Redis

    store = Local() if where == "local" else Redis(where)
    server = Server("bench", store=store, secret="the same in every process, 32 bytes")

    @server.tool(task=True)
    async def nothing() -> str:
        """Does nothing."""
        return "done"

    @server.tool
    async def plain() -> str:
        """Does nothing within its request."""
        return "done"

    server.run("http", port=port)


def fastmcp(port: int, where: str) -> None:
    """Serve the same with fastmcp-tasks, whose store of one process is in memory."""
    import uvicorn

    library: Any = import_module("fastmcp")
    extension: Any = import_module("fastmcp_tasks")
    server = library.FastMCP("bench")
    server.add_extension(extension.TasksExtension(url="memory://" if where == "local" else where))

    async def nothing() -> str:
        """Does nothing."""
        return "done"

    server.tool(nothing, task=True)
    app = server.http_app(stateless_http=True, json_response=True)
    uvicorn.run(app, port=port, log_level="warning", loop="uvloop", http="httptools", timeout_graceful_shutdown=1)


if __name__ == "__main__":
    side, number, place = sys.argv[1:]
    {"dragoman": dragoman, "fastmcp": fastmcp}[side](int(number), place)
