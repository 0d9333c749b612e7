"""Real clients use a dragoman server, in both eras, over every transport; `matrix.toml` says which can use what."""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cache
from typing import Any

import pytest

from interop.expectations import ERAS, EXPECTED, PEERS, TRANSPORTS, expected
from interop.processes import HERE, SERVER, SERVERS, client_command, http_servers

MATRIX: dict[str, dict[str, dict[str, dict[str, str]]]] = tomllib.loads(
    (HERE / "matrix.toml").read_text(encoding="utf-8")
)
WORKS = "works"
WORKERS = {"http": 1, "http with 3 workers": 3}
DEADLINE = 180.0
SESSIONS = 12
RUNS = [(peer, era, transport) for transport in TRANSPORTS for peer in PEERS for era in ERAS]
CELLS = [(feature, *place) for place in RUNS for feature in EXPECTED]

Ended = subprocess.CompletedProcess[bytes] | subprocess.TimeoutExpired


def cell(feature: str, peer: str, era: str, transport: str) -> str:
    """Return what the matrix says, or nothing."""
    return MATRIX.get(feature, {}).get(peer, {}).get(era, {}).get(transport, "")


def cells(*, works: bool) -> list[tuple[str, str, str, str]]:
    return [place for place in CELLS if (cell(*place) == WORKS) is works]


def run_client(peer: str, *arguments: object) -> Ended:
    command = [*client_command(peer), *map(str, arguments)]
    try:
        return subprocess.run(command, capture_output=True, timeout=DEADLINE, check=False)
    except subprocess.TimeoutExpired as expired:
        return expired


def use_servers(peer: str, era: str, transport: str) -> Ended:
    """Let a client use the servers, however it ends."""
    if transport == "stdio":
        return run_client(peer, era, "stdio", sys.executable, SERVER)
    workers = WORKERS[transport]
    with http_servers(*SERVERS, workers=workers) as servers:
        connections = "http" if workers == 1 else "http-unkept"
        return run_client(peer, era, connections, *(server.url for server in servers))


@cache
def runners() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(max_workers=2)


@cache
def begin(peer: str, era: str, transport: str) -> Future[Ended]:
    """Let a client begin, once for all tests."""
    return runners().submit(use_servers, peer, era, transport)


def run(peer: str, era: str, transport: str) -> Ended:
    """Wait for a client; the next one begins meanwhile, because most of this is waiting."""
    running = begin(peer, era, transport)
    following = RUNS[RUNS.index((peer, era, transport)) + 1 :]
    if following:
        begin(*following[0])
    return running.result()


def reports(ended: Ended) -> list[dict[str, Any]]:
    """Return what a client printed."""
    assert isinstance(ended, subprocess.CompletedProcess), ended
    assert ended.returncode == 0, ended.stderr.decode()
    return [json.loads(line) for line in ended.stdout.splitlines()]


def sightings(peer: str, era: str, transport: str) -> dict[str, dict[str, Any]]:
    """Return what a client reports of each feature."""
    return {line["feature"]: line for line in reports(run(peer, era, transport))}


def test_the_matrix_has_a_cell_for_every_feature_peer_era_and_transport_and_no_other() -> None:
    named = {
        (feature, peer, era, transport)
        for feature, peers in MATRIX.items()
        for peer, eras in peers.items()
        for era, transports in eras.items()
        for transport in transports
    }
    assert named == set(CELLS)
    assert [place for place in CELLS if not cell(*place).strip()] == []


@pytest.mark.parametrize(("peer", "era", "transport"), RUNS)
def test_a_client_reports_on_every_feature(peer: str, era: str, transport: str) -> None:
    assert sightings(peer, era, transport).keys() == EXPECTED.keys()


@pytest.mark.parametrize(("feature", "peer", "era", "transport"), cells(works=True))
def test_a_feature_that_works_is_seen_exactly_as_it_was_served(
    feature: str, peer: str, era: str, transport: str
) -> None:
    sighting = sightings(peer, era, transport)[feature]
    assert "saw" in sighting, sighting["failed"]
    assert sighting["saw"] == expected(feature, peer, era)


@pytest.mark.parametrize(("feature", "peer", "era", "transport"), cells(works=False))
def test_a_feature_that_a_client_cannot_use_is_not_seen(feature: str, peer: str, era: str, transport: str) -> None:
    assert "saw" not in sightings(peer, era, transport)[feature]


@pytest.mark.covers("SHT-39")
@pytest.mark.parametrize("peer", PEERS)
def test_every_session_of_the_handshake_era_is_served_whole_by_several_workers(peer: str) -> None:
    with http_servers("conversing", workers=3) as [server]:
        visits = reports(run_client(peer, "sessions", SESSIONS, server.url))
    assert [visit.get("failed") for visit in visits] == [None] * SESSIONS
    told = [visit["saw"] for visit in visits]
    assert [(visit["lists"], visit["said"]) for visit in told] == [
        (True, "accept Confirmation(sure=True, seats=2)")
    ] * SESSIONS
    assert len({pid for visit in told for pid in visit["pids"]}) > 1
