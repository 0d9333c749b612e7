"""The steps to a server over HTTP below the protocol: its address, DNS, TCP, TLS, and the status of an HTTP request."""

from __future__ import annotations

import asyncio
import socket
import ssl
from typing import Any
from urllib.parse import SplitResult, urlsplit

import aiohttp

from dragoman.inspector.doctor.findings import Findings
from dragoman.protocol.urls import port_of, redacted
from dragoman.runtime.network import Network, proxy_for
from dragoman.transports.web.http import new_session

STEP_SECONDS = 10.0
MAX_SHOWN_ADDRESSES = 4
FAILED = 400
_EXPECTED = frozenset({400, 401, 403, 405, 406})
"""Statuses by which an MCP server refuses a plain GET."""


async def examine_network(url: str, findings: Findings) -> bool:
    """Add a finding for each step to a URL, and tell whether the server answers HTTP."""
    parts = urlsplit(url)
    proxy = proxy_for(url, Network())
    if proxy is not None:
        findings.passed("proxy", f"requests go by {redacted(proxy)}, which makes the connection")
        return await _examine_http(url, findings)
    return (
        await _examine_dns(parts, findings)
        and await _examine_tcp(parts, findings)
        and await _examine_tls(parts, findings)
        and await _examine_http(url, findings)
    )


async def _examine_dns(parts: SplitResult, findings: Findings) -> bool:
    host = parts.hostname or ""
    try:
        async with asyncio.timeout(STEP_SECONDS):
            found = await asyncio.get_running_loop().getaddrinfo(host, port_of(parts), type=socket.SOCK_STREAM)
    except (OSError, UnicodeError, TimeoutError) as error:
        findings.failed("DNS", f"{host} has no address: {_text(error)}", "is the name right, and are you online?")
        return False
    addresses = list(dict.fromkeys(str(one[4][0]) for one in found))
    findings.passed("DNS", ", ".join(addresses[:MAX_SHOWN_ADDRESSES]))
    return True


async def _examine_tcp(parts: SplitResult, findings: Findings) -> bool:
    where = f"port {port_of(parts)} of {parts.hostname}"
    try:
        await _connected(parts, None)
    except (OSError, TimeoutError) as error:
        remedy = "is the server running, and is the port right? A firewall may drop the packets"
        findings.failed("TCP", f"{where} cannot be reached: {_text(error)}", remedy)
        return False
    findings.passed("TCP", f"{where} is open")
    return True


async def _examine_tls(parts: SplitResult, findings: Findings) -> bool:
    if parts.scheme != "https":
        findings.passed("TLS", "none, because the address begins with http://")
        return True
    try:
        peer = await _connected(parts, ssl.create_default_context())
    except ssl.SSLCertVerificationError as error:
        remedy = "trust its certificate (SSL_CERT_FILE), or let the server have one of a known authority"
        findings.failed("TLS", f"its certificate is refused: {error.verify_message}", remedy)
        return False
    except (OSError, TimeoutError) as error:
        remedy = "does it speak TLS at this port? If not, write http:// instead of https://"
        findings.failed("TLS", f"there is no secure connection: {_text(error)}", remedy)
        return False
    issued = {name: value for pair in peer.get("issuer", ()) for name, value in pair}
    findings.passed("TLS", f"issued by {issued.get('organizationName', '?')}, valid until {peer.get('notAfter', '?')}")
    return True


async def _connected(parts: SplitResult, context: ssl.SSLContext | None) -> dict[str, Any]:
    """Connect once, and return the certificate of the other side."""
    async with asyncio.timeout(STEP_SECONDS):
        _, writer = await asyncio.open_connection(parts.hostname, port_of(parts), ssl=context)
        peer: dict[str, Any] = writer.get_extra_info("peercert") or {}
        writer.transport.abort()
    return peer


async def _examine_http(url: str, findings: Findings) -> bool:
    headers = {"Accept": "application/json, text/event-stream"}
    try:
        async with asyncio.timeout(STEP_SECONDS), new_session() as session:
            response = await session.get(url, headers=headers, allow_redirects=False, proxy=proxy_for(url, Network()))
            status, kind, location = response.status, response.content_type, response.headers.get("Location")
            response.close()
    except (aiohttp.ClientError, OSError, TimeoutError, ValueError) as error:
        findings.failed("HTTP", f"there is no response: {type(error).__name__}", "does the server speak HTTP there?")
        return False
    if location is not None:
        findings.failed("HTTP", f"status {status} sends clients to {redacted(location)}", "use that address")
        return False
    if status >= FAILED and status not in _EXPECTED:
        remedy = "is the path right? It is often /mcp, sometimes /sse"
        findings.failed("HTTP", f"it answers GET with status {status}", remedy)
        return False
    findings.passed("HTTP", f"it answers GET with status {status} and {kind or 'no body'}")
    return True


def _text(error: BaseException) -> str:
    return getattr(error, "strerror", None) or str(error) or "no answer in time"
