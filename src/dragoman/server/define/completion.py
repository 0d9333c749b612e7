"""`Completers`: the functions that complete arguments of prompts and variables of resource templates."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import msgspec

from dragoman import types
from dragoman.config import Watchers
from dragoman.errors import DefinitionError
from dragoman.server.define.binding import Hook
from dragoman.server.wire_objects import wire_object

MAX_VALUES = 100

Completer = TypeVar("Completer", bound=Callable[..., object])


class Completers:
    """The completers of one prompt or template, by argument.

    A completer is a function of `(value, arguments)` or of `(value)`. `known` holds the names of the arguments.
    """

    def __init__(self, owner: str = "", known: Iterable[str] = ()) -> None:
        self.watchers = Watchers()
        """The methods to call after a completer is added."""
        self._owner = owner
        self._known = list(known)
        self._by_argument: dict[str, Hook] = {}

    def __bool__(self) -> bool:
        return bool(self._by_argument)

    def find(self, argument: str) -> Hook | None:
        """Return the completer of an argument, or None."""
        return self._by_argument.get(argument)

    def decorator(self, argument: str) -> Callable[[Completer], Completer]:
        """Return a decorator that registers a function as the completer of an argument.

        Raises:
            DefinitionError: the prompt or template has no such argument.
        """
        if argument not in self._known:
            raise DefinitionError(f"The {self._owner} has no argument {argument!r} to complete; it has {self._known}")

        def register(function: Completer) -> Completer:
            self._by_argument[argument] = Hook(function)
            self.watchers.notify()
            return function

        return register


class Completable:
    """The base class of prompts and templates, whose arguments can have completers."""

    completers: Completers

    def complete(self, argument: str) -> Callable[[Completer], Completer]:
        """Return a decorator that registers a function as the completer of an argument or variable.

        Example:
            @review.complete("tone")
            def tones(value, arguments):
                return [tone for tone in ("terse", "kind") if tone.startswith(value)]

        Raises:
            DefinitionError: there is no such argument or variable.
        """
        return self.completers.decorator(argument)


def completion_result(found: Any) -> types.CompleteResult:
    """Return the result for the value of a completer, with at most 100 values.

    A completer returns a list of values, one value, a Completion, a CompleteResult, a dict like either, or None.
    """
    if isinstance(found, dict) and "completion" in found:
        found = wire_object(found, types.CompleteResult, "The result of a completion")
    if isinstance(found, types.CompleteResult):
        return msgspec.structs.replace(found, completion=_capped(found.completion))
    return types.CompleteResult(_capped(_completion(found)))


def _completion(found: Any) -> types.Completion:
    if isinstance(found, types.Completion | dict):
        return wire_object(found, types.Completion, "A completion")
    values = [found] if isinstance(found, str) else found or ()
    return types.Completion([str(value) for value in values])


def _capped(completion: types.Completion) -> types.Completion:
    values = completion.values
    if len(values) > MAX_VALUES:
        total = completion.total if completion.total is not None else len(values)
        return types.Completion(values[:MAX_VALUES], total=total, has_more=True)
    return types.Completion(values, total=completion.total, has_more=bool(completion.has_more))
