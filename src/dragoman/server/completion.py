"""Completion of the arguments of prompts and of the variables of resource templates."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from dragoman import types
from dragoman.errors import DefinitionError
from dragoman.server.hook import Hook

MOST_VALUES = 100

Completer = TypeVar("Completer", bound=Callable[..., Any])


class Completers:
    """The completions of one prompt or template, by argument: functions of `(value, arguments)`, or of the value."""

    def __init__(self) -> None:
        self._by_argument: dict[str, Hook] = {}

    def __bool__(self) -> bool:
        return bool(self._by_argument)

    def find(self, argument: str) -> Hook | None:
        """Return what completes an argument."""
        return self._by_argument.get(argument)

    def decorator(self, argument: str, known: Iterable[str], owner: str) -> Callable[[Completer], Completer]:
        """Return a decorator that lets a function complete an argument.

        Raises:
            DefinitionError: the owner has no such argument.
        """
        names = list(known)
        if argument not in names:
            raise DefinitionError(f"The {owner} has no argument {argument!r} to complete; it has {names}")

        def register(function: Completer) -> Completer:
            self._by_argument[argument] = Hook(function)
            return function

        return register


def completion_result(found: Any) -> types.CompleteResult:
    """Return what a completer gave back as a result: at most 100 values, saying how many there are."""
    if isinstance(found, types.CompleteResult):
        return _capped(found.completion)
    if isinstance(found, types.Completion):
        return _capped(found)
    return _capped(types.Completion([str(value) for value in found or ()]))


def _capped(completion: types.Completion) -> types.CompleteResult:
    values = completion.values
    if len(values) > MOST_VALUES:
        total = completion.total if completion.total is not None else len(values)
        completion = types.Completion(values[:MOST_VALUES], total=total, has_more=True)
    elif completion.has_more is None:
        completion = types.Completion(values, total=completion.total, has_more=False)
    return types.CompleteResult(completion)
