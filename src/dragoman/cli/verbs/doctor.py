"""`dragoman doctor [TARGET]`: examine a server and the way to it, step by step, with a remedy for each failure."""

from __future__ import annotations

import logging
import statistics
import time
from collections.abc import Collection
from typing import TYPE_CHECKING

import click

from dragoman.cli.arguments import Arguments
from dragoman.cli.command import connecting, in_event_loop, show_logs
from dragoman.cli.completion import complete_target
from dragoman.cli.doctor.findings import Findings
from dragoman.cli.exit_codes import FAILED, OK, one_line
from dragoman.cli.targets import (
    ResolvedTarget,
    announcing_wait,
    client_options,
    make_client,
    read_configuration,
    resolve_target,
    target_of_entry,
)
from dragoman.cli.terminal import Terminal
from dragoman.errors import (
    AuthRequired,
    ConfigError,
    ConnectError,
    DragomanError,
    MethodNotFound,
    ServerCrashed,
    Timeout,
)
from dragoman.protocol.urls import redacted
from dragoman.types import Json

if TYPE_CHECKING:
    from dragoman.client.client import AsyncClient

PINGS = 5
LISTS = {"tools": "tools", "prompts": "prompts", "resources": "resources", "resource_templates": "resources"}
"""The lists of a server, and the capability that declares each."""
_UNLISTED = "the server declares the list and has to answer for it"
_HOW_TO_LIST = "dragoman list --tools"
_CAPABILITIES = ("tools", "prompts", "resources", "completions", "logging")


@click.command("doctor", short_help="Find out what is wrong with a server, or with the way to it.")
@click.argument("target", required=False, shell_complete=complete_target)
@click.option("--call", "calls", multiple=True, metavar="TOOL", help="Also call this tool; may be given again.")
@click.option("--json-args", metavar="JSON", help="The arguments of --call, as a JSON object ({}).")
@connecting
@click.pass_obj
@in_event_loop
async def command(terminal: Terminal, target: str | None, calls: tuple[str, ...], json_args: str | None) -> int:
    """Examine a server step by step; without a target, every server of the configuration file.

    No tool is called, unless --call names it.
    """
    arguments = Arguments([], json_args).texts()
    settings, findings = terminal.settings, Findings(terminal)
    show_logs(terminal)
    logger = logging.getLogger("dragoman")
    logger.handlers = [*(logger.handlers if settings.verbose else ()), _Warnings(findings)]
    for resolved in await _targets(terminal, target, findings):
        findings.begin(resolved.label, is_own=resolved.is_own)
        findings.passed("target", _shown_target(resolved))
        await _examine(terminal, resolved, findings, dict.fromkeys(calls, arguments))
    if settings.json:
        terminal.write_json({"ok": findings.all_passed, "findings": findings.all})
    elif findings.all_passed and not findings.has_remarks:
        terminal.write("All is well.", "green")
    elif findings.all_passed:
        terminal.write("It works; what is marked with ! is for the server's author to mend.", "green")
    return OK if findings.all_passed else FAILED


class _Warnings(logging.Handler):
    """A log handler that adds warnings as findings."""

    def __init__(self, findings: Findings) -> None:
        super().__init__(logging.WARNING)
        self._findings = findings

    def emit(self, record: logging.LogRecord) -> None:
        self._findings.shortcoming("warning", record.getMessage())


async def _targets(terminal: Terminal, target: str | None, findings: Findings) -> list[ResolvedTarget]:
    try:
        if target is not None or terminal.settings.command is not None:
            return [await resolve_target(terminal, target)]
        file, entries = read_configuration(terminal.settings)
    except ConfigError as error:
        findings.failed("configuration", str(error), "mend the file")
        return []
    findings.passed("configuration", f"{file} with {len(entries)} server{'' if len(entries) == 1 else 's'}")
    found = []
    for entry in entries:
        if entry.disabled:
            continue
        findings.server = entry.name
        if entry.error is None:
            findings.passed("variables", f"all that {entry.name!r} names are set")
            found.append(await target_of_entry(terminal, entry, file))
        else:
            step = "variables" if "variable" in entry.error.message else "configuration"
            findings.failed(step, str(entry.error), "mend what it names, in the file or in the environment")
    if not entries:
        findings.failed("configuration", f"{file} names no server", "add one under mcpServers")
    return found


