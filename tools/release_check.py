"""Build the sdist and the wheel, look inside, and try both in fresh environments: `make release-check`.

Every Python of this machine that dragoman supports is tried, with and without the extras. Arguments choose among them:
`python tools/release_check.py 3.11 3.13`. Packages come from the index that pip is set up for.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
from collections.abc import Iterator
from pathlib import Path
from zipfile import ZipFile

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "build" / "release"
PACKAGE = ROOT / "src" / "dragoman"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
EXTRAS = ",".join(PROJECT["optional-dependencies"])
OLDEST = (3, 11)
SECONDS = 900
NAMES = "import dragoman; print(len([getattr(dragoman, name) for name in dragoman.__all__]))"
MODULES = "import any_llm, hiredis, joserfc, opentelemetry.trace, pydantic, yaml; print('extras')"


def run(*words: object, cwd: Path = ROOT, **variables: str) -> str:
    """Run a command to its end, and return what it wrote to stdout; its failure ends the check."""
    ended = subprocess.run(
        [str(word) for word in words],
        cwd=cwd,
        env=os.environ | variables,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    if ended.returncode != 0:
        sys.exit(f"{' '.join(map(str, words))}\n{ended.stdout}{ended.stderr}")
    return ended.stdout


def build() -> tuple[Path, Path]:
    """Build the sdist and, out of the sdist, the wheel; and let twine check them."""
    shutil.rmtree(FOLDER, ignore_errors=True)
    tools = FOLDER / "tools"
    run(sys.executable, "-m", "venv", tools)
    run(tools / "bin/pip", "install", "--quiet", "--constraint", "constraints.txt", "--upgrade", "pip")
    run(tools / "bin/pip", "install", "--quiet", "--constraint", "constraints.txt", "--group", "release")
    run(tools / "bin/python", "-m", "build", "--outdir", FOLDER / "dist", ROOT)
    (sdist,), (wheel,) = (FOLDER / "dist").glob("*.tar.gz"), (FOLDER / "dist").glob("*.whl")
    print(run(tools / "bin/python", "-m", "twine", "check", "--strict", sdist, wheel).strip())
    return sdist, wheel


def look_inside(sdist: Path, wheel: Path) -> None:
    """Require every file of the package, `py.typed` and the licences in both."""
    with tarfile.open(sdist) as opened:
        packed = {name.partition("/")[2] for name in opened.getnames()}
    with ZipFile(wheel) as opened_wheel:
        installed = set(opened_wheel.namelist())
    files = [path for path in PACKAGE.rglob("*") if path.is_file() and "__pycache__" not in path.parts]
    wanted = {path.relative_to(ROOT / "src").as_posix() for path in files} | {"dragoman/py.typed"}
    if (PACKAGE / "inspector" / "static").is_dir():
        wanted |= {"dragoman/inspector/static/index.html"}
    missing = [f"{name} in the wheel" for name in sorted(wanted - installed)]
    missing += [f"src/{name} in the sdist" for name in sorted(wanted) if f"src/{name}" not in packed]
    missing += [f"{name} in the sdist" for name in ("LICENSE", "CHANGELOG.md", "README.md") if name not in packed]
    if not any(name.endswith(".dist-info/licenses/LICENSE") for name in installed):
        missing.append("LICENSE in the wheel")
    if missing:
        sys.exit("These are missing:\n" + "\n".join(missing))
    print(f"{len(wanted)} files of the package, py.typed and the licence are in {sdist.name} and {wheel.name}")


def pythons() -> dict[str, str]:
    """Return the supported interpreters of this machine, one for each version."""
    found: dict[str, str] = {}
    for path in _candidates():
        asked = subprocess.run(
            [path, "-c", "import sys, venv, ensurepip; print(*sys.version_info[:2], sep='.')"],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        version = asked.stdout.strip()
        if asked.returncode == 0 and tuple(map(int, version.split("."))) >= OLDEST:
            found.setdefault(version, path)
    return dict(sorted(found.items(), key=lambda one: tuple(map(int, one[0].split(".")))))


def _candidates() -> Iterator[str]:
    yield sys.executable
    pyenv = Path(os.environ.get("PYENV_ROOT", "~/.pyenv")).expanduser()
    yield from map(str, sorted(pyenv.glob("versions/3.*/bin/python3")))
    for minor in range(OLDEST[1], OLDEST[1] + 10):
        if found := shutil.which(f"python3.{minor}"):
            yield found


def try_out(python: str, artifact: Path, extras: str) -> None:
    """Install an artifact into a fresh environment, and use it as somebody would who has just installed it."""
    with tempfile.TemporaryDirectory() as folder:
        home, bin_folder = Path(folder), Path(folder) / "env" / "bin"
        run(python, "-m", "venv", home / "env")
        run(
            bin_folder / "python",
            "-m",
            "pip",
            "install",
            "--quiet",
            "--no-compile",
            f"{artifact}{f'[{extras}]' if extras else ''}",
        )
        run(bin_folder / "python", "-m", "pip", "check")
        alone = {"HOME": folder, "PYTHONPATH": "", "PYTHONSAFEPATH": "1"}
        version = run(bin_folder / "dragoman", "--version", cwd=home, **alone).split()[1]
        assert version in artifact.name, version
        assert int(run(bin_folder / "python", "-W", "error", "-c", NAMES, cwd=home, **alone)) > 10
        run(bin_folder / "dragoman", "init", "tea", cwd=home, **alone)
        called = run(bin_folder / "dragoman", "call", "server.py", "greet", "name=Ada", cwd=home / "tea", **alone)
        assert called == "Hello, Ada!\n", called
        if extras:
            run(bin_folder / "python", "-c", MODULES, cwd=home, **alone)


def main() -> None:
    """Check everything, and end with the first failure."""
    wanted = sys.argv[1:]
    chosen = {version: path for version, path in pythons().items() if not wanted or version in wanted}
    if not chosen:
        sys.exit(f"There is no Python {' or '.join(wanted)} here; there are: {', '.join(pythons())}")
    artifacts = build()
    look_inside(*artifacts)
    for version, python in chosen.items():
        for artifact in artifacts:
            for extras in ("", EXTRAS):
                try_out(python, artifact, extras)
                print(
                    f"Python {version}: {artifact.name} works {f'with {extras}' if extras else 'without extras'}",
                    flush=True,
                )


if __name__ == "__main__":
    main()
