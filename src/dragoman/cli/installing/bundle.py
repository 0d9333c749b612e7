"""Bundles: the manifest and the files of an `.mcpb`, which hosts install with a click.

The server of a bundle has the type `uv` (manifest 0.4): the host gets Python and the packages that `pyproject.toml`
names, for the machine that it runs on. Rejected: the type `python`, whose packages are copied into the bundle. Some of
our packages are compiled, so that such a bundle would fit one platform and one version of Python.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatch
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

import msgspec

from dragoman.errors import ConfigError
from dragoman.types import Json

if TYPE_CHECKING:
    from dragoman.server.server import Server

MANIFEST_VERSION = "0.4"
MAX_FILES = 10_000
MAX_BYTES = 100 * 1024 * 1024
_SKIPPED = frozenset({"__pycache__", "node_modules", "build", "dist"})
_SECRETS = ("*.env", "*.pem", "*.key", "*.p12", "*.pfx", "id_rsa", "id_ecdsa", "id_ed25519", "*.mcpsession")
_EPOCH = (1980, 1, 1, 0, 0, 0)
"""The time of every file in a bundle, so that the same files give the same bundle."""
_PYTHON = ">=3.11"


class Project:
    """The `pyproject.toml` beside a server file, or one that is made for the server.

    Raises:
        ConfigError: the file cannot be read, or does not name dragoman as a dependency.
    """

    def __init__(self, folder: Path, server: Server) -> None:
        path = folder / "pyproject.toml"
        self.is_made = not path.exists()
        self.text = _made_project(server) if self.is_made else _read(path)
        try:
            table = tomllib.loads(self.text).get("project") or {}
        except ValueError as error:
            raise ConfigError(f"the file is not valid TOML ({error})", file=str(path)) from None
        self._table: Json = table if isinstance(table, dict) else {}
        needed = self._table.get("dependencies") or ()
        if not any(re.match(r"dragoman\b(?!-)", str(one)) for one in needed):
            raise ConfigError("add dragoman to the dependencies: hosts install only what they name", file=str(path))

    @property
    def author(self) -> str | None:
        """The name of the first author."""
        return next((str(one["name"]) for one in self._table.get("authors") or () if "name" in one), None)

    def text_of(self, name: str) -> str | None:
        """Return a text of the project, such as its description."""
        found = self._table.get(name)
        return found if isinstance(found, str) and found else None


def _read(path: Path) -> str:
    try:
        return path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"the file cannot be read: {error}", file=str(path)) from None


def _made_project(server: Server) -> str:
    lines = ["[project]", f'name = "{bundle_name(server)}"', f'version = "{_semantic_version(server.version)}"']
    return "\n".join([*lines, f'requires-python = "{_PYTHON}"', 'dependencies = ["dragoman"]', ""])


def bundle_name(server: Server) -> str:
    """Return the name of a server with only the characters that a bundle's name may have."""
    return re.sub(r"[^a-z0-9-]+", "-", server.name.lower()).strip("-") or "server"


def _semantic_version(text: str) -> str:
    """Return the three numbers that a version begins with; those that it lacks are 0."""
    numbers = re.match(r"\d+(\.\d+){0,2}", text)
    return ".".join([*(numbers[0].split(".") if numbers else ()), "0", "0", "0"][:3])


