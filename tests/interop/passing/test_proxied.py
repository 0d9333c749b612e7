"""Clients of others use servers through `Server.proxy`, and see what they see directly; so do our clients."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

import pytest

from dragoman import Server
from interop.client.notes import NOTES
from interop.client.peers import Place, reachable
from interop.client.test_client import RECIPES, THERE, WORKS, cell, expected
from interop.client.visit import DEADLINE, Visit
from interop.expectations import ERAS, PEERS
from interop.passing.test_passing import SERVER, SERVERS, differing, sightings
from interop.passing.test_passing import start as start
from interop.processes import http_servers

pytestmark = pytest.mark.e2e
PROGRAM = """
import sys
from dragoman import Server

words = sys.argv[1:]
Server.proxy(words[0] if words[0].startswith("http") else words).run()
"""


def proxied(*target: str | Path) -> list[str]:
    return [sys.executable, "-c", PROGRAM, *map(str, target)]


@pytest.mark.parametrize("behind", ["stdio", "http"])
@pytest.mark.parametrize("peer", PEERS)
@pytest.mark.parametrize("era", ERAS)
def test_a_client_sees_through_a_proxy_what_it_sees_directly(peer: str, era: str, behind: str, start: Any) -> None:
    if behind == "stdio":
        proxies = {name: proxied(sys.executable, SERVER, name) for name in SERVERS}
        seen = sightings(peer, era, start(**proxies))
    else:
        with http_servers(*SERVERS, workers=1) as servers:
            urls = dict(zip(SERVERS, (server.url for server in servers), strict=True))
            seen = sightings(peer, era, start(**{name: proxied(url) for name, url in urls.items()}))
    assert differing(seen, peer, era, "stdio", *(["http"] if behind == "http" else [])) == {}


PROXIED = [place for place in THERE if place.server in ("mcp", "typescript", "everything") and place.transport != "sse"]


@pytest.mark.parametrize("place", PROXIED, ids=str)
def test_our_client_sees_servers_of_others_through_a_proxy_as_they_are(place: Place, tmp_path: Path) -> None:
    root = tmp_path.resolve() / "root"
    root.mkdir()

    async def visit(target: Any) -> dict[str, Any]:
        one = Visit(Server.proxy(target, cwd=str(root)), root, mode=place.era)
        seen: dict[str, Any] = {}
        async with one.client:
            for feature in [feature for feature in NOTES if cell(feature, place) == WORKS]:
                step, _ = RECIPES[place.server].get(feature, NOTES[feature])
                try:
                    async with asyncio.timeout(DEADLINE):
                        seen[feature] = await step(one)
                except Exception as error:
                    seen[feature] = f"{type(error).__name__}: {error}"
        return seen

    with reachable(place.server, place.transport, root) as target:
        seen = asyncio.run(visit(target))
    assert len(seen) > 10
    assert {feature: saw for feature, saw in seen.items() if saw != expected(feature, place)} == {}
