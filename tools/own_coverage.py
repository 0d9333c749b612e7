"""Require that each file of types/ and protocol/ is covered, branches included, by its own test file alone.

    python tools/own_coverage.py             # both rooms, at the same time
    python tools/own_coverage.py types       # one room

One run of a room's unit tests records which test covered what. The report of each file then counts only its own tests,
in `tests/unit/<folder>/test_<file>.py` or `test_<file>_<subject>.py`, and what ran at import.
"""

from __future__ import annotations

import re
import subprocess
import sys
from io import StringIO
from pathlib import Path

import coverage
import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "src/dragoman"
ROOMS = ("types", "protocol")


class Contexts:
    """A plugin that says of what is covered which test covered it.

    Coverage can find that out by itself, but looks at every call of a function for it, which takes most of the time.
    """

    def __init__(self, measured: coverage.Coverage) -> None:
        self._measured = measured

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> object:
        self._measured.switch_context(item.nodeid)
        try:
            return (yield)
        finally:
            self._measured.switch_context("")


def main(rooms: list[str]) -> int:
    if len(rooms) == 1:
        return _examine(rooms[0])
    command = [sys.executable, __file__]
    running = [subprocess.Popen([*command, room], stdout=subprocess.PIPE, text=True) for room in rooms or ROOMS]
    for process in running:
        print(process.communicate()[0], end="")
    return max(process.returncode for process in running)


def _examine(room: str) -> int:
    sources = sorted((PACKAGE / room).rglob("[!_]*.py"))
    measured = coverage.Coverage(data_file=None, branch=True, include=[f"{PACKAGE / room}/*"])
    measured.set_option("run:dynamic_context", None)
    measured.set_option("run:source", None)
    measured.start()
    failed = pytest.main(["-q", "--rootdir", str(ROOT), str(ROOT / "tests/unit" / room)], plugins=[Contexts(measured)])
    measured.stop()
    lacking = [line for source in sources if (line := _lack(measured, source))]
    print("\n".join(lacking) or f"{len(sources)} files of {room}, each wholly covered by its own tests")
    return 1 if failed or lacking else 0


def _lack(measured: coverage.Coverage, source: Path) -> str | None:
    folder = ROOT / "tests/unit" / source.parent.relative_to(PACKAGE)
    own_tests = [*folder.glob(f"test_{source.name}"), *folder.glob(f"test_{source.stem}_*.py")]
    if not own_tests:
        return f"{source.relative_to(ROOT)} has no {folder.relative_to(ROOT)}/test_{source.name}"
    report = StringIO()
    contexts = ["^$", *(f"^{re.escape(str(tests.relative_to(ROOT)))}::" for tests in own_tests)]
    covered = measured.report([str(source)], contexts=contexts, file=report, show_missing=True)
    return None if covered == 100 else report.getvalue()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
