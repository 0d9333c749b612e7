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


class Configuration(Struct, kw_only=True, frozen=True):
    """What a server does around its requests; what is None is as `configure` set it for the process.

    Example:
        Server("sums", configuration=Configuration(exception_reporter=lambda error, info: report(error)))

    `exception_reporter(error, info)` is told of every error that was not meant for the client; `info` has the
    `request`, or the `notification` that failed. `around_request(data, call_next)` is an `async def` that
    must await `call_next()`; `data` has `method` before, and `tool_name`, `tool_arguments`, `prompt_name`,
    `resource_uri`, `error` and `client` after it. `instrumentation_callback(data)` is called with the same and
    `duration` after each request; prefer `around_request`. `instrument_server_context` adds `server_context` to the
    data. `protocol_version` serves that version alone. `validate_tool_call_arguments` is on unless it is set to False,
    and `validate_tool_call_results` is off unless it is set to True.

    Raises:
        DefinitionError: a flag is no bool, a callback cannot be called, or it is async where it may not be, or the
            reverse. Whether there is such a protocol version is seen when a server is made.
    """

    exception_reporter: Reporter | None = None
    around_request: Around | None = None
    instrumentation_callback: Callback | None = None
    instrument_server_context: bool | None = None
    protocol_version: str | None = None
    validate_tool_call_arguments: bool | None = None
    validate_tool_call_results: bool | None = None

    def __post_init__(self) -> None:
        for name in _FLAGS:
            _require(name, getattr(self, name), lambda value: isinstance(value, bool), "True or False")
        for name in _CALLABLES:
            _require(name, getattr(self, name), callable, "callable")
        _require("protocol_version", self.protocol_version, lambda value: isinstance(value, str), "a version's name")
        if self.around_request is not None and not is_async(self.around_request):
            raise DefinitionError(
                f"around_request must be async, and {self.around_request!r} is not: write"
                " `async def around(data, call_next)` and await call_next()"
            )
        if self.exception_reporter is not None and is_async(self.exception_reporter):
            raise DefinitionError(
                f"exception_reporter must not be async, and {self.exception_reporter!r} is:"
                " write `def report(error, info)`"
            )

    def over(self, defaults: Configuration) -> Configuration:
        """Return this configuration with the defaults where it says nothing."""
        said = {name: value for name, value in msgspec.structs.asdict(self).items() if value is not None}
        return msgspec.structs.replace(defaults, **said)


_FLAGS = ("instrument_server_context", "validate_tool_call_arguments", "validate_tool_call_results")
_CALLABLES = ("exception_reporter", "around_request", "instrumentation_callback")


def is_async(function: Callable[..., Any]) -> bool:
    """Tell whether a function, or an object that can be called, is async."""
    from inspect import iscoroutinefunction

    return iscoroutinefunction(function) or iscoroutinefunction(getattr(function, "__call__", None))  # noqa: B004


def _require(name: str, value: Any, fits: Callable[[Any], bool], wanted: str) -> None:
    if value is not None and not fits(value):
        raise DefinitionError(f"{name} must be {wanted}, not {value!r}")


class Process:
    """What holds for every server of the process."""

    __slots__ = ("configuration",)

    def __init__(self) -> None:
        self.configuration = Configuration()


PROCESS = Process()


def configure(**options: Any) -> None:
    """Set defaults for every server of the process; None takes one back.

    Example:
        dragoman.configure(exception_reporter=report)

    Raises:
        DefinitionError: there is no such option, or its value does not fit.
    """
    unknown = [name for name in options if name not in Configuration.__struct_fields__]
    if unknown:
        raise DefinitionError(
            f"There is no option {unknown[0]!r}; there are {', '.join(Configuration.__struct_fields__)}"
        )
    PROCESS.configuration = Configuration(**{**msgspec.structs.asdict(PROCESS.configuration), **options})
