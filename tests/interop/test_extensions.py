"""Python clients of others negotiate the extension of our documentation with our server, as real processes."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from socket import create_connection
from typing import Any

import pytest

from interop.processes import HERE, client_command
from ports import free_port

PAGE = HERE.parents[1] / "docs" / "extensions.md"
STDIO = "from quotes import server; server.run()"
HTTP = "import sys; from quotes import server; server.run('http', port=int(sys.argv[1]), workers=3)"
DEADLINE = 60.0
REQUIRED = {"requiredCapabilities": {"extensions": {"com.example/quotes": {}}}}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder with the extension and the server of the documentation."""
    shown = re.search(r"^```python\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    assert shown is not None
    (tmp_path / "quotes.py").write_text(shown[1], encoding="utf-8")
    return tmp_path


@contextmanager
def served(folder: Path) -> Iterator[str]:
    """Serve it over HTTP, and return the address."""
    port = free_port()
    child = subprocess.Popen([sys.executable, "-c", HTTP, str(port)], cwd=folder, stdin=subprocess.DEVNULL)
    try:
        ends = time.monotonic() + DEADLINE
        while time.monotonic() < ends and child.poll() is None:
            try:
                create_connection(("127.0.0.1", port), timeout=1).close()
            except ConnectionRefusedError:
                time.sleep(0.01)
            else:
                break
        yield f"http://127.0.0.1:{port}/mcp"
    finally:
        child.terminate()
        assert child.wait(DEADLINE) == 0


def use(folder: Path, *how: str) -> Any:
    python = client_command("python")[0]
    command = [str(python), str(HERE / "extension_client.py"), *how]
    ended = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=DEADLINE, check=False)
    assert ended.returncode == 0, ended.stderr
    return json.loads(ended.stdout)


@pytest.mark.covers("EXS-04")
@pytest.mark.parametrize("transport", ["stdio", "http"])
@pytest.mark.parametrize("era", ["stateless", "handshake"])
@pytest.mark.parametrize("library", ["mcp", "fastmcp"])
def test_a_client_of_others_negotiates_an_extension_with_our_server(
    folder: Path, library: str, era: str, transport: str
) -> None:
    if transport == "stdio":
        saw = use(folder, library, era, "stdio", sys.executable, "-c", STDIO)
    else:
        with served(folder) as url:
            saw = use(folder, library, era, "http", url)
    assert (saw["declared"], saw["quoted"]) == ({"com.example/quotes": {"currency": "EUR"}}, 12)
    method, called = saw["without"]
    if era == "stateless":
        assert (saw["painted"], saw["accepted"]) == ([False, "The house is red."], [12])
        assert (method, called) == ([-32021, REQUIRED], [-32021, REQUIRED])
    else:
        assert method == [-32603, REQUIRED]
        assert called[0] is True
