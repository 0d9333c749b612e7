"""The extensions of this package on a server; each is loaded when a server first needs it."""

from __future__ import annotations

from collections.abc import Collection

from dragoman.server.extensions.contract import ServerExtension


def extensions_of(options: Collection[str]) -> list[type[ServerExtension]]:
    """Return the extensions that options of tools belong to (`OFFICIAL_OPTIONS` of `define.tools`)."""
    found: list[type[ServerExtension]] = []
    if not {"ui", "ui_visibility"}.isdisjoint(options):
        from dragoman.server.extensions.apps import Apps

        found.append(Apps)
    if "task" in options:
        from dragoman.server.extensions.tasks.extension import TasksExtension

        found.append(TasksExtension)
    return found
