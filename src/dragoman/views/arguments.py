"""`ArgumentNames`: the names that clients and a tool have for arguments, and the way from the ones to the others.

A name that a client may not send is refused, and so is a name that differs from it only in case, in separators or in
the form of its letters (NFKC), because an upstream may read both as the same. A name that occurs twice in an object is
refused at any depth, because two readers may use different values.
"""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Callable, Iterable, Mapping
from typing import Any, cast

import msgspec
from msgspec import UNSET, Raw

from dragoman.errors import ToolError
from dragoman.runtime.callables import did_you_mean
from dragoman.schema.python.signature import ADDED_BY_HOSTS
from dragoman.types import Json
from dragoman.types.decoding import decoders
from dragoman.views.view import Argument

RawArguments = dict[str, Raw]
_SEPARATORS = str.maketrans("", "", "_-. ")


class ArgumentNames:
    """The arguments of one tool under one view."""

    def __init__(self, names: Iterable[str], arguments: Mapping[str, Argument], *, is_open: bool) -> None:
        self.names = list(names)
        """The arguments of the tool, by its own names."""
        self.hidden = {name for name, argument in arguments.items() if argument.hidden}
        fixed = {name: argument.fixed for name, argument in arguments.items() if argument.fixed is not UNSET}
        self.computed = {
            name: cast("Callable[[Any], object]", value) for name, value in fixed.items() if callable(value)
        }
        self.fixed: Json = {name: value for name, value in fixed.items() if not callable(value)}
        self.defaults: Json = {
            name: argument.default for name, argument in arguments.items() if argument.default is not UNSET
        }
        invisible = self.hidden | fixed.keys()
        self.shown = {name: arguments[name].name or name for name in self.names if name in arguments}
        self.shown = {name: self.shown.get(name, name) for name in self.names if name not in invisible}
        """The names that clients use, by the names of the tool."""
        self._inner = {shown: name for name, shown in self.shown.items()}
        self.gone = [name for name in self.names if self.shown.get(name) != name]
        """The arguments that clients cannot send by the tool's own names; another argument may have such a name."""
        self.is_closed = bool(self.gone) and not is_open
        """Whether clients may send only the shown arguments."""

    @property
    def clashes(self) -> list[tuple[str, str]]:
        """Pairs of arguments that clients would know by the same name."""
        return [(name, self._inner[shown]) for name, shown in self.shown.items() if self._inner[shown] != name]

    @property
    def always_present(self) -> set[str]:
        """The arguments that the tool receives in each call."""
        return {*self.fixed, *self.computed, *self.defaults}

    def shown_name(self, name: str) -> str:
        """Return the name that clients have for an argument of the tool."""
        return self.shown.get(name, name)

    def check(self, tool: str, sent: Iterable[str]) -> None:
        """Refuse arguments that a client may not send.

        Raises:
            ToolError: an argument is fixed, hidden, renamed, or unknown to a tool that has no further arguments.
        """
        gone = {_folded(name): name for name in self.gone}
        for name in sent:
            if name in self._inner:
                continue
            original = gone.get(_folded(name))
            if original in self.shown:
                raise ToolError(f"{tool!r} has no argument {name!r}; use {self.shown[original]!r}")
            if original is not None:
                raise ToolError(f"{tool!r} has no argument {name!r}, and a call that sends it is refused")
            if self.is_closed and name not in ADDED_BY_HOSTS:
                raise ToolError(f"{tool!r} has no argument {name!r}{did_you_mean(name, self._inner)}")

    def known(self, arguments: RawArguments) -> RawArguments:
        """Return arguments without those that hosts add to every call and that the tool does not have."""
        return {name: value for name, value in arguments.items() if name in self._inner or not self.is_closed}

    def inner(self, arguments: RawArguments, computed: Mapping[str, object]) -> RawArguments:
        """Return the arguments of the tool for those of a client, which were checked."""
        inner = {self._inner.get(name, name): value for name, value in arguments.items()}
        defaults = {name: value for name, value in self.defaults.items() if name not in inner}
        return inner | {
            name: Raw(msgspec.json.encode(value)) for name, value in {**defaults, **self.fixed, **computed}.items()
        }


def _folded(name: str) -> str:
    return unicodedata.normalize("NFKC", name).casefold().translate(_SEPARATORS)


def decode_arguments(arguments: Raw | bytes | Mapping[str, object]) -> tuple[RawArguments, Json]:
    """Return the arguments of a call, each still encoded, and decoded.

    Raises:
        ToolError: they are no JSON object, or a name occurs twice.
    """
    raw = msgspec.json.encode(arguments) if isinstance(arguments, Mapping) else bytes(arguments)
    try:
        decoded = json.loads(raw.decode(), object_pairs_hook=_object, parse_constant=_no_json)
        members: RawArguments = {} if decoded is None else decoders[RawArguments].decode(raw)
    except RecursionError:
        raise ToolError("The arguments are nested too deeply") from None
    except ValueError as error:
        raise ToolError(f"The arguments cannot be read: {error}") from None
    return members, msgspec.json.decode(raw) or {}


def _object(pairs: list[tuple[str, Any]]) -> Json:
    members = dict(pairs)
    if len(members) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"the name {twice!r} occurs twice")
    return members


def _no_json(constant: str) -> None:
    raise ValueError(f"{constant} is no JSON value")
