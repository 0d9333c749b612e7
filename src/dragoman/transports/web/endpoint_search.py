"""`find_endpoint`: the URL of the MCP server at which a child process serves HTTP.

The URL that the child announces may lack the path, so the usual paths are tried. A stdio server may announce a web page
of its own, so a URL counts only if it answers as MCP servers do. Only addresses of this machine are tried, because the
output of a program must not send the client elsewhere.
"""

from __future__ import annotations

import asyncio
from urllib.parse import urlsplit, urlunsplit

import aiohttp

from dragoman.protocol.urls import is_loopback
from dragoman.transports.web.http import new_session

PATHS = ("/mcp", "/sse", "/")
CHECK_SECONDS = 5.0
LISTENING_SECONDS = 5.0
"""Some programs announce their URL shortly before they listen."""
RETRY_SECONDS = 0.1
_WILDCARDS = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104
_PING = b'{"jsonrpc":"2.0","id":0,"method":"ping"}'
_HEADERS = {"content-type": "application/json", "accept": "application/json, text/event-stream"}
_EXISTS = (307, 308, 401)
"""Statuses that answer a POST to an endpoint behind a redirect or a login."""
_READ_BYTES = 4096


async def find_endpoint(announced: str) -> str | None:
    """Return the URL of the MCP server at an announced URL; None if there is no MCP server."""
    parts = urlsplit(announced)
    host = _WILDCARDS.get(parts.hostname or "", parts.hostname or "")
    if not is_loopback(host):
        return None
    netloc = f"[{host}]" if ":" in host else host
    if parts.port is not None:
        netloc += f":{parts.port}"
    paths = PATHS if parts.path in ("", "/") else (parts.path,)
    async with new_session() as session:
        for path in paths:
            url = urlunsplit((parts.scheme, netloc, path, "", ""))
            if await _is_endpoint(session, url):
                return url
    return None


async def _is_endpoint(session: aiohttp.ClientSession, url: str) -> bool:
    deadline = asyncio.get_running_loop().time() + LISTENING_SECONDS
    while True:
        try:
            return await _answers_as_mcp(session, url)
        except aiohttp.ClientConnectorError:
            if asyncio.get_running_loop().time() > deadline:
                return False
            await asyncio.sleep(RETRY_SECONDS)
        except (aiohttp.ClientError, TimeoutError):
            return False


async def _answers_as_mcp(session: aiohttp.ClientSession, url: str) -> bool:
    timeout = aiohttp.ClientTimeout(total=CHECK_SECONDS)
    async with session.post(url, data=_PING, headers=_HEADERS, timeout=timeout, allow_redirects=False) as response:
        if response.status in _EXISTS or b'"jsonrpc"' in await response.content.read(_READ_BYTES):
            return True
    if not url.endswith("/sse"):
        return False
    async with session.get(url, headers=_HEADERS, timeout=timeout, allow_redirects=False) as response:
        return response.content_type == "text/event-stream"
