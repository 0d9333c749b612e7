"""`dragoman doctor [TARGET]`: examine a server and the way to it, step by step, with a remedy for each failure."""

from __future__ import annotations

import logging
from functools import partial

import click

from dragoman.cli.arguments import Arguments
from dragoman.cli.command import connecting, show_logs
from dragoman.cli.completion import complete_target
from dragoman.cli.exit_codes import FAILED, OK
from dragoman.cli.targets import (
    announcing_wait,
    client_options,
    make_client,
    read_configuration,
    resolve_target,
    target_of_entry,
)
from dragoman.cli.terminal import Terminal
from dragoman.errors import ConfigError
from dragoman.inspector.doctor.findings import Finding, Findings, one_line
from dragoman.inspector.targets import ServerTarget
from dragoman.protocol.urls import redacted
from dragoman.types import Json


@click.command("doctor", short_help="Find out what is wrong with a server or the connection to it.")
@click.argument("target", required=False, shell_complete=complete_target)
@click.option("--call", "calls", multiple=True, metavar="TOOL", help="Also call this tool. You can repeat the option.")
@click.option("--json-args", metavar="JSON", help="The arguments of --call, as a JSON object; else {}.")
@connecting
async def command(terminal: Terminal, target: str | None, calls: tuple[str, ...], json_args: str | None) -> int:
    """Examine a server step by step. Without a target, examine every server in the configuration file.

    The command calls no tool, unless you name it with --call.
    """
    arguments = Arguments([], json_args).texts()
    settings, findings = terminal.settings, Findings(partial(_show, terminal))
    show_logs(terminal)
    logger = logging.getLogger("dragoman")
    logger.handlers = [*(logger.handlers if settings.verbose else ()), _Warnings(findings)]
    for resolved in await _targets(terminal, target, findings):
        findings.begin(resolved.name, is_own=resolved.is_own)
        if not settings.json:
            terminal.write(one_line(resolved.name), "bold")
        findings.passed("target", _shown_target(resolved))
        await _examine(terminal, resolved, findings, dict.fromkeys(calls, arguments))
    if settings.json:
        terminal.write_json({"ok": findings.all_passed, "findings": findings.all})
    elif findings.all_passed and not findings.has_remarks:
        terminal.write("All is well.", "green")
    elif findings.all_passed:
        terminal.write("The server works. Lines with ! are hints for its author.", "green")
    return OK if findings.all_passed else FAILED


def _show(terminal: Terminal, finding: Finding) -> None:
    if terminal.settings.json:
        return
    mark, style = ("!" if finding.remark else "✓", None) if finding.ok else ("✗", "red")
    terminal.write(f"{mark} {finding.step}: {finding.detail}", style)
    if finding.remedy:
        terminal.write(f"    → {one_line(finding.remedy)}", "yellow")


class _Warnings(logging.Handler):
    """A log handler that adds warnings as findings."""

    def __init__(self, findings: Findings) -> None:
        super().__init__(logging.WARNING)
        self._findings = findings

    def emit(self, record: logging.LogRecord) -> None:
        self._findings.shortcoming("warning", record.getMessage())


async def _targets(terminal: Terminal, target: str | None, findings: Findings) -> list[ServerTarget]:
    try:
        if target is not None or terminal.settings.command is not None:
            return [await resolve_target(terminal, target)]
        file, entries = read_configuration(terminal.settings)
    except ConfigError as error:
        findings.failed("configuration", str(error), "correct the file")
        return []
    findings.passed("configuration", f"{file} with {len(entries)} server{'' if len(entries) == 1 else 's'}")
    found = []
    for entry in entries:
        if entry.disabled:
            continue
        findings.server = entry.name
        if entry.error is None:
            findings.passed("variables", f"all variables of {entry.name!r} are set")
            found.append(await target_of_entry(terminal, entry, file))
        else:
            step = "variables" if "variable" in entry.error.message else "configuration"
            findings.failed(step, str(entry.error), "correct it in the file or in the environment")
    if not entries:
        findings.failed("configuration", f"{file} names no server", "add one under mcpServers")
    return found


def _shown_target(resolved: ServerTarget) -> str:
    if resolved.url is not None:
        return redacted(resolved.url)
    if isinstance(resolved.target, dict):
        return f"the command {resolved.target.get('command')} of {resolved.source}"
    return f"the command {resolved.name}" if isinstance(resolved.target, list | str) else str(resolved.target)


async def _examine(terminal: Terminal, resolved: ServerTarget, findings: Findings, calls: dict[str, Json]) -> None:
    from dragoman.client.client import AsyncClient
    from dragoman.inspector.doctor.examination import examine

    client: AsyncClient = make_client(AsyncClient, resolved, await client_options(terminal.settings, resolved))
    try:
        with announcing_wait(terminal, resolved):
            await examine(client, resolved.url, findings, calls)
    finally:
        await client.stop()
