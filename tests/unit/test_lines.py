"""Lines of code are counted without comments and docstrings."""

import json
import runpy
from pathlib import Path

TOOLS = Path(__file__).resolve().parents[2] / "tools"
lines = runpy.run_path(str(TOOLS / "lines.py"))

CODE = '''"""A module.

Of two paragraphs.
"""

# A comment.
import os  # another


class Place:
    """A docstring."""

    name = "here"
    """What it is called."""

    def text(self) -> str:
        return """not a
        docstring"""


def nothing(
    given: int,
) -> None:
    """Does nothing."""
'''


def test_a_line_of_code_has_a_token_that_is_neither_comment_nor_docstring():
    counted = [CODE.splitlines()[number - 1].strip() for number in sorted(lines["code_lines"](CODE))]
    assert counted == [
        "import os  # another",
        "class Place:",
        'name = "here"',
        "def text(self) -> str:",
        'return """not a',
        'docstring"""',
        "def nothing(",
        "given: int,",
        ") -> None:",
    ]


def test_every_room_is_counted_beside_the_first_edition():
    before, now = json.loads((TOOLS / "lines_baseline.json").read_text(encoding="utf-8")), lines["count"]()
    assert {"auth", "client", "protocol", "server", "types"} <= before.keys() & now.keys()
    assert lines["table"](now, before).splitlines()[-1].startswith("in all")
    assert 25_000 < sum(before.values()) < 27_000
