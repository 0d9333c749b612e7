"""The pages of the documentation in a real Chromium: their search finds the right page first, opened as files too."""

from __future__ import annotations

import http.server
import subprocess
import sys
import threading
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path

import pytest

from interop.inspector.browser import Browser, Tab
from interop.wild.environments import ROOT

pytestmark = pytest.mark.e2e
QUERIES = {
    "install claude desktop": "installing",
    "mount a server": "composing",
    "inspect traffic": "inspector",
    "record and replay": "recording",
    "lifespan": "dependencies",
    "dependency injection": "dependencies",
    "hosts and origins": "http",
    "deploy": "deploying",
    "nginx": "deploy/nginx",
    "docker": "deploy/docker",
    "systemd": "deploy/systemd",
    "kubernetes": "deploy/kubernetes",
    "serverless": "deploy/serverless",
    "redis store": "redis",
    "tasks": "tasks",
    "skills": "skills",
    "ask the user": "conversation",
    "sqlite": "recipes",
    "telemetry": "telemetry",
    "pytest fixtures": "testing",
    "migrate from fastmcp": "migration/python",
    "error 421": "troubleshooting",
}
RESULTS = """() => {
    const found = [...document.querySelectorAll("*")].find((one) => one.shadowRoot?.querySelector("input"));
    return [...found.shadowRoot.querySelectorAll("a")].map((link) => link.getAttribute("href"));
}"""
SETTLED = """(words) => {
    const found = [...document.querySelectorAll("*")].find((one) => one.shadowRoot?.querySelector("input"));
    const first = found?.shadowRoot.querySelector("a")?.getAttribute("href") ?? "";
    if (new URL(first, location.href).searchParams.get("h") !== words) return false;
    if (window.lastFirst?.href !== first) window.lastFirst = { href: first, since: performance.now() };
    return performance.now() - window.lastFirst.since > 700;
}"""
"""Results come in parts. The first of them is final when it has not changed for a while."""


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    made = Browser()
    yield made
    made.close()


@pytest.fixture(scope="module")
def pages() -> Path:
    """The folder of the pages, made as `make docs` makes them."""
    command = [Path(sys.executable).with_name("zensical"), "build", "--strict"]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True, timeout=300)
    return ROOT / "build/docs"


def first_pages(tab: Tab, folder: str, queries: Iterable[str]) -> dict[str, str]:
    """Return the page that each query finds first."""
    tab.press_keys("Control+k")
    found = {}
    for query in queries:
        tab.press_keys("Control+A")
        tab.type_keys(query)
        tab.waitForFunction(SETTLED, query)
        address = tab.evaluate(f"new URL(({RESULTS})()[0], location.href).pathname")
        found[query] = address.removeprefix(folder).removesuffix(".html").strip("/")
    return found


def test_the_search_finds_the_right_page_first_from_files_and_over_http(browser: Browser, pages: Path) -> None:
    tab = browser.tab()
    handler = partial(http.server.SimpleHTTPRequestHandler, directory=str(pages))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as served:
        threading.Thread(target=served.serve_forever, daemon=True).start()
        tab.goto(f"http://127.0.0.1:{served.server_port}/index.html")
        assert first_pages(tab, "", QUERIES) == QUERIES
        tab.goto("about:blank")
        served.shutdown()
    tab.goto(f"{pages.as_uri()}/index.html")
    few = dict(list(QUERIES.items())[:5])
    assert first_pages(tab, str(pages), few) == few
    tab.goto("about:blank")


def test_the_pages_load_nothing_from_elsewhere(pages: Path) -> None:
    for page in pages.rglob("*.html"):
        text = page.read_text(encoding="utf-8")
        assert 'src="http' not in text, page.name
        assert 'rel="stylesheet" href="http' not in text, page.name
