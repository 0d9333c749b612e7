"""An argument's schema with the constraints and descriptions of a view: a value must fit both schemas.

Where one keyword can say both, as with two limits, it does, because models read a flat schema best. Otherwise the
constraints join `allOf`.
"""

from __future__ import annotations

from typing import Any

from msgspec import UNSET

from dragoman.schema.walk import CHOICES, HIGHEST, LIMITS, LOWEST, same, types_of
from dragoman.types import Json
from dragoman.views.view import Argument

_NOTES = frozenset({"title", "description", "examples", "default"})
"""Keywords that constrain no value; those of the view replace those of the tool."""
_ALONE = LIMITS | {*CHOICES, "pattern", "type"}
"""Keywords whose effect does not depend on the keywords beside them."""


def customized(own: Any, argument: Argument) -> Any:
    """Return the schema of an argument as a view shows it."""
    texts = {"title": argument.title, "description": argument.description}
    notes: Json = {name: text for name, text in texts.items() if text is not None}
    constraints = argument.schema or {}
    notes |= {name: value for name, value in constraints.items() if name in _NOTES}
    if argument.default is not UNSET:
        notes["default"] = argument.default
    constraints = {name: value for name, value in constraints.items() if name not in _NOTES}
    if not notes and not constraints:
        return own
    if not isinstance(own, dict):
        own = {} if own is True else {"not": {}}
    return {**_constrained(own, constraints), **notes}


def conflict(own: Any, constraints: Json | None) -> str | None:
    """Return why no value fits a schema and constraints, as far as their types tell; None if some may."""
    types, further = types_of(own) if isinstance(own, dict) else None, types_of(constraints or {})
    if types and further and not _common_types(types, further):
        return f"its type is {' or '.join(types)}, and the view demands {' or '.join(further)}"
    return None


def _constrained(own: Json, constraints: Json) -> Json:
    if not constraints:
        return own
    if "$ref" in own:  # the older drafts ignore what stands beside a reference
        return {"allOf": [own, constraints]}
    flat = {name: _joined(name, own, value) for name, value in constraints.items()}
    if all(value is not UNSET for value in flat.values()):
        return {**own, **flat}
    return {**own, "allOf": [*own.get("allOf", ()), constraints]}


def _joined(name: str, own: Json, value: Any) -> Any:
    """Return the value of a keyword that says what both schemas say; UNSET if there is none."""
    if name not in _ALONE:
        return UNSET
    if name not in own:
        return value
    other = own[name]
    if name in LOWEST | HIGHEST and all(isinstance(limit, int | float) for limit in (value, other)):
        if any(isinstance(limit, bool) for limit in (value, other, own.get("exclusiveMinimum"))):
            return UNSET  # a flag in draft 4
        return max(value, other) if name in LOWEST else min(value, other)
    if name == "enum" and isinstance(other, list):
        return [choice for choice in value if any(same(choice, known) for known in other)] or UNSET
    if name == "type" and isinstance(other, str | list):
        types = _common_types(
            [other] if isinstance(other, str) else other, [value] if isinstance(value, str) else value
        )
        return UNSET if not types else types[0] if len(types) == 1 else types
    return value if same(value, other) else UNSET


def _common_types(one: list[str], other: list[str]) -> list[str]:
    wider = {*one, *(["integer"] if "number" in one else ())}
    return [kind for kind in other if kind in wider] + [
        kind for kind in one if kind == "integer" and "number" in other and kind not in other
    ]
