"""A bundle as hosts take it: the official tool unpacks and validates it, and uv runs it by its manifest."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from interop.wild.environments import BUNDLER, FOLDER, ROOT, node

pytestmark = pytest.mark.e2e

DEADLINE = 300.0
MCPB = BUNDLER / "node_modules/@anthropic-ai/mcpb/dist/cli/cli.js"


def run(*words: object, cwd: Path, **more: str) -> str:
    plain = {name: value for name, value in os.environ.items() if not name.startswith(("DRAGOMAN_", "VIRTUAL_ENV"))}
    ended = subprocess.run(
        [str(word) for word in words],
        cwd=cwd,
        env=plain | more,
        input=more.get("INPUT"),
        capture_output=True,
        text=True,
        timeout=DEADLINE,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout


@pytest.mark.covers("CMD-33")
def test_a_bundle_is_valid_and_serves_by_its_manifest(tmp_path):
    command = (sys.executable, "-m", "dragoman")
    run(*command, "init", "tea-house", cwd=tmp_path)
    made = (*command, "bundle", "server.py", "--author", "Ada", "--ask", "API_KEY", "-o", tmp_path / "tea.mcpb")
    run(*made, cwd=tmp_path / "tea-house")
    run(node(), MCPB, "unpack", tmp_path / "tea.mcpb", tmp_path / "tea", cwd=tmp_path)
    assert "validation passes" in run(node(), MCPB, "validate", tmp_path / "tea/manifest.json", cwd=tmp_path)

    run(sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "-w", tmp_path / "wheels", ROOT, cwd=tmp_path)
    config = json.loads((tmp_path / "tea/manifest.json").read_text())["server"]["mcp_config"]
    words = [word.replace("${__dirname}", str(tmp_path / "tea")) for word in config["args"]]
    (wheel,) = (tmp_path / "wheels").glob("dragoman-*.whl")
    settings = {"UV_PYTHON": sys.executable, "UV_CACHE_DIR": str(tmp_path / "cache"), "UV_LINK_MODE": "copy"}
    # dragoman itself comes from this folder, whatever an index has under its name.
    project = tmp_path / "tea" / "pyproject.toml"
    project.write_text(project.read_text() + f'\n[tool.uv.sources]\ndragoman = {{ path = "{wheel}" }}\n')
    ping = '{"jsonrpc": "2.0", "id": 1, "method": "ping"}\n'
    answered = run(FOLDER / "uv/bin/uv", *words, cwd=tmp_path, INPUT=ping, **settings)
    assert json.loads(answered) == {"jsonrpc": "2.0", "id": 1, "result": {}}
