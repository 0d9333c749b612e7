"""Completion of the arguments of prompts and of the variables of resource templates."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, ClassVar, TypeVar

import msgspec

from dragoman import types
from dragoman.errors import DefinitionError
from dragoman.server.hook import Hook
from dragoman.server.results import wire_object

MOST_VALUES = 100

Completer = TypeVar("Completer", bound=Callable[..., object])


class Completers:
    """The completions of one prompt or template, by argument: functions of `(value, arguments)`, or of the value."""

    changes: ClassVar[int] = 0
    """How often any prompt or template was given a completion: it does not know which servers it belongs to."""

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
            Completers.changes += 1
            return function

        return register


def completion_result(found: Any) -> types.CompleteResult:
    """Return what a completer gave back as a result: at most 100 values, saying how many there are.

    It may give values, one value, a Completion, a whole result, a dict of the fields of either, or None.
    """
    if isinstance(found, dict) and "completion" in found:
        found = wire_object(found, types.CompleteResult, "The result of a completion")
    if isinstance(found, types.CompleteResult):
        return msgspec.structs.replace(found, completion=_capped(found.completion))
    return types.CompleteResult(_capped(_completion(found)))


def _completion(found: Any) -> types.Completion:
    if isinstance(found, types.Completion | dict):
        completion: types.Completion = wire_object(found, types.Completion, "A completion")
        return completion
    values = [found] if isinstance(found, str) else found or ()
    return types.Completion([str(value) for value in values])


def _capped(completion: types.Completion) -> types.Completion:
    values = completion.values
    if len(values) > MOST_VALUES:
        total = completion.total if completion.total is not None else len(values)
        return types.Completion(values[:MOST_VALUES], total=total, has_more=True)
    return types.Completion(values, total=completion.total, has_more=bool(completion.has_more))
