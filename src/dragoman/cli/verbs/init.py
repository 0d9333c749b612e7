"""`dragoman init [NAME]`: write a small project that works."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path

import click

from dragoman.cli.command import reporting, usage_error
from dragoman.cli.terminal import Terminal

KINDS = ("server", "client", "chat")
_SUFFIX = ".template"
_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?")


@click.command("init", short_help="Create a small project.")
@click.argument("name", required=False)
@click.option("--kind", type=click.Choice(KINDS), default="server", show_default=True, help="The kind of project.")
@reporting
def command(terminal: Terminal, name: str | None, kind: str) -> None:
    """Create a small project with a test that passes, in the folder NAME or in this folder.

    The command overwrites no file. The project has a workflow that runs the test; a server also has a Dockerfile.
    """
    folder = Path(name) if name is not None else Path.cwd()
    called = folder.resolve().name
    if _NAME.fullmatch(called) is None:
        raise usage_error(
            f"{called!r} cannot be the name of a project: use letters, digits, '-', '_' and '.', and begin and end with"
            " a letter or a digit."
        )
    texts = project_files(kind)
    taken = [file for file in texts if (folder / file).exists()]
    if taken:
        raise usage_error(f"{folder} already has {', '.join(taken)}, and no file is overwritten; choose another name.")
    folder.mkdir(parents=True, exist_ok=True)
    for file, text in texts.items():
        (folder / file).parent.mkdir(parents=True, exist_ok=True)
        with (folder / file).open("x", encoding="utf-8") as opened:
            opened.write(text.replace("{project}", called))
    _trust(terminal, folder, texts)
    if terminal.settings.json:
        terminal.write_json({"folder": str(folder), "files": list(texts)})
        return
    for file in texts:
        terminal.write(str(folder / file))
    terminal.report(f"Read {folder / 'README.md'} for the next steps.")


def project_files(kind: str) -> dict[str, str]:
    """Return the files of a project, as texts by their paths; `{project}` stands for the project's name."""
    folders = (files("dragoman.cli") / "projects" / name for name in (kind, "every"))
    return dict(sorted(text for folder in folders for text in _texts(folder, "")))


def _texts(folder: Traversable, above: str) -> Iterator[tuple[str, str]]:
    for one in folder.iterdir():
        path = f"{above}{one.name.removesuffix(_SUFFIX)}"
        if one.is_dir():
            yield from _texts(one, f"{path}/")
        else:
            yield path, one.read_text("utf-8")


def _trust(terminal: Terminal, folder: Path, written: Collection[str]) -> None:
    """Trust the configuration file that this command wrote, and no other file."""
    from dragoman.cli.configuration_file import ConfigurationFile
    from dragoman.client.group.config import FILES, read

    for path in (folder / name for name in FILES if name in written):
        ConfigurationFile(path, read(path), is_named=True).trust(terminal)
