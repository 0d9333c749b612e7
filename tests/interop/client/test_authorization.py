"""A login at an authorization server that nobody here wrote: it happens once, lasts, and is renewed."""

from __future__ import annotations

import asyncio
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from auth.visiting import REDIRECT, Browser
from dragoman import AsyncClient
from dragoman.auth import FileStorage, OAuth
from interop.client.peers import DEADLINE, ENVIRONMENT, HERE
from ports import free_port


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    """The address of a server that lets nobody in without a token."""
    port = free_port()
    command = [str(ENVIRONMENT / "bin" / "python"), str(HERE / "authorizing_server.py"), str(port)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        deadline = time.monotonic() + DEADLINE
        while time.monotonic() < deadline:
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    break
            time.sleep(0.05)
        yield f"http://127.0.0.1:{port}/mcp"
        process.terminate()


def visited(server: str, folder: Path, browser: Browser) -> str:
    """Call a tool as a program that is started anew does."""

    async def call() -> str:
        oauth = OAuth(
            redirect_uri=REDIRECT,
            redirect_handler=browser.redirect,
            callback_handler=browser.callback,
            storage=FileStorage(folder),
        )
        async with asyncio.timeout(DEADLINE), AsyncClient(server, auth=oauth) as client:
            return (await client.call_tool("add", {"a": 2, "b": 40})).text

    return asyncio.run(call())


@pytest.mark.covers("CIN-05")
def test_a_login_happens_once_and_lasts_beyond_the_program(server: str, tmp_path: Path) -> None:
    browser = Browser()
    assert visited(server, tmp_path, browser) == "42"
    assert visited(server, tmp_path, browser) == "42"
    assert len(browser.urls) == 1


@pytest.mark.covers("CIN-05")
def test_a_token_that_has_expired_is_renewed_without_a_login(server: str, tmp_path: Path) -> None:
    browser = Browser()
    assert visited(server, tmp_path, browser) == "42"
    for _ in range(2):
        (kept,) = [path for path in tmp_path.rglob("*.json") if b"refresh_token" in path.read_bytes()]
        before = kept.read_bytes()
        kept.write_text(_expired(kept.read_text()))
        assert visited(server, tmp_path, browser) == "42"
        assert kept.read_bytes() != before
    assert len(browser.urls) == 1, "each renewal used the refresh token that the last one gave"


def _expired(text: str) -> str:
    import json

    found = json.loads(text)

    def age(value: object) -> None:
        if isinstance(value, dict):
            for key, inner in value.items():
                if key == "expires_at":
                    value[key] = 1
                age(inner)

    age(found)
    return json.dumps(found)
