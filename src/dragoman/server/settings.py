"""What a server and its process configured, put together once, and what a pinned version allows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
from msgspec import UNSET, Struct

from dragoman.config import Configuration
from dragoman.errors import DefinitionError
from dragoman.protocol.fields import trim
from dragoman.protocol.versions import VERSIONS, Version, find_version, version_names
from dragoman.server.define.definition import Definition


class ServerSettings(Struct, frozen=True):
    """What follows from the configuration of a server and the defaults that it was put over."""

    configuration: Configuration
    pinned: Version | None
    is_observed: bool
    validates_arguments: bool
    """Whether arguments are compared with a schema that the author gave."""
    validates_results: bool
    """Whether structured results are compared with the output schema."""
    strict_arguments: bool = False
    """Whether arguments that a tool does not have are refused."""

    @classmethod
    def of(cls, own: Configuration, defaults: Configuration, *, strict_arguments: bool = False) -> ServerSettings:
        """Put a configuration over the defaults.

        Raises:
            DefinitionError: there is no such protocol version.
        """
        merged = own.over(defaults)
        return cls(
            merged,
            _pinned(merged.protocol_version),
            merged.around_request is not None or merged.instrumentation_callback is not None,
            merged.validate_tool_call_arguments is not False,
            merged.validate_tool_call_results is True,
            strict_arguments,
        )

    @property
    def versions(self) -> tuple[Version, ...]:
        """The versions that are served, newest first."""
        return VERSIONS if self.pinned is None else (self.pinned,)

    def require_carried(self, what: str, value: Struct | None) -> None:
        """See that a pinned version loses nothing of what an author gave.

        Raises:
            DefinitionError: it would leave out a field, which the message names.
        """
        if self.pinned is None or value is None:
            return
        lost = next(_lost(value, trim(value, self.pinned)), None)
        if lost is not None:
            raise DefinitionError(
                f"{what} has {lost}, which the pinned protocol version {self.pinned.name} lacks;"
                " leave it out, or do not pin the version"
            )

    def require_definition_carried(self, definition: Definition[..., Any]) -> None:
        """See that a pinned version loses nothing of a tool, prompt, resource or template.

        Raises:
            DefinitionError: it would leave out a field, which the message names.
        """
        given = definition.definition
        if getattr(definition, "output_schema", None) is None and getattr(given, "output_schema", None) is not None:
            # It was made of a return annotation, and no author asked for it.
            given = msgspec.structs.replace(given, output_schema=None)
        self.require_carried(f"The {_kind(given)} {given.name!r}", given)


def _pinned(name: str | None) -> Version | None:
    version = find_version(name)
    if name is not None and version is None:
        raise DefinitionError(f"There is no protocol version {name!r}; there are {', '.join(version_names(VERSIONS))}")
    return version


def _kind(definition: Struct) -> str:
    name = type(definition).__name__
    return "resource template" if name == "ResourceTemplate" else name.lower()


def _lost(before: Any, after: Any) -> Iterator[str]:
    """Give the paths of what one value has and the other lacks; what is said otherwise is not lost."""
    if isinstance(before, Struct) and type(before) is type(after):
        for name in before.__struct_fields__:
            held, kept = getattr(before, name), getattr(after, name)
            if held is not kept and (kept is None or kept is UNSET):
                yield name
            elif held is not kept:
                yield from (f"{name}{path}" for path in _lost_within(held, kept))


def _lost_within(before: Any, after: Any) -> Iterator[str]:
    if isinstance(before, list) and isinstance(after, list):
        for index, (held, kept) in enumerate(zip(before, after, strict=True)):
            yield from (f"[{index}].{path}" for path in _lost(held, kept))
    else:
        yield from (f".{path}" for path in _lost(before, after))
