"""How long does a call take through a proxy, compared with the same call to the server itself?

The same client, ours, calls the same server: directly, through our proxy, and through that of fastmcp. Over stdio the
proxy is a process between two pipes. Over HTTP it listens, and keeps a connection to the server. One call at a time.
"""

from __future__ import annotations

import asyncio
import statistics
import tempfile
import time
from collections.abc import Iterator
from contextlib import AsyncExitStack, ExitStack
from pathlib import Path
from typing import Any

from processes import ENVIRONMENT, HERE, free_port, python
from rows import Effort, Row, Samples, Wanted, at_most
from stores import listening

from dragoman import AsyncClient

SIDES = ("dragoman", "fastmcp", "direct")
TITLES = {
    "proxy_stdio": "one call at a time through a proxy, in front of a server on stdio",
    "proxy_http": "one call at a time through a proxy, in front of a server over HTTP",
}
LIMIT = 2.0
"""How many times as long as the direct call it may take."""
ARGUMENTS = {"a": 1, "b": 2}


def measure(effort: Effort, wanted: Wanted) -> Iterator[Row]:
    """Measure what is wanted of proxies."""
    for name in [name for name in TITLES if wanted(name)]:
        with ExitStack() as stack:
            targets = _stdio() if name == "proxy_stdio" else _http(stack)
            samples = asyncio.run(_alternate(effort, targets))
            yield Row(name, TITLES[name], "us", samples, (at_most(LIMIT, "direct"),), more_is_better=False)


def _stdio() -> dict[str, Any]:
    server = [str(python("dragoman")), str(HERE / "stdio_servers.py"), "dragoman"]
    proxies = {side: [str(python(side)), str(HERE / "proxy_servers.py"), side, "stdio", *server] for side in SIDES[:2]}
    return {**proxies, "direct": server}


def _http(stack: ExitStack) -> dict[str, Any]:
    folder, port = stack.enter_context(tempfile.TemporaryDirectory(prefix="bench")), free_port()
    server: list[str | Path] = [python("dragoman"), HERE / "http_servers.py", "dragoman", str(port)]
    stack.enter_context(listening(server, port, XDG_STATE_HOME=folder))
    targets = {"direct": f"http://127.0.0.1:{port}/mcp"}
    for side in SIDES[:2]:
        at = free_port()
        proxy: list[str | Path] = [python(side), HERE / "proxy_servers.py", side, str(at), targets["direct"]]
        stack.enter_context(listening(proxy, at, XDG_STATE_HOME=folder))
        targets[side] = f"http://127.0.0.1:{at}/mcp"
    return targets


async def _alternate(effort: Effort, targets: dict[str, Any]) -> Samples:
    """Call through every side in turn, to and fro, in each round after one that warms up."""
    samples: Samples = {side: [] for side in SIDES}
    async with AsyncExitStack() as stack:
        clients = {
            side: await stack.enter_async_context(AsyncClient(target, mode="handshake", env=ENVIRONMENT))
            for side, target in targets.items()
        }
        for number in range(effort.rounds + 1):
            for side in SIDES if number % 2 else reversed(SIDES):
                value = await _microseconds(clients[side], effort.calls)
                if number > 0:
                    samples[side].append(value)
    return samples


async def _microseconds(client: AsyncClient, calls: int) -> float:
    taken = []
    for _ in range(calls):
        began = time.perf_counter()
        await client.call_tool("add", ARGUMENTS)
        taken.append(time.perf_counter() - began)
    return statistics.median(taken) * 1e6
