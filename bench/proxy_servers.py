"""The proxies that `proxying.py` measures.

python proxy_servers.py (dragoman|fastmcp) (stdio|PORT) (URL | COMMAND...)
"""

import sys
from typing import Any


def dragoman(port: int | None, target: str | list[str]) -> None:
    """Serve our proxy."""
    from dragoman import Server

    proxy = Server.proxy(target)
    if port is None:
        proxy.run()
    else:
        proxy.run("http", port=port)


def fastmcp(port: int | None, target: str | list[str]) -> None:
    """Serve fastmcp's proxy, with one connection to the target as ours has."""
    from importlib import import_module

    library: Any = import_module("fastmcp")
    transports: Any = import_module("fastmcp.client.transports")
    where = target if isinstance(target, str) else transports.StdioTransport(target[0], target[1:])
    proxy = library.FastMCP.as_proxy(where) if hasattr(library.FastMCP, "as_proxy") else None
    if proxy is None:
        proxy = import_module("fastmcp.server").create_proxy(where)
    if port is None:
        proxy.run(show_banner=False)
    else:
        proxy.run("http", host="127.0.0.1", port=port, show_banner=False)


if __name__ == "__main__":
    side, where, *words = sys.argv[1:]
    serve = {"dragoman": dragoman, "fastmcp": fastmcp}[side]
    serve(None if where == "stdio" else int(where), words[0] if words[0].startswith("http") else words)
