"""The official schema of one protocol version: its definitions and their validators."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema_rs


class SchemaDocument:
    """One `schema.json`."""

    def __init__(self, path: Path) -> None:
        self._root: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        self._keyword = "$defs" if "$defs" in self._root else "definitions"
        self.definitions: dict[str, dict[str, Any]] = self._root[self._keyword]
        self.validator = cache(self._validator)

    def _validator(self, name: str) -> jsonschema_rs.Validator:
        schema = self._root | {"$ref": f"#/{self._keyword}/{name}"}
        return jsonschema_rs.validator_for(schema, offline=True, validate_formats=True)


@cache
def document(folder: Path, version: str) -> SchemaDocument:
    """Return the schema of a version, read once."""
    return SchemaDocument(folder / version / "schema.json")
