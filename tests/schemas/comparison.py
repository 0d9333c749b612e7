"""When two JSON values are the same."""

from __future__ import annotations

from typing import Any


def same_json(left: Any, right: Any) -> bool:
    """Tell whether two parsed values are one JSON value: 1 and 1.0 are, 1 and true are not."""
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(same_json(left[key], right[key]) for key in left)
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(same_json, left, right))
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    return bool(left == right)
