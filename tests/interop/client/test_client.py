"""A dragoman client uses real servers, in both eras, over every transport; `matrix.toml` says what each of them can.

A line of the matrix says what holds for a server, or for an era of it, or for a transport of that era. `connects` says
where there is a server at all; every other feature is tried wherever there is one, and by the recipe of the server, or
that of `mcp` where the server has none. What works must be seen exactly, and what does not must not be seen.
"""

from __future__ import annotations

import asyncio
import tempfile
import tomllib
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from dragoman import AsyncClient, DragomanError
from dragoman.errors import UnsupportedVersion
from interop.client.everything import EVERYTHING
from interop.client.filesystem import FILESYSTEM
from interop.client.notes import NOTES
from interop.client.peers import HERE, PLACES, SERVERS, VERSIONS, Place, reachable
from interop.client.visit import DEADLINE, Recipes, Visit

MATRIX: dict[str, dict[str, Any]] = tomllib.loads((HERE / "matrix.toml").read_text(encoding="utf-8"))
WORKS = "works"
RECIPES: dict[str, Recipes] = {
    "mcp": NOTES,
    "fastmcp": NOTES,
    "typescript": NOTES,
    "everything": EVERYTHING,
    "filesystem": FILESYSTEM,
}
IN_BOTH_ERAS = ("mcp", "fastmcp", "typescript")
AT_ONCE = 2
PATIENCE = 1.0
"""Seconds to wait for what is not to come."""
pool = ThreadPoolExecutor(AT_ONCE)
visits: dict[Place, Future[dict[str, Any]]] = {}


def cell(feature: str, place: Place) -> str:
    """Return what the matrix says, or nothing."""
    said: Any = MATRIX.get(feature, {}).get(place.server, "")
    for name in (place.era, place.transport):
        said = said.get(name, "") if isinstance(said, dict) else said
    return said if isinstance(said, str) else ""


THERE = [place for place in PLACES if cell("connects", place) == WORKS]
CELLS = [(feature, place) for place in THERE for feature in NOTES]


def cells(*, works: bool) -> list[tuple[str, Place]]:
    return [(feature, place) for feature, place in CELLS if (cell(feature, place) == WORKS) is works]


def sightings(place: Place) -> dict[str, Any]:
    """Return what a client saw of a server or why it did not; the next server is visited meanwhile."""
    first = THERE.index(place)
    for one in THERE[first : first + AT_ONCE]:
        if one not in visits:
            visits[one] = pool.submit(pay_a_visit, one)
    return visits[place].result(DEADLINE * 5)


def pay_a_visit(place: Place) -> dict[str, Any]:
    """Let one client try every feature."""
    with tempfile.TemporaryDirectory(prefix="interop") as folder:
        root = Path(folder).resolve() / "root"
        root.mkdir()
        with reachable(place.server, place.transport, root) as target:
            return asyncio.run(try_everything(place, target, root))


async def try_everything(place: Place, target: Any, root: Path) -> dict[str, Any]:
    forced = place.era == "handshake" and place.server in IN_BOTH_ERAS
    visit = Visit(target, root, mode="handshake" if forced else "auto", cwd=root)
    seen: dict[str, Any] = {}
    async with asyncio.timeout(DEADLINE * 4), visit.client:
        for feature in NOTES:
            step, _ = RECIPES[place.server].get(feature, NOTES[feature])
            try:
                async with asyncio.timeout(DEADLINE if cell(feature, place) == WORKS else PATIENCE):
                    seen[feature] = {"saw": await step(visit)}
            except Exception as error:
                seen[feature] = {"failed": f"{type(error).__name__}: {error}"}
    return seen


def expected(feature: str, place: Place) -> Any:
    _, value = RECIPES[place.server][feature]
    return value(place.server, VERSIONS[place.era]) if callable(value) else value


def test_the_matrix_has_a_cell_for_every_feature_and_server_and_no_other() -> None:
    assert {(feature, server) for feature, servers in MATRIX.items() for server in servers} == {
        (feature, server) for feature in NOTES for server in SERVERS
    }
    assert [place for place in PLACES if not cell("connects", place).strip()] == []
    assert [(feature, place) for feature, place in CELLS if not cell(feature, place).strip()] == []
    assert set(EVERYTHING) | set(FILESYSTEM) <= set(NOTES)


@pytest.mark.covers("CIN-01")
@pytest.mark.parametrize(("feature", "place"), cells(works=True), ids=str)
def test_a_feature_that_works_is_seen_exactly_as_it_is_served(feature: str, place: Place) -> None:
    sighting = sightings(place)[feature]
    assert "saw" in sighting, sighting["failed"]
    assert sighting["saw"] == expected(feature, place)


@pytest.mark.parametrize(("feature", "place"), cells(works=False), ids=str)
def test_a_feature_that_a_server_has_not_is_not_seen(feature: str, place: Place) -> None:
    assert "saw" not in sightings(place)[feature]


NOT_THERE = [place for place in PLACES if place not in THERE and place._replace(era="handshake") in THERE]


@pytest.mark.covers("CIN-02")
@pytest.mark.parametrize("place", NOT_THERE, ids=str)
def test_a_server_that_does_not_speak_the_stateless_era_is_refused_with_the_reason(
    place: Place, tmp_path: Path
) -> None:
    with reachable(place.server, place.transport, tmp_path) as target, pytest.raises(UnsupportedVersion) as refusal:
        asyncio.run(connect(target, mode="stateless"))
    assert "this client speaks stateless versions only" in str(refusal.value)


def test_a_transport_that_the_stateless_era_does_not_have_is_refused_with_the_reason(tmp_path: Path) -> None:
    with reachable("mcp", "sse", tmp_path) as target, pytest.raises((DragomanError, ValueError), match="stateless"):
        asyncio.run(connect(target, mode="stateless", transport="sse"))


def test_a_handshake_that_one_client_insists_on_does_not_keep_others_from_the_stateless_era(tmp_path: Path) -> None:
    with reachable("mcp", "http", tmp_path) as target:
        insisting = asyncio.run(connect(target, mode="handshake"))
        assert (insisting, asyncio.run(connect(target))) == (VERSIONS["handshake"], VERSIONS["stateless"])


async def connect(target: Any, **options: Any) -> str | None:
    """Return the version that is spoken."""
    async with asyncio.timeout(DEADLINE), AsyncClient(target, **options) as client:
        return client.protocol_version
