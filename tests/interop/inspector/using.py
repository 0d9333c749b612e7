"""How the tests of the page use it: as a person with a mouse, a keyboard and eyes."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from interop.inspector.browser import Tab

DEADLINE = 60.0
KEYSTROKE = """async (text) => {
    const input = document.querySelector('[aria-label="Filter"]');
    const word = document.querySelector('.filter-word');
    const began = performance.now();
    input.value = text;
    input.dispatchEvent(new Event('input'));
    await new Promise((done) => {
        const seen = new MutationObserver(() => { seen.disconnect(); requestAnimationFrame(done); });
        seen.observe(word, { childList: true, subtree: true });
    });
    return performance.now() - began;
}"""


@contextmanager
def inspecting(folder: Path, *words: str) -> Iterator[str]:
    """Run `dragoman inspect` where there is no display, no Node.js and no key ring; give the address of its page."""
    clean = {"PATH": "/usr/bin:/bin", "HOME": str(folder), "XDG_STATE_HOME": str(folder), "TMPDIR": str(folder)}
    child = subprocess.Popen(
        [sys.executable, "-m", "dragoman", "inspect", "--no-browser", *words],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
        env=clean,
        cwd=folder,
    )
    assert child.stdout
    try:
        address = child.stdout.readline().strip()
        assert address.startswith("http://127.0.0.1:"), address
        yield address
    finally:
        child.send_signal(signal.SIGINT)
        assert child.wait(DEADLINE) in (0, 130)
        child.stdout.close()


def choose(tab: Tab, name: str, *, view: str = "Explore") -> None:
    """Make the page be about a server, connected."""
    tab.view("Servers")
    tab.click(f".server-list >> role=button[name=/{name}$/]")
    tab.waitForSelector(f".card h3 >> text={name}")
    if tab.getAttribute(".card .status", "data-status") != "connected":
        tab.button("Connect", ".card")
        tab.waitForSelector(".card .status[data-status=connected]")
    tab.view(view)


def tool(tab: Tab, name: str, kind: str = "Tools") -> None:
    """Show an item of the list."""
    tab.click(f".kinds >> role=tab[name=/^{kind}/]")
    tab.click(f".items-list >> role=button[name=/^{name}/]")
    tab.waitForSelector(".item-detail")


def call(tab: Tab, verb: str = "Call") -> None:
    """Send what the form says, and wait for the outcome."""
    tab.evaluate("document.querySelector('.outcome')?.replaceChildren()")
    tab.button(verb, ".trial")
    tab.waitForSelector(".outcome > *")


def arguments(tab: Tab) -> Any:
    """Return the JSON beside the form."""
    return json.loads(tab.inputValue(".json textarea"))


def raw_result(tab: Tab) -> Any:
    """Return the result that is shown."""
    tab.click('.outcome >> role=tab[name="Raw JSON"]')
    text = tab.evaluate("document.querySelector('.outcome pre.code').textContent")
    tab.click(".outcome >> role=tab >> nth=0")
    return json.loads(text)


def until(condition: Any, what: str) -> Any:
    """Wait until something holds, and return it."""
    ends = time.monotonic() + DEADLINE
    while not (found := condition()):
        assert time.monotonic() < ends, what
        time.sleep(0.02)
    return found


def keep_only(tab: Tab, words: str) -> float:
    """Type a filter of the traffic, and return how many milliseconds the rows took."""
    taken: float = tab.evaluate(KEYSTROKE, words)
    return taken
