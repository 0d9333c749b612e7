"""The roots of a client: the directories and files that servers may work on."""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Callable, Iterable, Iterator
from copy import copy
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from urllib.request import url2pathname

from dragoman import types

RootLike = str | os.PathLike[str] | types.Root
"""A path, a `file://` URI, or a root as it is on the wire."""

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")


class Roots:
    """The directories and files that servers may work on, in the order in which they were added.

    Example:
        roots = Roots([Path.home() / "projects"])
        roots.add("/srv/data", "file:///srv/my%20notes")
        "/srv/data" in roots

    A relative path counts from the working directory, and `~` is the home directory. A root is named after the last
    part of its path; give a `types.Root` to name it otherwise. `on_change` is called after each change, in the
    thread that made the change. The object may be used from any thread.

    Raises:
        ValueError: a URI is not a `file://` URI of this machine.
    """

    def __init__(self, paths: Iterable[RootLike] | RootLike = ()) -> None:
        self.on_change: Callable[[], Any] | None = None
        self._lock = threading.Lock()
        given = (paths,) if isinstance(paths, str | os.PathLike | types.Root) else paths
        self._roots = dict(_located(root) for root in given)
        self._were_given = bool(self._roots)

    @property
    def were_given(self) -> bool:
        """Whether a root was ever given."""
        return self._were_given

    @property
    def paths(self) -> list[Path]:
        """The paths, as a new list."""
        return list(self._roots)

    def add(self, *paths: RootLike) -> None:
        """Add roots; existing roots stay unchanged.

        Example:
            client.roots.add("/srv/data")

        Raises:
            ValueError: a URI is not a `file://` URI of this machine; then nothing was added.
        """
        located = dict(_located(root) for root in paths)
        with self._lock:
            added = {path: root for path, root in located.items() if path not in self._roots}
            self._roots = {**self._roots, **added}
            self._were_given = bool(self._roots) or self._were_given
        self._notify(changed=bool(added))

    def remove(self, *paths: RootLike) -> None:
        """Remove roots; unknown roots are ignored.

        Raises:
            ValueError: a URI is not a `file://` URI of this machine; then nothing was removed.
        """
        unwanted = {path for path, _ in map(_located, paths)}
        with self._lock:
            before = len(self._roots)
            self._roots = {path: root for path, root in self._roots.items() if path not in unwanted}
            changed = len(self._roots) != before
        self._notify(changed=changed)

    def clear(self) -> None:
        """Remove every root."""
        self.remove(*self.paths)

    def as_wire(self) -> list[types.Root]:
        """Return the roots as they are sent: percent-encoded `file://` URIs, and names."""
        return [copy(root) for root in self._roots.values()]

    def __contains__(self, path: object) -> bool:
        try:
            return isinstance(path, str | os.PathLike | types.Root) and _located(path)[0] in self._roots
        except ValueError:
            return False

    def __iter__(self) -> Iterator[Path]:
        return iter(self.paths)

    def __len__(self) -> int:
        return len(self._roots)

    def __repr__(self) -> str:
        return f"Roots({[str(path) for path in self._roots]!r})"

    def _notify(self, *, changed: bool) -> None:
        if changed and self.on_change is not None:
            self.on_change()


def _located(root: RootLike) -> tuple[Path, types.Root]:
    """Return the path of a root, and the root as it is sent."""
    if isinstance(root, types.Root):
        return _path_of(root.uri), types.Root(root.uri, name=root.name, meta=root.meta)
    text = os.fspath(root)
    path = _path_of(text) if _SCHEME.match(text) else _absolute(Path(text))
    return path, types.Root(path.as_uri(), name=path.name or str(path))


def _absolute(path: Path) -> Path:
    absolute = path.expanduser().absolute()
    return absolute.resolve() if ".." in absolute.parts else absolute


def _path_of(uri: str) -> Path:
    # MUST (every version): "This MUST be a file:// URI".
    parts = urlsplit(uri)
    if parts.scheme != "file" or parts.netloc not in ("", "localhost") or not parts.path.startswith("/"):
        raise ValueError(f"A root must be a path or a file:// URI of this machine, not {uri!r}")
    return _absolute(Path(url2pathname(parts.path)))
