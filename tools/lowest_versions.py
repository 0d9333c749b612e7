"""Print the lowest version of each dependency that pyproject.toml allows, as constraints for pip.

    python tools/lowest_versions.py > lowest.txt

`make test-lowest` runs the tests with these versions. Dependencies of dependencies are not constrained. Each lowest
version must be a release that exists: uvloop>=0.22.1, because there is no uvloop 0.22.
"""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path

PROJECT = Path(__file__).resolve().parent.parent / "pyproject.toml"
_REQUIREMENT = re.compile(r"(?P<name>[\w.-]+)(?:\[[\w,-]+\])?>=(?P<version>[\w.]+)(?P<marker>\s*;.*)?")


def lowest_versions(requirements: list[str]) -> list[str]:
    """Return the constraint `name==version` for each requirement `name>=version`.

    Raises:
        ValueError: a requirement has another form.
    """
    constraints = []
    for requirement in requirements:
        match = _REQUIREMENT.fullmatch(requirement)
        if match is None:
            raise ValueError(f"{requirement!r} does not have the form name>=version")
        constraints.append(f"{match['name']}=={match['version']}{match['marker'] or ''}")
    return constraints


def main() -> None:
    """Print the constraints of the dependencies and the extras."""
    project = tomllib.loads(PROJECT.read_text(encoding="utf-8"))["project"]
    requirements = [*project["dependencies"]]
    for extra in project["optional-dependencies"].values():
        requirements += extra
    sys.stdout.write("\n".join(lowest_versions(requirements)) + "\n")


if __name__ == "__main__":
    main()
