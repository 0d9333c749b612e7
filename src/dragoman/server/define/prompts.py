"""`Prompt`: a template of messages that a user picks, its arguments, and the results of its function."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, ClassVar, Unpack, get_args, overload

import msgspec
from msgspec import UNSET, Raw, UnsetType

from dragoman import types
from dragoman.errors import DefinitionError
from dragoman.runtime.callables import at_caller, refuse_unknown
from dragoman.schema.python.shapes import Problem
from dragoman.schema.python.signature import ArgumentsRejected
from dragoman.server.define.completion import Completable, Completers
from dragoman.server.define.content import FileUnread, content_blocks, read_files
from dragoman.server.define.definition import (
    Definition,
    DefinitionOptions,
    P,
    Parameters,
    R,
    Returned,
    decorated,
    lists_options,
)
from dragoman.server.request.call import Call
from dragoman.server.request.questions import InputRequired
from dragoman.server.wire_objects import wire_object, wire_objects


class Prompt(Completable, Definition[Parameters, Returned]):
    """A prompt: a class with a `render` method, or an object that a decorator made from a function.

    Example:
        class Review(Prompt):
            def render(self, code: str, tone: str = "kind") -> str:
                return f"Review this in a {tone} tone: {code}"

        server = Server("reviews", prompts=[Review])

    Raises:
        DefinitionError: the signature cannot be served; the message says why.
    """

    arguments: Iterable[types.PromptArgument | types.Json] | None = None
    """The declared arguments; by default those of the function's signature."""

    _method: ClassVar[str] = "render"

    def render(self, *_: Any, **__: Any) -> Any:
        """Return the messages of the prompt; a subclass overrides this."""

    def _compile(self) -> None:
        declared = wire_objects(self.arguments, types.PromptArgument, f"An argument of prompt {self.name!r}")
        arguments = (declared or []) if self.arguments is not None else self._signature_arguments()
        names = [argument.name for argument in arguments]
        self._compare_arguments(names)
        self._required = [argument.name for argument in arguments if argument.required]
        self.completers = Completers(f"prompt {self.name!r}", names)
        self.definition = self._described(types.Prompt, arguments=arguments or None)

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

    def begin(self, call: Call) -> Any:
        """Call the function with a client's arguments; return its value, or a coroutine that returns the value.

        Raises:
            InvalidParams: an argument is missing or wrong.
        """
        self._refuse_missing(call.arguments)
        return super().begin(call)

    def result(self, call: Call, value: object) -> object:  # noqa: ARG002
        """Return the result for the function's value, or the value itself if it is `InputRequired`.

        If the value holds files to read, the result is a coroutine that returns the value with their data.
        """
        try:
            return value if isinstance(value, InputRequired) else prompt_result(value, self.description)
        except FileUnread:
            return read_files(value)

    def _refuse_missing(self, arguments: Raw | UnsetType) -> None:
        """Refuse arguments that lack a declared required argument, even if the function has a default for it."""
        if self.arguments is None or not self._required:
            return
        try:
            given = {} if arguments is UNSET else msgspec.json.decode(arguments, type=dict[str, Raw] | None) or {}
        except msgspec.ValidationError:
            return
        missing = [name for name in self._required if name not in given]
        if missing:
            raise ArgumentsRejected(tuple(Problem(name, "", missing=True) for name in missing)).refusal()


def prompt_result(value: Any, description: str | None) -> types.GetPromptResult:
    """Return the result for the value of a prompt's function: messages, a result, or a dict like a result."""
    if isinstance(value, types.GetPromptResult):
        return msgspec.structs.replace(value, messages=prompt_messages(value.messages))
    if isinstance(value, dict) and "messages" in value:
        whole = {"description": description, **value, "messages": []}
        result = wire_object(whole, types.GetPromptResult, "The result of a prompt")
        result.messages = prompt_messages(value["messages"])
        return result
    return types.GetPromptResult(prompt_messages(value), description=description)


def prompt_messages(value: Any) -> list[types.PromptMessage]:
    """Return the messages for the value of a prompt's function; content without a role has the role "user".

    Raises:
        TypeError: the value cannot become messages.
        ValueError: the protocol does not have a role, or a block does not fit its type.
    """
    if isinstance(value, list | tuple):
        return [message for item in value for message in prompt_messages(item)]
    if isinstance(value, types.PromptMessage):
        value = {"role": value.role, "content": value.content}
    if not isinstance(value, dict) or "role" not in value:
        value = {"role": "user", "content": value}
    role = value["role"]
    if role not in get_args(types.Role):
        raise ValueError(
            f'A prompt cannot have a message of the role {role!r}: use "user" or "assistant". What should hold for the'
            " whole server belongs in Server(instructions=...)"
        )
    return [types.PromptMessage(role, block) for block in content_blocks(value.get("content"))]


class PromptOptions(DefinitionOptions, total=False):
    """The options of a prompt that is made from a function."""

    arguments: Iterable[types.PromptArgument | types.Json] | None
    """The declared arguments; by default those of the function's signature."""


@overload
def prompt(function: Callable[P, R], /) -> Prompt[P, R]: ...
@overload
def prompt(
    given_name: str | None = None, /, **options: Unpack[PromptOptions]
) -> Callable[[Callable[P, R]], Prompt[P, R]]: ...
@at_caller
@lists_options(PromptOptions, Prompt)
def prompt(
    given: Callable[P, R] | str | None = None, /, **options: Any
) -> Prompt[P, R] | Callable[[Callable[P, R]], Prompt[P, R]]:
    """Make a prompt from a function; any server can register it.

    Example:
        @prompt
        def greet(name: str) -> str:
            return f"Say hello to {name}"

    Raises:
        DefinitionError: the function cannot be a prompt; the message says why.
    """
    refuse_unknown("prompt()", options, PromptOptions.__annotations__)
    return decorated(Prompt[P, R].define, given, options)
