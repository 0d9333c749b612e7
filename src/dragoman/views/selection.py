"""`Views`: the views of one server by name or pattern, from Python objects or from a configuration file.

A definition has the views of its name, else those of the first pattern that matches. Tools and prompts are selected by
their names, resources by their URIs, and templates by their URI templates; in a pattern, `*` matches any text.

Rejected: applying every pattern that matches. With `{"*": View(hidden=True), "search": View()}` nothing could be shown.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias

from dragoman.errors import DefinitionError
from dragoman.runtime.callables import did_you_mean
from dragoman.views.view import Argument, View

ViewLike: TypeAlias = View | Mapping[str, object] | Sequence[View | Mapping[str, object]]
"""A view, the same as a dict of JSON values, or several, each of which reshapes the result of the one before."""
_OF_VIEW = ("name", "title", "description", "arguments", "pick", "annotations", "meta", "hidden", "confirm")
_OF_ARGUMENT = ("name", "title", "description", "fixed", "default", "hidden", "schema")


class Views:
    """The views of one server.

    Example:
        views = Views.of({"search": View(name="find"), "delete_*": View(hidden=True)})
        views.select("search")  # (View(name='find'),)

    Raises:
        DefinitionError: a view is invalid; the message names it.
    """

    def __init__(self, views: Mapping[str, tuple[View, ...]]) -> None:
        self._exact = {key: given for key, given in views.items() if "*" not in key}
        self._patterns = [(_pattern(key), given) for key, given in views.items() if "*" in key]

    def __repr__(self) -> str:
        return f"<Views of {', '.join([*self._exact, *(pattern.pattern for pattern, _ in self._patterns)])}>"

    def __bool__(self) -> bool:
        return bool(self._exact or self._patterns)

    @classmethod
    def of(cls, views: Mapping[str, ViewLike] | Views | None) -> Views:
        """Return the views of a mapping from names or patterns; the values may be dicts of JSON values."""
        if isinstance(views, Views):
            return views
        if not isinstance(views, Mapping | None):
            raise DefinitionError(
                f'views must map names to views, such as {{"delete_*": View(hidden=True)}}: {views!r}'
            )
        return cls({_key(key): _views_of(key, value) for key, value in (views or {}).items()})

    @property
    def names(self) -> list[str]:
        """The names and URIs that have views of their own, without patterns."""
        return list(self._exact)

    def select(self, key: str) -> tuple[View, ...]:
        """Return the views of a definition, in the order in which they apply; an empty tuple if it has none."""
        if key in self._exact:
            return self._exact[key]
        return next((views for pattern, views in self._patterns if pattern.fullmatch(key)), ())

    def unknown(self, names: Iterable[str]) -> list[str]:
        """Return the names that have views, but are not among these names and URIs of an upstream."""
        known = set(names)
        return [name for name in self._exact if name not in known]


def _pattern(text: str) -> re.Pattern[str]:
    return re.compile(".*".join(map(re.escape, text.split("*"))), re.DOTALL)


def _key(key: object) -> str:
    if not isinstance(key, str) or not key:
        raise DefinitionError(f"views must map names to views; {key!r} is no name")
    return key


def _views_of(key: str, value: object) -> tuple[View, ...]:
    given = value if isinstance(value, list | tuple) else (value,)
    views = tuple(one if isinstance(one, View) else decode_view(one, f"views[{key!r}]") for one in given)
    if not views:
        raise DefinitionError(f"views[{key!r}] is an empty list: give at least one View")
    if "*" in key and any(view.name is not None for view in views):
        raise DefinitionError(f"views[{key!r}] may match several definitions, so it cannot set a name")
    return views


def decode_view(value: object, where: str) -> View:
    """Return the view of a dict of JSON values, as in a configuration file; `where` names it in errors.

    Raises:
        DefinitionError: the dict has an unknown or invalid member; the message names it.
    """
    members = _members(value, where, _OF_VIEW, {"result": "a function cannot be written in a file; use pick"})
    arguments = members.get("arguments", {})
    if not isinstance(arguments, Mapping):
        raise DefinitionError(f"{where}.arguments must be an object of arguments, not {arguments!r}")
    decoded = {name: _argument(value, f"{where}.arguments.{name}") for name, value in arguments.items()}
    try:
        return View(**{**members, "arguments": decoded})  # type: ignore[arg-type]
    except DefinitionError as error:
        raise DefinitionError(f"{where}: {error}") from None


def _argument(value: object, where: str) -> Argument:
    if isinstance(value, Argument):
        return value
    try:
        return Argument(**_members(value, where, _OF_ARGUMENT, {}))  # type: ignore[arg-type]
    except DefinitionError as error:
        raise DefinitionError(str(error) if str(error).startswith(where) else f"{where}: {error}") from None


def _members(value: object, where: str, known: tuple[str, ...], remedies: Mapping[str, str]) -> dict[str, object]:
    if not isinstance(value, Mapping):
        raise DefinitionError(f"{where} must be an object with {', '.join(known)}, not {value!r}")
    for name in value:
        if name not in known:
            remedy = remedies.get(name)
            hint = f": {remedy}" if remedy else did_you_mean(str(name), known) or f"; it may have {', '.join(known)}"
            raise DefinitionError(f"{where} has no {name!r}{hint}")
    return dict(value)
