"""The examination of a server: the way to it, its login, and what it offers; each step with a remedy."""

from __future__ import annotations

import statistics
import time
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

from dragoman.errors import (
    AuthRequired,
    ConnectError,
    DragomanError,
    HttpError,
    MethodNotFound,
    RpcError,
    ServerCrashed,
    Timeout,
)
from dragoman.inspector.doctor.findings import Findings
from dragoman.protocol.versions import find_version
from dragoman.types import Json

if TYPE_CHECKING:
    from dragoman.client.client import AsyncClient

PINGS = 5
LISTS = {"tools": "tools", "prompts": "prompts", "resources": "resources", "resource_templates": "resources"}
"""The lists of a server, and the capability that declares each."""
_UNLISTED = "the server declares the list and has to answer for it"
_HOW_TO_LIST = "dragoman list --tools"
_CAPABILITIES = ("tools", "prompts", "resources", "completions", "logging")


async def examine(
    client: AsyncClient, url: str | None, findings: Findings, calls: Mapping[str, Json] | None = None
) -> None:
    """Start a client, and add a finding for each step; if that fails, for each step on the way to the server.

    `calls` are the tools to call, with their arguments.
    """
    began = time.perf_counter()
    try:
        await client.start()
    except DragomanError as error:
        await _examine_failure(url, error, findings)
        return
    findings.passed("connection", f"open after {(time.perf_counter() - began) * 1000:.0f} ms")
    await _examine_server(client, findings)
    for name, arguments in (calls or {}).items():
        await _examine_call(client, name, arguments, findings)


async def _examine_failure(url: str | None, error: DragomanError, findings: Findings) -> None:
    if url is not None:
        from dragoman.inspector.doctor.network import examine_network

        await examine_network(url, findings)
    if isinstance(error, AuthRequired):
        findings.failed("connection", _words(error))
        if url is not None:
            from dragoman.inspector.doctor.login import examine_login

            await examine_login(url, error, findings)
        return
    findings.failed("connection", _words(error), _remedy(error, url))


def _words(error: DragomanError) -> str:
    if isinstance(error, ServerCrashed):
        lines = [line.strip() for line in error.stderr_tail.splitlines() if line.strip()]
        return f"{error.summary} It wrote: {lines[-1]}" if lines else error.summary
    if isinstance(error, RpcError):
        return f"the server refused ({error.code}): {error}"
    return error.summary if isinstance(error, Timeout) else str(error)


def _remedy(error: DragomanError, url: str | None) -> str:
    if isinstance(error, ServerCrashed):
        return "run its command by itself and see what it says, or add --verbose"
    if isinstance(error, Timeout):
        return "see whether it starts at all, or give it more time with --timeout"
    if isinstance(error, ConnectError | HttpError) and url is not None:
        return "see whether the server runs, and whether the address and its path are right (often /mcp)"
    return "see whether this is an MCP server; --mode and --protocol-version say how to speak to it"


async def _examine_server(client: AsyncClient, findings: Findings) -> None:
    name = client.protocol_version
    version = None if name is None else find_version(name)
    era = "stateless" if version is not None and version.stateless else "handshake"
    info = client.server_info
    findings.passed("server", f"{info.name} {info.version}" if info else "it does not say who it is")
    findings.passed("protocol", f"{name}, the {era} era")
    await _examine_latency(client, findings)
    offered = [one for one in _CAPABILITIES if getattr(client.capabilities, one, None) is not None]
    if offered:
        findings.passed("capabilities", ", ".join(offered))
    else:
        findings.failed("capabilities", "it offers nothing", "declare tools, prompts or resources")
    await _examine_lists(client, offered, findings)
    await _examine_tools(client, findings)


async def _examine_latency(client: AsyncClient, findings: Findings) -> None:
    times: list[float] = []
    for _ in range(PINGS):
        began = time.perf_counter()
        if not await client.ping():
            findings.failed("latency", "it does not answer a ping, or refuses", "see whether it blocks its loop")
            return
        times.append((time.perf_counter() - began) * 1000)
    findings.passed("latency", f"{statistics.median(times):.1f} ms, at most {max(times):.1f} ms, of {PINGS} pings")


async def _examine_lists(client: AsyncClient, offered: Collection[str], findings: Findings) -> None:
    for kind in (kind for kind, capability in LISTS.items() if capability in offered):
        words = kind.replace("_", " ")
        try:
            items = await getattr(client, kind)()
            if not items:  # the list of a server without such a method is empty too
                await getattr(client, f"list_{kind}")()
        except MethodNotFound as error:
            if kind == "resource_templates":  # a server may declare resources, and have no templates
                continue
            findings.shortcoming(words, f"it declares them, and does not list them: {_words(error)}", _UNLISTED)
        except DragomanError as error:
            findings.failed(words, _words(error), _UNLISTED)
        else:
            findings.passed(words, f"{len(items)} listed")


async def _examine_call(client: AsyncClient, name: str, arguments: Json, findings: Findings) -> None:
    began = time.perf_counter()
    try:
        tool = await client.tool(name)
        result = await tool.call(arguments, raise_on_error=False)
    except DragomanError as error:
        findings.failed(f"call {name}", _words(error), f"see what it takes: {_HOW_TO_LIST}")
        return
    if result.is_error:
        said = result.text or "it did not say why"
        findings.failed(f"call {name}", f"the tool failed: {said}", "give other arguments with --json-args")
    else:
        kinds = ", ".join(str(getattr(block, "type", "content")) for block in result.content) or "no content"
        findings.passed(f"call {name}", f"it answered with {kinds} in {(time.perf_counter() - began) * 1000:.0f} ms")


async def _examine_tools(client: AsyncClient, findings: Findings) -> None:
    from dragoman.inspector.doctor.tools import problems

    try:
        tools = await client.tools()
    except DragomanError:
        return
    found = [(tool.name, *problem) for tool in tools for problem in problems(tool.definition)]
    for name, problem, remedy in found:
        findings.shortcoming(f"tool {name}", problem, remedy)
    if tools and not found:
        findings.passed("schemas", "every model's API takes the tools as they are")
