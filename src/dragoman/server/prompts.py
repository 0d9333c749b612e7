"""Prompts: messages that a user picks, with arguments filled in."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from types import CoroutineType
from typing import Any, ClassVar, overload

import msgspec
from msgspec import UNSET, Raw, UnsetType

from dragoman import types
from dragoman.errors import DefinitionError, InvalidParams
from dragoman.server.call import Call
from dragoman.server.completion import Completer, Completers
from dragoman.server.definition import Definition, P, Parameters, R, Returned, decorated, settled_value
from dragoman.server.questions import InputRequired
from dragoman.server.results import prompt_result, wire_objects
from dragoman.server.signature import ArgumentsRejected


class Prompt(Definition[Parameters, Returned]):
    """A prompt: a class with a `render` method, or what the decorators make of a function.

    Example:
        class Review(Prompt):
            def render(self, code: str, tone: str = "kind") -> str:
                return f"Review this in a {tone} tone: {code}"

        server = Server("reviews", prompts=[Review])

    Raises:
        DefinitionError: the signature cannot be served; the message says why.
    """

    arguments: Iterable[types.PromptArgument | types.Json] | None = None
    """Declared arguments; left out, they are those of the signature."""

    _method: ClassVar[str] = "render"

    def render(self, *_: Any, **__: Any) -> Any:
        """What the prompt says; a class defines it."""

    def _compile(self) -> None:
        self._completers = Completers()
        declared = wire_objects(self.arguments, types.PromptArgument, f"An argument of prompt {self.name!r}")
        arguments = declared if self.arguments is not None else self._signature_arguments()
        self._required = [argument.name for argument in arguments or () if argument.required]
        self._compare_arguments([argument.name for argument in arguments or ()])
        self.definition = types.Prompt(
            name=self.name,
            title=self.title,
            description=self.description,
            icons=self._listed_icons(),
            meta=self.meta,
            arguments=arguments or None,
        )

    def _signature_arguments(self) -> list[types.PromptArgument]:
        return [
            types.PromptArgument(parameter.name, description=parameter.description, required=parameter.required or None)
            for parameter in self.signature.parameters
        ]

    def _compare_arguments(self, declared: list[str]) -> None:
        taken = [parameter.name for parameter in self.signature.parameters]
        undeclared = {parameter.name for parameter in self.signature.parameters if parameter.required} - set(declared)
        if undeclared or not (self.signature.takes_any or set(declared) <= set(taken)):
            raise DefinitionError(
                f"The declared arguments of prompt {self.name!r} are {declared}, but its function takes {taken};"
                " name them alike"
            )

    @property
    def completers(self) -> Completers:
        """The completions of the prompt's arguments."""
        return self._completers

    def complete(self, argument: str) -> Callable[[Completer], Completer]:
        """Complete an argument of the prompt by the decorated function.

        Example:
            @review.complete("tone")
            def tones(value, arguments):
                return [tone for tone in ("terse", "kind") if tone.startswith(value)]

        Raises:
            DefinitionError: the prompt has no such argument.
        """
        known = [declared.name for declared in self.definition.arguments or ()]
        return self._completers.decorator(argument, known, f"prompt {self.name!r}")

    def run(self, call: Call, arguments: Raw | UnsetType) -> Any:
        """Fill in a client's arguments; the outcome is a result, or a coroutine that gives it.

        Raises:
            InvalidParams: an argument is missing or wrong.
        """
        self._refuse_missing(arguments)
        try:
            outcome = self.invoke(call, arguments)
        except ArgumentsRejected as rejected:
            raise InvalidParams(str(rejected)) from None
        return self._settle(outcome) if isinstance(outcome, CoroutineType) else self._result(outcome)

    def _refuse_missing(self, arguments: Raw | UnsetType) -> None:
        """Refuse what lacks an argument that is declared as required, whether or not the function has a default."""
        if self.arguments is None or not self._required:
            return
        try:
            given = {} if arguments is UNSET else msgspec.json.decode(arguments, type=dict[str, Raw] | None) or {}
        except msgspec.ValidationError:
            return
        missing = [name for name in self._required if name not in given]
        if missing:
            raise InvalidParams(f"Missing required arguments: {', '.join(missing)}")

    async def _settle(self, outcome: CoroutineType[Any, Any, Any]) -> Any:
        return self._result(await settled_value(outcome))

    def _result(self, value: Any) -> Any:
        return value if isinstance(value, InputRequired) else prompt_result(value, self.description)


@overload
def prompt(function: Callable[P, R], /) -> Prompt[P, R]: ...
@overload
def prompt(
    given_name: str | None = None,
    /,
    *,
    name: str | None = None,
    title: str | None = None,
    description: str | None = None,
    arguments: Iterable[types.PromptArgument | types.Json] | None = None,
    meta: types.Json | None = None,
    icons: Iterable[types.Icon | types.Json] = (),
    inline: bool = False,
) -> Callable[[Callable[P, R]], Prompt[P, R]]: ...
def prompt(
    given: Callable[P, R] | str | None = None,
    /,
    *,
    name: str | None = None,
    title: str | None = None,
    description: str | None = None,
    arguments: Iterable[types.PromptArgument | types.Json] | None = None,
    meta: types.Json | None = None,
    icons: Iterable[types.Icon | types.Json] = (),
    inline: bool = False,
) -> Prompt[P, R] | Callable[[Callable[P, R]], Prompt[P, R]]:
    """Make a prompt of a function, for any server.

    Example:
        @prompt
        def greet(name: str) -> str:
            return f"Say hello to {name}"

    Raises:
        DefinitionError: the function cannot be a prompt; the message says why.
    """
    options = {
        "name": name,
        "title": title,
        "description": description,
        "arguments": arguments,
        "meta": meta,
        "icons": icons,
        "inline": inline,
    }
    return decorated(Prompt[P, R].define, given, options)
