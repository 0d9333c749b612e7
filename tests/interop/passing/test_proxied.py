"""Clients of others use servers through `Server.proxy`, and see what they see directly; so do our clients."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

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
