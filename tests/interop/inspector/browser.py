"""A real Chromium for the tests, driven through Node.js by one line for each command."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

from interop.wild.environments import node

HERE = Path(__file__).parent
SEES = """([within, text]) =>
    [...document.querySelectorAll(within)].some((one) => one.checkVisibility() && one.textContent.includes(text))"""


class BrowserError(AssertionError):
    """The browser could not do what a test asked of it."""


class Browser:
    """One Chromium with several tabs; every method of a Playwright page is a method of a tab."""

    def __init__(self) -> None:
        command = [str(node()), str(HERE / "browser.mjs")]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.tabs = 0

    def tab(self) -> Tab:
        """Return a new tab, with a storage of its own."""
        self.tabs += 1
        return Tab(self, str(self.tabs))

    def command(self, tab: str, call: str, given: tuple[Any, ...]) -> Any:
        assert self.process.stdin
        assert self.process.stdout
        self.process.stdin.write(json.dumps({"tab": tab, "call": call, "given": given}) + "\n")
        self.process.stdin.flush()
        answer = json.loads(self.process.stdout.readline())
        if "error" in answer:
            raise BrowserError(f"{call}{given}: {answer['error']}")
        return answer["value"]

    def close(self) -> None:
        assert self.process.stdin
        assert self.process.stdout
        self.process.stdin.close()
        self.process.wait(30)
        self.process.stdout.close()


class Tab:
    def __init__(self, browser: Browser, name: str) -> None:
        self._browser = browser
        self._name = name

    def __getattr__(self, call: str) -> Any:
        return lambda *given: self._browser.command(self._name, call, given)

    def press_keys(self, keys: str) -> None:
        self._browser.command(self._name, "keyboard.press", (keys,))

    def type_keys(self, text: str) -> None:
        self._browser.command(self._name, "keyboard.type", (text,))

    def button(self, name: str, within: str = "") -> None:
        """Press a button by its name."""
        self.click(
            f'{within} >> role=button[name="{name}"] >> visible=true'
            if within
            else f'role=button[name="{name}"] >> visible=true'
        )

    def sees(self, text: str, within: str = "body") -> None:
        """Wait until a text can be seen."""
        self.waitForFunction(SEES, [within, text])

    def view(self, name: str) -> None:
        self.click(f"nav >> role=button[name=/^{name}/]")
