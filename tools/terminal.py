"""Draws docs/assets/terminal.svg: what the command prints, as a picture.

python tools/terminal.py
"""

from __future__ import annotations

import io
import os
import re
import subprocess
import sys
from pathlib import Path

from rich.console import Console
from rich.text import Text

ROOT = Path(__file__).resolve().parent.parent
PICTURE = ROOT / "docs/assets/terminal.svg"
WIDTH = 88
COMMANDS = (
    "dragoman list examples/weather.py",
    "dragoman call examples/weather.py forecast city=Oslo",
    "dragoman call examples/weather.py forecast city=Atlantis",
)


def output_of(command: str) -> str:
    """Return what a command prints, with its colours."""
    arguments = [sys.executable, "-m", *command.split()]
    environment = {**os.environ, "FORCE_COLOR": "1", "TERM": "xterm-256color", "COLUMNS": str(WIDTH)}
    environment.pop("NO_COLOR", None)
    ran = subprocess.run(
        arguments, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )
    return ran.stdout.rstrip()


def picture() -> str:
    """Return the commands and what they print as an SVG that loads nothing."""
    console = Console(record=True, width=WIDTH, file=io.StringIO(), force_terminal=True, color_system="truecolor")
    for command in COMMANDS:
        console.print(Text.assemble(("$ ", "bold green"), (command, "bold")))
        console.print(Text.from_ansi(output_of(command)))
        console.print()
    svg = console.export_svg(title="dragoman", unique_id="terminal")
    return re.sub(r"@font-face \{.*?\}\s*", "", svg, flags=re.DOTALL)


if __name__ == "__main__":
    PICTURE.write_text(picture(), encoding="utf-8")
