"""How long does a call take through a proxy, compared with the same call to the server itself?

The same client calls the same server: directly, through our proxy, through that of fastmcp, and through a relay that
only copies bytes (`bare`, `relays.py`). Over stdio the proxy is a process between two pipes. Over HTTP it listens, and
keeps a connection to the server. One call at a time, each side for the same time in each round, as in most other rows:
with the same number of calls, the round of the direct call would end before the system has spread two processes over
two cores, as it has spread three by then. In the rows `proxy_mcp_*` client and server are those of `mcp`, which people
put a proxy between more often. In all other rows both are ours.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import client
from processes import HERE, free_port, python
from rows import Effort, Row, Wanted, alternate, at_most
from stores import listening

PROXIES = ("dragoman", "fastmcp", "bare")
TITLES = {
    "proxy_stdio": "one call at a time through a proxy, in front of a server on stdio",
    "proxy_http": "one call at a time through a proxy, in front of a server over HTTP",
    "proxy_stateless_stdio": "one stateless call at a time through a proxy, in front of a server on stdio",
    "proxy_stateless_http": "one stateless call at a time through a proxy, in front of a server over HTTP",
    "proxy_mcp_stdio": "one call at a time of `mcp` through a proxy, in front of its server on stdio",
    "proxy_mcp_http": "one call at a time of `mcp` through a proxy, in front of its server over HTTP",
}
MOST_BESIDE_DIRECT = 4.0
"""How many times as long as the direct call it may take."""
MOST_BESIDE_FASTMCP = 1 / 8
"""How many times as long as through fastmcp's proxy it may take, where neither end is that of `mcp`."""


def measure(effort: Effort, wanted: Wanted) -> Iterator[Row]:
    """Measure what is wanted of proxies."""
    for name in [name for name in TITLES if wanted(name)]:
        ends = "mcp" if "mcp" in name else "dragoman"
        kind = name.rpartition("_")[2]
        era = "stateless" if "stateless" in name else "handshake"
        with ExitStack() as stack:
            targets = _stdio(ends) if kind == "stdio" else _http(stack, ends)
            sides = {
                side: stack.enter_context(client.Side(ends, era, kind, *target)) for side, target in targets.items()
            }
            samples = alternate(
                effort.rounds,
                sides,
                lambda side: sides[side].microseconds(effort.seconds),  # noqa: B023 - is called within the turn
            )
        held = [at_most(MOST_BESIDE_DIRECT, "direct")]
        if ends == "dragoman":
            held.append(at_most(MOST_BESIDE_FASTMCP, "fastmcp"))
        yield Row(name, TITLES[name], "us", samples, tuple(held), more_is_better=False)


def _stdio(ends: str) -> dict[str, list[str]]:
    server = [str(python(ends)), str(HERE / "stdio_servers.py"), ends]
    return {side: [*map(str, _proxy(side, "stdio")), *server] for side in PROXIES} | {"direct": server}


def _http(stack: ExitStack, ends: str) -> dict[str, list[str]]:
    folder, port = stack.enter_context(tempfile.TemporaryDirectory(prefix="bench")), free_port()
    server: list[str | Path] = [python(ends), HERE / "http_servers.py", ends, str(port)]
    stack.enter_context(listening(server, port, XDG_STATE_HOME=folder))
    ports = {side: free_port() for side in PROXIES}
    for side, at in ports.items():
        target = str(port) if side == "bare" else _url(port)
        stack.enter_context(listening([*_proxy(side, str(at)), target], at, XDG_STATE_HOME=folder))
    return {side: [_url(at)] for side, at in (ports | {"direct": port}).items()}


def _proxy(side: str, where: str) -> list[str | Path]:
    if side == "bare":
        return [python(side), HERE / "relays.py", where]
    return [python(side), HERE / "proxy_servers.py", side, where]


def _url(port: int) -> str:
    return f"http://127.0.0.1:{port}/mcp"
