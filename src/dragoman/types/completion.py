"""The types of `completion/complete`."""

from __future__ import annotations

from typing import ClassVar

from dragoman.types.wire import Params, Result, Wire


class PromptReference(Wire, tag_field="type", tag="ref/prompt"):
    """The prompt whose argument is completed."""

    type: ClassVar[str] = "ref/prompt"
    name: str
    title: str | None = None


class ResourceTemplateReference(Wire, tag_field="type", tag="ref/resource"):
    """The resource template, by its text, whose variable is completed."""

    type: ClassVar[str] = "ref/resource"
    uri: str


class CompletionArgument(Wire):
    """The argument to complete, and the value typed so far."""

    name: str
    value: str


class CompletionContext(Wire):
    """The arguments that already have a value (2025-06-18)."""

    arguments: dict[str, str] | None = None


class CompleteRequestParams(Params):
    """The parameters of `completion/complete`."""

    ref: PromptReference | ResourceTemplateReference
    argument: CompletionArgument
    context: CompletionContext | None = None


class Completion(Wire):
    """At most 100 values; `total` is the number of all values."""

    values: list[str]
    total: int | None = None
    has_more: bool | None = None


class CompleteResult(Result):
    """The result of `completion/complete`."""

    completion: Completion
