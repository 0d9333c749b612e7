"""The extensions of this package on a client: what its options declare, and what their settings must be."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dragoman import types
from dragoman.types import canonical_extension

APPS = "io.modelcontextprotocol/ui"


def requested(options: Mapping[str, Any]) -> Any:
    """Return the extensions of a client: those of the option `extensions`, and those that other options ask for."""
    given, apps, tasks = options.get("extensions"), options.get("apps"), options.get("tasks")
    if not apps and not tasks:
        return given
    declared: list[Any] = []
    if apps:
        from dragoman.protocol.official.apps import capability

        declared.append({APPS: {**capability(), **(apps if isinstance(apps, Mapping) else {})}})
    if tasks:
        from dragoman.client.extensions.tasks.extension import ClientTasks

        declared.append(ClientTasks())
    if given is None or isinstance(given, Mapping):
        return [*declared, given or {}]
    return [*declared, *given]


def check_settings(named: Mapping[str, types.Json]) -> None:
    """Check the settings of the extensions that this package knows.

    Raises:
        DefinitionError: the settings of an extension do not fit it.
    """
    for id, settings in named.items():
        if canonical_extension(id) == APPS:
            from dragoman.protocol.official.apps import checked_settings

            checked_settings(settings)
