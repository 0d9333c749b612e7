"""`assert_schemas_unchanged`: checks the schemas of a server against a snapshot.

A snapshot is a JSON file with the schemas of all tools, the arguments of all prompts and the MIME types of all resource
templates, sorted by name. The author keeps it with the tests. The check reports differences by tool and argument,
because a text diff of JSON does not show what a caller must change.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dragoman.server.server import Server

Snapshot = dict[str, dict[str, Any]]
_ABSENT = object()

is_updating = False
"""Whether this run writes the snapshots; the pytest plugin sets it."""


def assert_schemas_unchanged(server: Server, path: str | Path, *, update: bool | None = None) -> None:
    """Check that the schemas of a server equal those of a snapshot.

    Example:
        assert_schemas_unchanged(server, Path(__file__).with_name("schemas.json"))

    `path` is the file of the snapshot. With `update=True`, or with `pytest --dragoman-update`, the function writes the
    snapshot and checks nothing; `update=False` always checks.

    Raises:
        AssertionError: a schema was added, removed or changed, or there is no snapshot; the message names it.
    """
    file = Path(path)
    found = snapshot_of(server)
    if is_updating if update is None else update:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(found, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
        return
    if not file.is_file():
        raise AssertionError(f"There is no snapshot {str(file)!r}; write it with: pytest --dragoman-update")
    changes = list(differences(_read(file), found))
    if changes:
        listed = "\n".join(f"  {change}" for change in changes)
        raise AssertionError(
            f"The schemas are not those of {str(file)!r}:\n{listed}\n"
            "If this is meant, and those who call are told, write the snapshot anew with: pytest --dragoman-update"
        )


def _read(file: Path) -> Snapshot:
    try:
        kept = json.loads(file.read_text(encoding="utf-8"))
    except ValueError as error:
        raise AssertionError(
            f"{str(file)!r} is no JSON ({error}); write it anew with: pytest --dragoman-update"
        ) from None
    if not isinstance(kept, dict) or not all(isinstance(entries, dict) for entries in kept.values()):
        raise AssertionError(f"{str(file)!r} is no snapshot; write it anew with: pytest --dragoman-update")
    return kept


def snapshot_of(server: Server) -> Snapshot:
    """Return the snapshot of a server."""
    registry = server.registry
    return {
        "tools": _wire(registry.tools, ("inputSchema", "outputSchema")),
        "prompts": _wire(registry.prompts, ("arguments",)),
        "resourceTemplates": _wire(registry.templates, ("mimeType",)),
    }


def _wire(table: Mapping[str, Any], keys: tuple[str, ...]) -> dict[str, Any]:
    import msgspec

    listed = {name: msgspec.json.decode(msgspec.json.encode(table[name].definition)) for name in sorted(table)}
    return {name: {key: entry[key] for key in keys if key in entry} for name, entry in listed.items()}


def differences(old: Snapshot, new: Snapshot) -> Iterator[str]:
    """Yield a line of text for each difference between two snapshots."""
    for kind, noun, compare in (
        ("tools", "tool", _tool_changes),
        ("prompts", "prompt", _prompt_changes),
        ("resourceTemplates", "resource template", _key_changes),
    ):
        for name, was, now in _pairs(old.get(kind, {}), new.get(kind, {})):
            if was is _ABSENT or now is _ABSENT:
                yield f"{noun} {name!r} was {'removed' if now is _ABSENT else 'added'}"
            else:
                yield from (f"{noun} {name!r}: {change}" for change in compare(was, now))


def _tool_changes(before: Any, after: Any) -> Iterator[str]:
    yield from _schema_changes("argument", before.get("inputSchema", {}), after.get("inputSchema", {}))
    was, now = before.get("outputSchema", _ABSENT), after.get("outputSchema", _ABSENT)
    if was is _ABSENT or now is _ABSENT:
        if was is not now:
            yield f"the output schema was {'added' if was is _ABSENT else 'removed'}"
        return
    yield from _schema_changes("output field", was, now)


def _schema_changes(noun: str, before: Any, after: Any) -> Iterator[str]:
    required = set(before.get("required", ())), set(after.get("required", ()))
    yield from _named_changes(noun, before.get("properties", {}), after.get("properties", {}), *required)
    apart = ("properties", "required")
    where = "input schema" if noun == "argument" else "output schema"
    for change in _key_changes(*({key: part[key] for key in part if key not in apart} for part in (before, after))):
        yield f"changed {where}: {change}"


def _prompt_changes(before: Any, after: Any) -> Iterator[str]:
    was, now = before.get("arguments", ()), after.get("arguments", ())
    yield from _named_changes("argument", _by_name(was), _by_name(now), _required(was), _required(now))


def _by_name(arguments: Iterable[Any]) -> dict[str, Any]:
    apart = ("name", "required")
    return {entry["name"]: {key: entry[key] for key in entry if key not in apart} for entry in arguments}


def _required(arguments: Iterable[Any]) -> set[str]:
    return {entry["name"] for entry in arguments if entry.get("required")}


def _named_changes(
    noun: str, before: Mapping[str, Any], after: Mapping[str, Any], was_required: set[str], is_required: set[str]
) -> Iterator[str]:
    for name, was, now in _pairs(before, after):
        state = "required" if name in is_required else "optional"
        if now is _ABSENT:
            yield f"removed {noun} {name!r}"
        elif was is _ABSENT:
            yield f"added {noun} {name!r} ({state})"
        else:
            yield from (f"changed {noun} {name!r}: {change}" for change in _key_changes(was, now))
            if (name in was_required) != (name in is_required):
                yield f"changed {noun} {name!r}: it is now {state}"


def _pairs(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[tuple[str, Any, Any]]:
    """Yield each name with its value before and after, `_ABSENT` if there is none."""
    for name in sorted({*before, *after}):
        yield name, before.get(name, _ABSENT), after.get(name, _ABSENT)


def _key_changes(before: Any, after: Any) -> Iterator[str]:
    if not isinstance(before, dict) or not isinstance(after, dict):
        if before != after:
            yield f"{_shown(before)} -> {_shown(after)}"
        return
    for key, was, now in _pairs(before, after):
        if was is _ABSENT:
            yield f"{key} {_shown(now)} was added"
        elif now is _ABSENT:
            yield f"{key} {_shown(was)} was removed"
        elif was != now or type(was) is not type(now):
            yield f"{key} {_shown(was)} -> {_shown(now)}"


def _shown(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
