"""The configuration of a server, and the defaults of the process for its servers and clients."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypedDict, Unpack

import msgspec
from msgspec import Struct

from dragoman.errors import DefinitionError


class ScriptRun:
    """How `run()` of a server serves in a file that a client has started as a script."""

    uses_stdio = False
    """Whether to serve stdin and stdout, where the client is, whatever transport the file names."""
    has_served = False


SCRIPT_RUN = ScriptRun()

Reporter = Callable[[BaseException, dict[str, Any]], Any]
Around = Callable[[dict[str, Any], Callable[[], Any]], Any]
Callback = Callable[[dict[str, Any]], Any]


class Configuration(Struct, kw_only=True):
    """The options of a server; an option that is None has the value that `configure` set for the process.

    Example:
        Server("sums", configuration=Configuration(exception_reporter=lambda error, info: report(error)))

    - `exception_reporter(error, info)` receives every error that is not meant for the client. `info` has the failed
      `request` or `notification`.
    - `around_request(data, call_next)` is an `async def` that must await `call_next()`. Before that call `data` has
      `method`; after it, `data` also has `tool_name`, `tool_arguments`, `prompt_name`, `resource_uri`,
      `resource_template`, `error`, `cancel_reason` and `client`, as far as they apply. `data` holds registered names,
      URIs and templates only, never a URI that a client made up. The function also sees requests that the server
      refuses.
    - `instrumentation_callback(data)` is called after each request with the same data and `duration`; prefer
      `around_request`.
    - `instrument_server_context` adds `server_context` to the data.
    - `protocol_version` makes the server serve this version only.
    - `extensions` maps ids to settings that every server and client declares. The settings of a single server or client
      are merged over these.
    - `validate_tool_call_arguments` is on unless it is False. `validate_tool_call_results` is off unless it is True.

    The attributes can also be set later, even while servers use the configuration:

        configuration = Configuration()
        configuration.exception_reporter = lambda error, info: report(error)

    Raises:
        DefinitionError: an option or protocol version does not exist, a flag is no bool, a callback is not callable,
            `around_request` is not async, or `exception_reporter` is async.
    """

    exception_reporter: Reporter | None = None
    around_request: Around | None = None
    instrumentation_callback: Callback | None = None
    instrument_server_context: bool | None = None
    protocol_version: str | None = None
    validate_tool_call_arguments: bool | None = None
    validate_tool_call_results: bool | None = None
    extensions: Mapping[str, dict[str, Any]] | None = None

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            _check(name, getattr(self, name))

    def __setattr__(self, name: str, value: Any) -> None:
        if name not in self.__struct_fields__:
            raise _unknown(name)
        _check(name, value)
        super().__setattr__(name, value)
        PROCESS.watchers.notify()

    def over(self, defaults: Configuration) -> Configuration:
        """Return this configuration, in which each option that is None has the value of `defaults`."""
        said = {name: value for name, value in msgspec.structs.asdict(self).items() if value is not None}
        return msgspec.structs.replace(defaults, **said)


_FLAGS = ("instrument_server_context", "validate_tool_call_arguments", "validate_tool_call_results")
_CALLABLES = (
    "exception_reporter",
    "around_request",
    "instrumentation_callback",
    "on_approval",
    "on_log",
    "on_progress",
    "on_notification",
)
PROTOCOL_VERSIONS = ("2026-07-28", "2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05")
"""The names of all versions, newest first."""


def _check(name: str, value: Any) -> None:
    if value is None:
        return
    if name in _FLAGS and not isinstance(value, bool):
        raise DefinitionError(f"{name} must be True or False, not {value!r}")
    if name in _CALLABLES and not callable(value):
        raise DefinitionError(f"{name} must be callable, not {value!r}")
    if name == "extensions" and not (
        isinstance(value, Mapping) and all(isinstance(settings, Mapping) for settings in value.values())
    ):
        raise DefinitionError(f"extensions must map ids to settings, which are mappings, not {value!r}")
    if name == "protocol_version" and value not in PROTOCOL_VERSIONS:
        raise DefinitionError(f"There is no protocol version {value!r}; there are {', '.join(PROTOCOL_VERSIONS)}")
    if name == "around_request" and not is_async(value):
        raise DefinitionError(
            f"around_request must be async, and {value!r} is not: write `async def around(data, call_next)` and await"
            " call_next()"
        )
    if name == "exception_reporter" and is_async(value):
        raise DefinitionError(
            f"exception_reporter must not be async, and {value!r} is: write `def report(error, info)`"
        )


def _unknown(name: str, further: tuple[str, ...] = ()) -> DefinitionError:
    names = ", ".join((*Configuration.__struct_fields__, *further))
    return DefinitionError(f"There is no option {name!r}; there are {names}")


def is_async(function: Callable[..., Any]) -> bool:
    """Tell whether a function or a callable object is async."""
    from inspect import iscoroutinefunction

    return iscoroutinefunction(function) or iscoroutinefunction(getattr(function, "__call__", None))  # noqa: B004


class Watchers:
    """Bound methods, one of each object, that are called after each change; they do not keep their objects alive.

    `weakref.WeakMethod` is not used: it prints an error at exit if its object ends after the modules do.
    """

    __slots__ = ("_methods",)

    def __init__(self) -> None:
        self._methods: dict[weakref.ref[Any], Callable[[Any], None]] = {}

    def add(self, method: Callable[[], None]) -> None:
        """Call a bound method after each change from now on."""
        bound: Any = method
        methods = self._methods
        methods[weakref.ref(bound.__self__, lambda dead: methods.pop(dead, None))] = bound.__func__

    def notify(self) -> None:
        """Call every method whose object is alive."""
        for reference, method in tuple(
            self._methods.items()
        ):  # a copy, because other threads may add methods meanwhile
            owner = reference()
            if owner is not None:
                method(owner)


class ProcessConfiguration:
    """The defaults of the process; watchers are notified of every change of the servers' options.

    `client_options` are the options of every client that is made from now on.
    """

    __slots__ = ("_configuration", "client_options", "watchers")

    def __init__(self) -> None:
        self.watchers = Watchers()
        self.client_options: dict[str, Any] = {}
        self._configuration = Configuration()

    @property
    def configuration(self) -> Configuration:
        """The defaults."""
        return self._configuration

    @configuration.setter
    def configuration(self, configuration: Configuration) -> None:
        self._configuration = configuration
        self.watchers.notify()


PROCESS = ProcessConfiguration()


class ConfigurationOptions(TypedDict, total=False):
    """The options of `configure`: the fields of `Configuration`, and options of clients."""

    exception_reporter: Reporter | None
    around_request: Around | None
    instrumentation_callback: Callback | None
    instrument_server_context: bool | None
    protocol_version: str | None
    validate_tool_call_arguments: bool | None
    validate_tool_call_results: bool | None
    extensions: Mapping[str, dict[str, Any]] | None
    roots: object
    on_sampling: object
    on_elicitation: object
    on_approval: Callable[..., object] | None
    on_log: Callable[..., object] | None
    log_level: str | None
    on_progress: Callable[..., object] | None
    on_notification: Callable[..., object] | None


CLIENT_OPTIONS = tuple(
    name for name in ConfigurationOptions.__annotations__ if name not in Configuration.__struct_fields__
)
"""The options of clients that `configure` takes."""


def configure(**options: Unpack[ConfigurationOptions]) -> None:
    """Set defaults for the servers and clients of the process; None resets an option.

    Example:
        dragoman.configure(exception_reporter=report, roots=["~/projects"], on_sampling=sample)

    The fields of `Configuration` concern every server, and `extensions` every client too. `roots` and the handlers are
    those of `Client`: they concern every client that is made afterwards and has no value of its own other than None. A
    client without sampling has `capabilities={"sampling": False}`, and a client without roots has `roots=()`.

    Raises:
        DefinitionError: there is no such option, or its value does not fit.
    """
    given: dict[str, Any] = {**options}
    fields = Configuration.__struct_fields__
    unknown = [name for name in given if name not in fields and name not in CLIENT_OPTIONS]
    if unknown:
        raise _unknown(unknown[0], CLIENT_OPTIONS)
    server_options = {name: given.pop(name) for name in list(given) if name in fields}
    for name, value in given.items():
        _check(name, value)
    configuration = Configuration(**{**msgspec.structs.asdict(PROCESS.configuration), **server_options})
    if isinstance(given.get("roots"), Iterator):
        given["roots"] = tuple(given["roots"])  # several clients read it
    client_options = {**PROCESS.client_options, **given}
    PROCESS.client_options = {name: value for name, value in client_options.items() if value is not None}
    if server_options:
        PROCESS.configuration = configuration
