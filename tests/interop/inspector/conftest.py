"""One Chromium and one inspector for the tests of the page, with servers of several makers."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from interop.inspector.browser import Browser, Tab
from interop.inspector.using import inspecting
from interop.processes import ENVIRONMENT
from interop.wild.environments import ROOT, node
from interop.wild.test_wild import listening
from ports import free_port

SERVERS = Path(__file__).parent / "servers"
EVERYTHING = ROOT / "tests/interop/node_modules/@modelcontextprotocol/server-everything/dist/index.js"
OURS = {"command": sys.executable, "args": [str(SERVERS / "workshop.py")]}


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    made = Browser()
    yield made
    made.close()


@pytest.fixture(scope="session")
def protected(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """An OAuth-protected server on the official SDK."""
    port = free_port()
    command = [str(ENVIRONMENT / "bin/python"), str(SERVERS / "protected.py"), str(port)]
    with listening(command, port, tmp_path_factory.mktemp("protected")) as url:
        yield url


@pytest.fixture(scope="session")
def typescript(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A server on the TypeScript SDK, over HTTP."""
    port = free_port()
    command = [str(node()), str(ROOT / "bench/server.mjs"), str(port), "0", "add", "echo", "count"]
    with listening(command, port, tmp_path_factory.mktemp("typescript")) as url:
        yield url


@pytest.fixture(scope="session")
def address(tmp_path_factory: pytest.TempPathFactory, protected: str, typescript: str) -> Iterator[str]:
    """The address of an inspector that knows all servers."""
    folder = tmp_path_factory.mktemp("inspector")
    fast = {"command": str(ENVIRONMENT / "bin/python"), "args": [str(SERVERS / "fast.py")]}
    servers: dict[str, Any] = {
        "workshop": OURS,
        "everything": {"command": str(node()), "args": [str(EVERYTHING), "stdio"]},
        "fast": fast,
        "typescript": {"url": typescript},
        "protected": {"url": protected},
        "broken": {"command": sys.executable, "args": ["-c", "raise SystemExit('there is no module httpx')"]},
        "refused": {"url": f"http://127.0.0.1:{free_port()}/mcp"},
        "malformed": {"command": sys.executable, "args": [str(SERVERS / "malformed.py")]},
        "fragile": OURS,
        "busy": OURS,
    }
    file = folder / "mcp.json"
    file.write_text(json.dumps({"mcpServers": servers}), encoding="utf-8")
    with inspecting(folder, str(file)) as found:
        yield found


@pytest.fixture(scope="session")
def only_tab(browser: Browser) -> Tab:
    return browser.tab()


@pytest.fixture
def tab(only_tab: Tab, address: str) -> Iterator[Tab]:
    """The page, as at its first visit; what it complains of, and whom it asks besides the inspector, fails the test."""
    only_tab.goto("about:blank")
    only_tab.complaints()
    only_tab.origins()
    only_tab.goto(address)
    only_tab.evaluate("localStorage.clear(), sessionStorage.clear()")
    only_tab.waitForSelector(".server-list button")
    yield only_tab
    complaints = [one for one in only_tab.complaints() if "Failed to load resource" not in one]
    assert complaints == []
    assert only_tab.origins() == [address.split("/#")[0]]
