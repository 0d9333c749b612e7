"""ConfigurationFile: a configuration file, and the user's trust in the programs that it starts.

A folder that was cloned or unpacked may contain a configuration file. So a file in the working directory is trusted
only after the user agreed. The command stores the agreement in the user's state folder, under a digest of path and
text, and asks again when the file has changed. A file that `--config` or DRAGOMAN_CONFIG names, and a file in the
user's own configuration folder are trusted without a question.
"""

from __future__ import annotations

import hashlib
import json
import re
import shlex
from pathlib import Path
from typing import Any

from dragoman.cli.command import usage_error
from dragoman.cli.terminal import Terminal
from dragoman.client.group.config import raw_inputs, raw_servers
from dragoman.runtime.terminal import printable_json, printable_line, url_warnings
from dragoman.runtime.user_files import private_folder, require_private, state_folder
from dragoman.types import Json

_URL = re.compile(r"https?://[^\s\"']+")


class ConfigurationFile:
    """A configuration file and its text; `is_named` says that the user chose it."""

    def __init__(self, path: Path, text: str, *, is_named: bool) -> None:
        self.path = path
        self._text = text
        self._is_trusted = is_named

    def __str__(self) -> str:
        return str(self.path)

    async def require_trust(self, terminal: Terminal) -> None:
        """Ask the user whether to trust the file, unless the file is trusted already.

        Raises:
            UsageError: the user does not trust the file, or cannot be asked.
        """
        if self._is_trusted or self._was_trusted_before():
            self._is_trusted = True
            return
        if not terminal.settings.trust and not await self._ask(terminal):
            raise usage_error(
                f"You have not trusted {str(self.path)!r}, which was found in this folder, so nothing in it was run."
                f" Read it. Then add --trust to trust it as it is now, or name it with --config {self.path}."
            )
        self.trust(terminal)

    async def _ask(self, terminal: Terminal) -> bool:
        if not terminal.can_ask:
            return False
        async with terminal.dialog() as dialog:
            dialog.write(f"{printable_line(str(self.path.absolute()))} was found in this folder. It names:", "bold")
            described = _described(raw_servers(self._text, self.path), raw_inputs(self._text, self.path))
            return await dialog.show_pages("\n".join(described)) and await dialog.confirm(
                "Trust this file until it changes?"
            )

    def _mark(self) -> Path:
        """Return the file that exists if this text at this path is trusted."""
        identity = f"{self.path.resolve()}\0{self._text}".encode("utf-8", "surrogatepass")
        return state_folder() / "trusted" / hashlib.sha256(identity).hexdigest()

    def _was_trusted_before(self) -> bool:
        try:
            mark = self._mark()
            require_private(mark.parent)  # a mark that another user wrote does not count
            return mark.is_file()
        except (OSError, RuntimeError):  # there is no home folder, or it cannot be read
            return False

    def trust(self, terminal: Terminal) -> None:
        """Store that the user trusts the file with its present text."""
        self._is_trusted = True
        try:
            mark = self._mark()
            private_folder(mark.parent)
            mark.write_text(f"{self.path.absolute()}\n", encoding="utf-8", errors="surrogateescape")
        except (OSError, RuntimeError) as error:
            terminal.report(f"dragoman: it cannot be saved that you trust the file ({type(error).__name__}).")


def _described(servers: Json, inputs: Any) -> list[str]:
    """Return lines that show the command or URL of each server, exactly as in the file.

    `inputs` are the declarations of `${input:id}` in the file.
    """
    found: list[str] = []
    for name, entry in servers.items():
        rest = dict(entry) if isinstance(entry, dict) else {"": entry}
        found.append(printable_line(f"  {name}: {_action(rest)}"))
        if rest:
            found.append(f"    with {_json(rest)}")
        found += [f"    Beware: {warning}" for url in _URL.findall(_json(entry)) for warning in url_warnings(url)]
    if inputs:
        found.append(f"  where ${{input:ID}} is from {_json(inputs)}")
    return found or ["  no server"]


def _action(rest: Json) -> str:
    if "command" in rest:
        command, args = rest.pop("command"), rest.pop("args", [])
        words = [*(command if isinstance(command, list) else [command]), *(args if isinstance(args, list) else [args])]
        return f"runs {shlex.join(map(str, words))}"
    return "connects" if rest else "nothing"


def _json(value: Any) -> str:
    return printable_json(json.dumps(value, ensure_ascii=False, default=str))
