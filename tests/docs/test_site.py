"""The site of the documentation in a real Chromium, over HTTP and as files: its search, and its selector of releases.

The queries were written down, each with its right page, before the search was asked. An answer belongs to a query for
certain: the results of the query before it are gone before the query is typed.
"""

from __future__ import annotations

import fcntl
import shutil
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

from interop.inspector.browser import Browser, Tab

pytestmark = pytest.mark.e2e

ROOT = Path(__file__).resolve().parents[2]
BUILD_SECONDS = 300
SEARCH = "input[role=combobox]"
QUERIES = {
    "progress": "conversation",
    "ask the user": "conversation",
    "elicitation": "conversation",
    "rate limit": "middleware",
    "middleware": "middleware",
    "lifespan": "dependencies",
    "dependency injection": "dependencies",
    "pytest": "testing",
    "sqlite": "recipes",
    "background task": "tasks",
    "docker": "deploy/docker",
    "kubernetes": "deploy/kubernetes",
    "nginx": "deploy/nginx",
    "aws lambda": "deploy/serverless",
    "fastapi": "mounting",
    "django": "mounting",
    "oauth": "authorization",
    "scopes": "authorization",
    "bearer token": "authorization",
    "client timeout": "client",
    "reconnect": "client",
    "multiple servers": "many-servers",
    "proxy": "composing",
    "mount": "composing",
    "opentelemetry": "telemetry",
    "audit log": "telemetry",
    "health check": "operations",
    "access log": "operations",
    "session state": "state",
    "redis": "redis",
    "claude desktop": "installing",
    "migrate from fastmcp": "migration/python",
    "ruby": "migration/ruby",
    "limits": "limits",
    "exit codes": "cli",
    "record and replay": "recording",
    "hide a tool": "visibility",
    "structured output": "tools",
    "rolling deploy": "scaling",
    "server does not start": "troubleshooting",
}
ASK = """async ([query, milliseconds]) => {
    const roots = [...document.querySelectorAll("*")].map(({ shadowRoot }) => shadowRoot);
    const root = roots.find((one) => one?.querySelector("input"));
    const input = root.querySelector("input");
    const until = performance.now() + milliseconds;
    async function says(wanted) {
        for (;;) {
            const said = root.querySelector("[role=status]").textContent;
            if (wanted.test(said)) return;
            if (performance.now() > until) throw new Error(`${query}: ${said}`);
            await new Promise((resolve) => setTimeout(resolve, 10));
        }
    }
    function type(text) {
        input.value = text;
        input.dispatchEvent(new InputEvent("input", { bubbles: true }));
    }
    type("");
    await says(/^$/);
    type(query);
    await says(/^[\\d,]+ results?$/);
    return root.querySelector("a[role=option]").getAttribute("href");
}"""
MILLISECONDS = 30_000


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A site with two releases of the pages; the older one lacks a page."""
    folder = tmp_path_factory.mktemp("documentation")
    (ROOT / "build").mkdir(exist_ok=True)
    with (ROOT / "build" / "docs.lock").open("w") as lock:  # another worker may build the pages too
        fcntl.flock(lock, fcntl.LOCK_EX)
        zensical = Path(sys.executable).with_name("zensical")
        subprocess.run([zensical, "build", "--strict"], cwd=ROOT, check=True, timeout=BUILD_SECONDS)
        shutil.copytree(ROOT / "build" / "docs", folder / "built")
    release = [sys.executable, ROOT / "tools" / "docs_release.py", folder / "built", folder / "site", "--version"]
    tasks = (folder / "built" / "tasks.html").rename(folder / "tasks.html")
    subprocess.run([*release, "0.0.9"], check=True, timeout=60)
    tasks.rename(folder / "built" / "tasks.html")
    subprocess.run([*release, "0.1.0"], check=True, timeout=60)
    return folder / "site"


@pytest.fixture(scope="session")
def served(site: Path) -> Iterator[str]:
    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, format: str, *arguments: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=site)) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join(30)


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    made = Browser()
    yield made
    made.close()


@pytest.fixture(params=["http", "file"])
def address(request: pytest.FixtureRequest, site: Path) -> str:
    """The address of the site; that over HTTP is served only if a test wants it."""
    return site.as_uri() if request.param == "file" else str(request.getfixturevalue("served"))


@pytest.fixture
def tab(browser: Browser) -> Iterator[Tab]:
    made = browser.tab()
    yield made
    assert made.complaints() == []
    made.close()


def open_search(tab: Tab, page: str) -> None:
    tab.setViewportSize({"width": 400, "height": 300})  # a large frame takes long to draw without a graphics card
    tab.goto(page)
    tab.waitForSelector(SEARCH, {"state": "attached"})
    tab.press_keys("Control+k")
    tab.waitForSelector(SEARCH)


def first_result(tab: Tab, query: str) -> str:
    """Type a query, and return the address of the first result."""
    return str(tab.evaluate(ASK, [query, MILLISECONDS]))


def page_of(address: str, release: str) -> str:
    return address.partition(f"/{release}/")[2].partition(".html")[0]


def test_the_search_finds_the_right_guide_first(tab, address):
    open_search(tab, f"{address}/0.1.0/deploy/docker.html")
    found = {query: page_of(first_result(tab, query), "0.1.0") for query in QUERIES}
    assert found == QUERIES


@pytest.mark.parametrize(
    ("query", "anchor"),
    [
        ("call_tool", "call_tool"),
        ("ToolError", "dragoman.errors.ToolError"),
        ("report_progress", "report_progress"),
    ],
)
def test_a_query_that_is_written_as_a_name_finds_the_reference_first(tab, site, query, anchor):
    open_search(tab, f"{site.as_uri()}/latest/index.html")
    first = first_result(tab, query)
    assert page_of(first, "latest").startswith("reference/")
    assert first.endswith(anchor)


@pytest.mark.parametrize(("query", "page"), [("middelware", "middleware"), ("kuber", "deploy/kubernetes")])
def test_the_search_forgives_a_slip_and_a_word_that_is_not_finished(tab, site, query, page):
    open_search(tab, f"{site.as_uri()}/latest/index.html")
    assert page_of(first_result(tab, query), "latest") == page


def test_the_search_marks_the_words_that_it_found_and_repeats_no_text(tab, site):
    open_search(tab, f"{site.as_uri()}/latest/index.html")
    first_result(tab, "elicitation request")
    titles = "a[role=option] h2"
    assert "elicitation" in tab.textContent(f"{titles} mark >> nth=0").lower()
    shown = tab.evaluate("() => [...document.querySelectorAll('*')].map((one) => one.shadowRoot?.textContent).join('')")
    assert "RequestRequest" not in shown


def test_further_results_follow_when_the_reader_scrolls(tab, site):
    open_search(tab, f"{site.as_uri()}/latest/index.html")
    first_result(tab, "server")
    for _ in range(12):
        tab.press_keys("ArrowDown")
    tab.waitForSelector("a[role=option] >> nth=15")


def test_the_site_leads_to_the_latest_release_and_the_selector_to_the_others(tab, address):
    tab.goto(f"{address}/index.html")
    tab.waitForURL(f"{address}/latest/index.html")
    assert tab.textContent(".md-version__current") == "0.1.0"
    tab.goto(f"{address}/latest/deploy/docker.html")
    tab.focus(".md-version__current")
    tab.click(".md-version__link >> text=0.0.9")
    tab.waitForURL(f"{address}/0.0.9/deploy/docker.html")
    assert tab.textContent(".md-version__current") == "0.0.9"


def test_the_selector_leads_to_the_first_page_of_a_release_that_lacks_the_page(tab, address):
    tab.goto(f"{address}/0.1.0/tasks.html")
    tab.hover(".md-version")
    tab.click(".md-version__link >> text=0.0.9")
    tab.waitForURL(f"{address}/0.0.9/index.html")


def test_pages_that_are_no_release_have_no_selector(tab, site):
    tab.goto((site.parent / "built" / "index.html").as_uri())
    tab.waitForSelector(".md-header__topic")
    assert tab.evaluate("() => document.querySelectorAll('.md-version').length") == 0


@pytest.mark.parametrize("page", ["index", "conversation", "reference/server", "limits"])
def test_a_page_is_never_wider_than_the_window(tab, site, page):
    tab.goto(f"{site.as_uri()}/latest/{page}.html")
    for width in (390, 820, 1440):
        tab.setViewportSize({"width": width, "height": 900})
        assert tab.evaluate("() => document.documentElement.scrollWidth - innerWidth") <= 0
