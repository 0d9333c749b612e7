"""`dragoman bundle FILE`: pack a server into an .mcpb, which hosts such as Claude Desktop install with a click."""

from __future__ import annotations

import re
from contextlib import redirect_stdout
from pathlib import Path
from sys import stderr

import click

from dragoman.cli.command import reporting, usage_error
from dragoman.cli.completion import complete_file
from dragoman.cli.installing.bundle import (
    Project,
    bundle_name,
    bundled_files,
    encoded_manifest,
    likely_secrets,
    manifest,
    write_bundle,
)
from dragoman.cli.server_file import load_server, split_target
from dragoman.cli.terminal import Terminal

_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@click.command("bundle", short_help="Pack a server into an .mcpb file.")
@click.argument("file", shell_complete=complete_file)
@click.option("--output", "-o", metavar="PATH", help="The file to write; by default NAME.mcpb in this folder.")
@click.option("--author", metavar="NAME", help="The author; by default the first author in pyproject.toml.")
@click.option("--ask", multiple=True, metavar="VARIABLE", help="A variable that the host asks its user for.")
@click.option("--exclude", multiple=True, metavar="PATTERN", help="Files to leave out, such as 'tests/*'.")
@reporting
def command(
    terminal: Terminal,
    file: str,
    output: str | None,
    author: str | None,
    ask: tuple[str, ...],
    exclude: tuple[str, ...],
) -> None:
    """Pack the folder of the server in FILE[:object] and a manifest into a bundle.

    The command leaves out hidden files, environments and caches, and shows the files that it packs.
    """
    wrong = [name for name in ask if _VARIABLE.fullmatch(name) is None]
    if wrong:
        raise usage_error(f"--ask {wrong[0]!r} is not the name of a variable: use letters, digits and '_'.")
    if len({name.lower() for name in ask}) < len(ask):
        raise usage_error("The variables of --ask must differ in more than upper and lower case.")
    path, chosen = split_target(file)
    with redirect_stdout(stderr):  # what the file prints is no result of the command
        server = load_server(path, chosen)
    folder = path.resolve().parent
    project = Project(folder, server)
    by = author or project.author
    if by is None:
        raise usage_error("The author is missing: give --author, or add authors to pyproject.toml.")
    target = path.name if chosen is None else f"{path.name}:{chosen}"
    about = manifest(server, target, project, by, ask)
    result = Path(output or f"{bundle_name(server)}.mcpb")
    names = bundled_files(folder, exclude, result)
    if path.name not in names:
        raise usage_error(f"The bundle would lack {path.name}: it is a hidden file, a link, or matches --exclude.")
    texts = {"manifest.json": encoded_manifest(about), "pyproject.toml": project.text.encode()}
    write_bundle(result, folder, names, texts)
    packed = sorted({*names, *texts})
    if terminal.settings.json:
        terminal.write_json({"bundle": str(result), "files": packed, "manifest": about})
        return
    for name in packed:
        terminal.write(f"  {name}")
    if found := likely_secrets(names):
        terminal.report(f"These may be secrets: {', '.join(found)}. Leave them out with --exclude.")
    terminal.write(f"{result} ({result.stat().st_size:,} bytes)")
    if project.is_made:
        terminal.report("There is no pyproject.toml, so hosts install only dragoman. Write one if that is not enough.")
