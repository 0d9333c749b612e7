"""`dragoman doctor [TARGET]`: what is wrong with a server, or with the way to it, and what to do about it."""

from __future__ import annotations

import asyncio
import logging
import statistics
import time
from typing import TYPE_CHECKING

import click

from dragoman.cli.command import connecting, listen_to_logs
from dragoman.cli.exit_codes import FAILED, OK, in_one_line
from dragoman.cli.settings import CommandSettings
from dragoman.cli.targets import Aim, aim_at, client_options, configuration, make_client, noting_wait, of_entry
from dragoman.cli.terminal import Terminal
from dragoman.cli.verbs.doctor_findings import Findings
from dragoman.errors import AuthRequired, ConfigError, ConnectError, DragomanError, ServerCrashed, Timeout
from dragoman.protocol.urls import redacted

if TYPE_CHECKING:
    from dragoman.client.client import AsyncClient

PINGS = 5
LISTS = ("tools", "prompts", "resources", "resource_templates")
_CAPABILITIES = ("tools", "prompts", "resources", "completions", "logging")


@click.command("doctor", short_help="Find out what is wrong with a server, or with the way to it.")
@click.argument("target", required=False)
@connecting
@click.pass_obj
def command(settings: CommandSettings, target: str | None) -> int:
    """Examine a server step by step; without a target, every server of the configuration file."""
    terminal = Terminal(settings)
    findings = Findings(terminal)
    listen_to_logs(terminal)
    logger = logging.getLogger("dragoman")
    logger.handlers = [*(logger.handlers if settings.verbose else ()), _Warnings(findings)]
    for aim in asyncio.run(_aims(terminal, target, findings)):
        findings.begin(aim.label, is_own=aim.is_own)
        findings.well("target", _place(aim))
        asyncio.run(_examine(terminal, aim, findings))
    if settings.json:
        terminal.write_json({"ok": findings.are_well, "findings": findings.all})
    elif findings.are_well and not findings.has_remarks:
        terminal.write("All is well.", "green")
    elif findings.are_well:
        terminal.write("It works; what is marked with ! is for the server's author to mend.", "green")
    return OK if findings.are_well else FAILED


class _Warnings(logging.Handler):
    """Warnings that are logged on the way, as findings."""

    def __init__(self, findings: Findings) -> None:
        super().__init__(logging.WARNING)
        self._findings = findings

    def emit(self, record: logging.LogRecord) -> None:
        self._findings.amiss("warning", record.getMessage())


async def _aims(terminal: Terminal, target: str | None, findings: Findings) -> list[Aim]:
    try:
        if target is not None or terminal.settings.command is not None:
            return [await aim_at(terminal, target)]
        file, entries = configuration(terminal.settings)
    except ConfigError as error:
        findings.wrong("configuration", str(error), "mend the file")
        return []
    findings.well("configuration", f"{file} with {len(entries)} server{'' if len(entries) == 1 else 's'}")
    found = []
    for entry in entries:
        if entry.disabled:
            continue
        findings.server = entry.name
        if entry.error is None:
            findings.well("variables", f"all that {entry.name!r} names are set")
            found.append(await of_entry(terminal, entry, file))
        else:
            step = "variables" if "variable" in entry.error.message else "configuration"
            findings.wrong(step, str(entry.error), "mend what it names, in the file or in the environment")
    if not entries:
        findings.wrong("configuration", f"{file} names no server", "add one under mcpServers")
    return found


def _place(aim: Aim) -> str:
    if aim.url is not None:
        return redacted(aim.url)
    if isinstance(aim.target, dict):
        return f"the command {aim.target.get('command')} of {aim.file}"
    return f"the command {aim.label}" if isinstance(aim.target, list | str) else str(aim.target)


async def _examine(terminal: Terminal, aim: Aim, findings: Findings) -> None:
    from dragoman.client.client import AsyncClient

    client: AsyncClient = make_client(AsyncClient, aim, await client_options(terminal.settings, aim))
    try:
        began = time.perf_counter()
        try:
            with noting_wait(terminal, aim):
                await client.start()
        except AuthRequired as error:
            await _refused(aim, error, findings)
            return
        except DragomanError as error:
            findings.wrong("connection", in_one_line(error), _remedy(error, aim))
            return
        findings.well("connection", f"open after {(time.perf_counter() - began) * 1000:.0f} ms")
        await _connected(client, findings)
    finally:
        await client.stop()


async def _refused(aim: Aim, error: AuthRequired, findings: Findings) -> None:
    findings.wrong("connection", in_one_line(error))
    if aim.url is not None:
        from dragoman.cli.verbs.doctor_login import examine_login

        await examine_login(aim.url, error, findings)


def _remedy(error: DragomanError, aim: Aim) -> str:
    if isinstance(error, ServerCrashed):
        return "run its command by itself and see what it says, or add --verbose"
    if isinstance(error, Timeout):
        return "see whether it starts at all, or give it more time with --timeout"
    if isinstance(error, ConnectError) and aim.url is not None:
        return "see whether the server runs, and whether the address and its path are right (often /mcp)"
    return "see whether this is an MCP server; --mode and --protocol-version say how to speak to it"


async def _connected(client: AsyncClient, findings: Findings) -> None:
    from dragoman.protocol.versions import find_version

    name = client.protocol_version
    version = None if name is None else find_version(name)
    era = "stateless" if version is not None and version.stateless else "handshake"
    info = client.server_info
    findings.well("server", f"{info.name} {info.version}" if info else "it does not say who it is")
    findings.well("protocol", f"{name}, the {era} era")
    await _latency(client, findings)
    offered = [one for one in _CAPABILITIES if getattr(client.capabilities, one, None) is not None]
    if offered:
        findings.well("capabilities", ", ".join(offered))
    else:
        findings.wrong("capabilities", "it offers nothing", "declare tools, prompts or resources")
    await _lists(client, findings)
    await _tools(client, findings)


async def _latency(client: AsyncClient, findings: Findings) -> None:
    times: list[float] = []
    for _ in range(PINGS):
        began = time.perf_counter()
        if not await client.ping():
            findings.wrong("latency", "it does not answer a ping", "see whether it blocks its event loop")
            return
        times.append((time.perf_counter() - began) * 1000)
    findings.well("latency", f"{statistics.median(times):.1f} ms, at most {max(times):.1f} ms, of {PINGS} pings")


async def _lists(client: AsyncClient, findings: Findings) -> None:
    for kind in LISTS:
        words = kind.replace("_", " ")
        try:
            items = await getattr(client, kind)()
        except DragomanError as error:
            findings.wrong(words, in_one_line(error), "the server declares the list and has to answer for it")
        else:
            findings.well(words, f"{len(items)} listed")


async def _tools(client: AsyncClient, findings: Findings) -> None:
    from dragoman.cli.verbs.doctor_tools import problems

    try:
        tools = await client.tools()
    except DragomanError:
        return
    found = [(tool.name, *problem) for tool in tools for problem in problems(tool.definition)]
    for name, problem, remedy in found:
        findings.amiss(f"tool {name}", problem, remedy)
    if tools and not found:
        findings.well("schemas", "every model's API takes the tools as they are")