def manifest(server: Server, target: str, project: Project, author: str, asked: Sequence[str] = ()) -> Json:
    """Return the manifest of a bundle; `target` is FILE[:object] in it, `asked` are variables that its user gives."""
    what = server.description or project.text_of("description") or f"The server {server.name}."
    needed = project.text_of("requires-python") or _PYTHON
    config: Json = {"command": "uv", "args": ["run", "--directory", "${__dirname}", "dragoman", "run", target]}
    found: Json = {
        "manifest_version": MANIFEST_VERSION,
        "name": bundle_name(server),
        "display_name": server.title or server.name,
        "version": _semantic_version(project.text_of("version") or server.version),
        "description": what,
        "author": {"name": author},
        "server": {"type": "uv", "entry_point": target.partition(":")[0], "mcp_config": config},
        "tools": [_named(tool.definition) for tool in server.registry.tools.values()],
        "compatibility": {"platforms": ["darwin", "win32", "linux"], "runtimes": {"python": needed}},
    }
    if asked:
        config["env"] = {name: f"${{user_config.{name.lower()}}}" for name in asked}
        found["user_config"] = {name.lower(): _question(name) for name in asked}
    further = {"homepage": server.website_url, "license": project.text_of("license")}
    more: Json = {"prompts_generated": True} if server.registry.prompts else {}
    return found | {name: value for name, value in further.items() if value} | more


def _named(definition: Any) -> Json:
    about = {"description": definition.description} if definition.description else {}
    return {"name": definition.name, **about}


def _question(name: str) -> Json:
    about = {"title": name, "description": f"The value of the variable {name}."}
    return {"type": "string", **about, "required": True, "sensitive": True}


def likely_secrets(names: Iterable[str]) -> list[str]:
    """Return the files whose names are those of keys and of files with secrets."""
    return [name for name in names if any(fnmatch(Path(name).name, pattern) for pattern in _SECRETS)]


def bundled_files(folder: Path, excluded: Sequence[str] = (), result: Path | None = None) -> list[str]:
    """Return the files of a folder that belong into a bundle, as paths below the folder.

    Hidden files, links, environments, caches and earlier bundles are left out, and what a pattern in `excluded` fits.
    `result` is the bundle itself.

    Raises:
        ConfigError: the folder is no project, or has too many files or bytes.
    """
    if folder in (Path.home(), Path(folder.anchor)):
        raise ConfigError(f"all of {folder} would be packed; move the server into a folder of its own")
    found: list[str] = []
    size = 0
    for path in _walk(folder):
        name = path.relative_to(folder).as_posix()
        if result is not None and path == result.resolve():
            continue
        if any(fnmatch(name, pattern) or fnmatch(path.name, pattern) for pattern in excluded):
            continue
        found.append(name)
        size += path.stat().st_size
        if len(found) > MAX_FILES or size > MAX_BYTES:
            bounds = f"{MAX_FILES:,} files or {MAX_BYTES:,} bytes"
            raise ConfigError(f"{folder} has more than {bounds}; leave some out with --exclude")
    return sorted(found)


def _walk(folder: Path) -> Iterator[Path]:
    for place, folders, names in os.walk(folder):
        inside = Path(place)
        folders[:] = [
            one
            for one in sorted(folders)
            if not one.startswith(".") and one not in _SKIPPED and not (inside / one / "pyvenv.cfg").exists()
        ]
        for path in (inside / name for name in names if not name.startswith(".")):
            if path.suffix not in (".pyc", ".mcpb") and path.is_file() and not path.is_symlink():
                yield path


def write_bundle(path: Path, folder: Path, names: Iterable[str], texts: Mapping[str, bytes]) -> None:
    """Write a bundle of files of a folder and of texts, whole or not at all; a text goes before a file of its name."""
    part = path.with_name(f".{path.name}.part")
    try:
        with ZipFile(part, "w", ZIP_DEFLATED) as bundle:
            for name in sorted({*names, *texts}):
                info = ZipInfo(name, _EPOCH)
                info.compress_type, info.external_attr = ZIP_DEFLATED, 0o100644 << 16
                bundle.writestr(info, texts[name] if name in texts else (folder / name).read_bytes())
        part.replace(path)
    except (OSError, UnicodeEncodeError) as error:
        raise ConfigError(f"the bundle cannot be written: {error}", file=str(path)) from None
    finally:
        part.unlink(missing_ok=True)


def encoded_manifest(found: Json) -> bytes:
    """Return a manifest as the text of its file."""
    return msgspec.json.format(msgspec.json.encode(found), indent=2) + b"\n"