def _shown_target(resolved: ResolvedTarget) -> str:
    if resolved.url is not None:
        return redacted(resolved.url)
    if isinstance(resolved.target, dict):
        return f"the command {resolved.target.get('command')} of {resolved.file}"
    return f"the command {resolved.label}" if isinstance(resolved.target, list | str) else str(resolved.target)


async def _examine(terminal: Terminal, resolved: ResolvedTarget, findings: Findings, calls: dict[str, Json]) -> None:
    from dragoman.client.client import AsyncClient

    client: AsyncClient = make_client(AsyncClient, resolved, await client_options(terminal.settings, resolved))
    try:
        began = time.perf_counter()
        try:
            with announcing_wait(terminal, resolved):
                await client.start()
        except AuthRequired as error:
            await _examine_refusal(resolved, error, findings)
            return
        except DragomanError as error:
            findings.failed("connection", one_line(error), _remedy(error, resolved))
            return
        findings.passed("connection", f"open after {(time.perf_counter() - began) * 1000:.0f} ms")
        await _examine_server(client, findings)
        for name, arguments in calls.items():
            await _examine_call(client, name, arguments, findings)
    finally:
        await client.stop()


async def _examine_refusal(resolved: ResolvedTarget, error: AuthRequired, findings: Findings) -> None:
    findings.failed("connection", one_line(error))
    if resolved.url is not None:
        from dragoman.cli.doctor.login import examine_login

        await examine_login(resolved.url, error, findings)


def _remedy(error: DragomanError, resolved: ResolvedTarget) -> str:
    if isinstance(error, ServerCrashed):
        return "run its command by itself and see what it says, or add --verbose"
    if isinstance(error, Timeout):
        return "see whether it starts at all, or give it more time with --timeout"
    if isinstance(error, ConnectError) and resolved.url is not None:
        return "see whether the server runs, and whether the address and its path are right (often /mcp)"
    return "see whether this is an MCP server; --mode and --protocol-version say how to speak to it"


async def _examine_server(client: AsyncClient, findings: Findings) -> None:
    from dragoman.protocol.versions import find_version

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
            findings.shortcoming(words, f"it declares them, and does not list them: {one_line(error)}", _UNLISTED)
        except DragomanError as error:
            findings.failed(words, one_line(error), _UNLISTED)
        else:
            findings.passed(words, f"{len(items)} listed")


async def _examine_call(client: AsyncClient, name: str, arguments: Json, findings: Findings) -> None:
    began = time.perf_counter()
    try:
        tool = await client.tool(name)
        result = await tool.call(arguments, raise_on_error=False)
    except DragomanError as error:
        findings.failed(f"call {name}", one_line(error), f"see what it takes: {_HOW_TO_LIST}")
        return
    if result.is_error:
        said = result.text or "it did not say why"
        findings.failed(f"call {name}", f"the tool failed: {said}", "give other arguments with --json-args")
    else:
        kinds = ", ".join(str(getattr(block, "type", "content")) for block in result.content) or "no content"
        findings.passed(f"call {name}", f"it answered with {kinds} in {(time.perf_counter() - began) * 1000:.0f} ms")


async def _examine_tools(client: AsyncClient, findings: Findings) -> None:
    from dragoman.cli.doctor.tools import problems

    try:
        tools = await client.tools()
    except DragomanError:
        return
    found = [(tool.name, *problem) for tool in tools for problem in problems(tool.definition)]
    for name, problem, remedy in found:
        findings.shortcoming(f"tool {name}", problem, remedy)
    if tools and not found:
        findings.passed("schemas", "every model's API takes the tools as they are")
