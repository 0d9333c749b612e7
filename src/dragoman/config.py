"""Defaults for every server, client and chat of the process, and what one of them says otherwise."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
from msgspec import Struct

from dragoman.errors import DefinitionError

Reporter = Callable[[BaseException, dict[str, Any]], Any]
Around = Callable[[dict[str, Any], Callable[[], Any]], Any]
Callback = Callable[[dict[str, Any]], Any]


class Configuration(Struct, kw_only=True):
    """What a server does around its requests; what is None is as `configure` set it for the process.

    Example:
        Server("sums", configuration=Configuration(exception_reporter=lambda error, info: report(error)))

    `exception_reporter(error, info)` is told of every error that was not meant for the client; `info` has the
    `request`, or the `notification` that could not be sent. `around_request(data, call_next)` is an `async def` that
    must await `call_next()`; `data` has `method` before, and `tool_name`, `tool_arguments`, `prompt_name`,
    `resource_uri`, `error` and `client` after it. `instrumentation_callback(data)` is called with the same and
    `duration` after each request; prefer `around_request`. `instrument_server_context` adds `server_context` to the
    data. `protocol_version` serves that version alone. `validate_tool_call_arguments` is on unless it is set to False,
    and `validate_tool_call_results` is off unless it is set to True.

    Raises:
        DefinitionError: a flag is no bool, or a callback cannot be called.
    """

    exception_reporter: Reporter | None = None
    around_request: Around | None = None
    instrumentation_callback: Callback | None = None
    instrument_server_context: bool | None = None
    protocol_version: str | None = None
    validate_tool_call_arguments: bool | None = None
    validate_tool_call_results: bool | None = None

    def __post_init__(self) -> None:
        for field in msgspec.structs.fields(self):
            value = getattr(self, field.name)
            if field.name in _FLAGS and not (value is None or isinstance(value, bool)):
                raise DefinitionError(f"{field.name} must be True or False, not {value!r}")
            if field.name in _CALLABLES and not (value is None or callable(value)):
                raise DefinitionError(f"{field.name} must be callable, not {value!r}")

    def over(self, defaults: Configuration) -> Configuration:
        """Return this configuration with the defaults where it says nothing."""
        said = {name: value for name, value in msgspec.structs.asdict(self).items() if value is not None}
        return msgspec.structs.replace(defaults, **said)


_FLAGS = frozenset({"instrument_server_context", "validate_tool_call_arguments", "validate_tool_call_results"})
_CALLABLES = frozenset({"exception_reporter", "around_request", "instrumentation_callback"})
_process = Configuration()


def configure(**options: Any) -> None:
    """Set defaults for every server of the process; None takes one back.

    Example:
        dragoman.configure(exception_reporter=report)

    Raises:
        DefinitionError: there is no such option, or its value does not fit.
    """
    global _process
    unknown = [name for name in options if name not in Configuration.__struct_fields__]
    if unknown:
        raise DefinitionError(
            f"There is no option {unknown[0]!r}; there are {', '.join(Configuration.__struct_fields__)}"
        )
    _process = Configuration(**{**msgspec.structs.asdict(_process), **options})


def configuration() -> Configuration:
    """Return the defaults of the process."""
    return _process
