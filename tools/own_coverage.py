"""Require that each file of types/ and protocol/ is covered, branches included, by its own test file alone.

One run of the unit tests records which test covered what. The report of each file then counts only its own tests, in
`tests/unit/<folder>/test_<file>.py` or `test_<file>_<subject>.py`, and what ran at import.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from io import StringIO
from pathlib import Path

import coverage

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "src/dragoman"
ROOMS = ("types", "protocol")


def main() -> int:
    sources = [path for room in ROOMS for path in sorted((PACKAGE / room).rglob("[!_]*.py"))]
    with tempfile.TemporaryDirectory() as folder:
        data_file = Path(folder) / "coverage"
        if (failed := _run_unit_tests(data_file)) != 0:
            return failed
        lacking = [line for source in sources if (line := _lack(data_file, source))]
    print("\n".join(lacking) or f"{len(sources)} files, each wholly covered by its own tests")
    return 1 if lacking else 0


def _run_unit_tests(data_file: Path) -> int:
    tests = [f"tests/unit/{room}" for room in ROOMS]
    command = [sys.executable, "-m", "coverage", "run", f"--data-file={data_file}", "-m", "pytest", "-q", *tests]
    return subprocess.run(command, cwd=ROOT, check=False).returncode


def _lack(data_file: Path, source: Path) -> str | None:
    folder = ROOT / "tests/unit" / source.parent.relative_to(PACKAGE)
    own_tests = [*folder.glob(f"test_{source.name}"), *folder.glob(f"test_{source.stem}_*.py")]
    if not own_tests:
        return f"{source.relative_to(ROOT)} has no {folder.relative_to(ROOT)}/test_{source.name}"
    measured = coverage.Coverage(data_file=str(data_file))
    measured.load()
    report = StringIO()
    contexts = ["^$", *(rf"\b{source.parent.name}\.{tests.stem}\." for tests in own_tests)]
    covered = measured.report([str(source)], contexts=contexts, file=report, show_missing=True)
    return None if covered == 100 else report.getvalue()


if __name__ == "__main__":
    sys.exit(main())
