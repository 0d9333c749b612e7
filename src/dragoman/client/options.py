"""The options of clients, of tool calls and of single requests.

Both clients take the same `ClientOptions`. This module is below all others of the client: the types that the options
have are imported for type checkers only.
"""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict, get_args

from msgspec import Struct

from dragoman import types
from dragoman.protocol.headers import HeaderPlan
from dragoman.runtime.hints import did_you_mean, refuse_unknown

if TYPE_CHECKING:
    from dragoman.auth.contract import Authorization
    from dragoman.client.answer.approval import ApprovalHandler
    from dragoman.client.answer.elicitation import Elicitation, ElicitationHandler
    from dragoman.client.answer.handlers import RequestHandlers
    from dragoman.client.answer.roots import RootLike
    from dragoman.client.answer.sampling import Sampling, SamplingHandler
    from dragoman.client.connect.credentials import Headers
    from dragoman.client.connect.handshake import Mode
    from dragoman.client.connect.link import SendsRequests
    from dragoman.client.extensions.contract import ClientExtension
    from dragoman.client.hear.notifications import LogMessage, ServerNotification
    from dragoman.runtime.network import Network
    from dragoman.transports.contract import Transport

TIMEOUT_SECONDS, CONNECT_SECONDS = 60.0, 30.0
OnProgress = Callable[[float, float | None, str | None], object]
"""Called with progress, total and message."""


class RequestOptions(Struct):
    """The options of one request; None stands for the value of the client."""

    timeout: float | None = None
    """Seconds that may pass without a sign of the request."""
    total_timeout: float | None = None
    """Seconds that the request may take with all rounds of input and all repetitions."""
    on_progress: OnProgress | None = None
    progress_token: types.ProgressToken | None = None
    headers: Mapping[str, str] | None = None
    meta: Mapping[str, Any] | None = None
    mirrored: HeaderPlan | None = None
    """The arguments that are also sent as HTTP headers."""
    is_repeatable: bool | None = None
    """Whether the request may be sent again after the connection broke; None leaves this to its method."""
    on_id: Callable[[types.RequestId], Any] | None = None
    """Called with the id of each request before it is sent."""


class CallOptions(TypedDict, total=False):
    """The options of a call of a tool."""

    timeout: float | None
    """Seconds that it may go without a sign of life; without it, as the client was told."""
    total_timeout: float | None
    """Seconds that it may take in all."""
    on_progress: OnProgress | None
    """Gets progress, total and message."""
    progress_token: types.ProgressToken | None
    """Names the call in notifications of progress; one is made up without it."""
    headers: Mapping[str, str] | None
    """Sent with this call alone, over HTTP."""
    meta: Mapping[str, Any] | None
    """Sent as `_meta`."""
    raise_on_error: bool
    """Raise a `ToolError` if the tool failed (True)."""
    idempotent: bool | None
    """Whether the call may be repeated after the connection broke."""
    input_responses: Mapping[str, Any] | None
    """The answers to what an `InputNeeded` asked for."""
    request_state: str | None
    """The state of that `InputNeeded`."""


class ClientOptions(TypedDict, total=False):
    """The options of a client."""

    headers: Headers | None
    """Sent with every HTTP request: fixed, or functions that give them anew."""
    auth: str | Callable[[], str | Awaitable[str]] | Authorization | None
    """A bearer token, a function that gives it, or an object of `dragoman.auth`."""
    timeout: float | None
    """Seconds that a request may go without a sign of life (60); or DRAGOMAN_TIMEOUT."""
    total_timeout: float | None
    """Seconds that a request may take in all; without end by default."""
    connect_timeout: float | None
    """Seconds that it may take to connect (30), without a login by a person; or DRAGOMAN_CONNECT_TIMEOUT."""
    mode: Mode
    """"auto" asks the server; "handshake" and "stateless" know better."""
    protocol_version: str | None
    """Speak this version alone."""
    on_sampling: Sampling | SamplingHandler | None
    """Asks the model for the server: gets a `SamplingRequest`, returns text or a result; False rejects."""
    on_elicitation: Elicitation | ElicitationHandler | None
    """Asks the user for the server: gets an `ElicitationRequest`, returns content, `Decline()` or `Cancel()`."""
    roots: Iterable[RootLike] | RootLike
    """The folders that the server may work in."""
    on_request: RequestHandlers | None
    """Answers other requests of the server: functions by method, which get the parameters and return the result."""
    capabilities: types.ClientCapabilities | Mapping[str, Any] | None
    """Declared besides what the handlers stand for; False hides one. A `ClientCapabilities` is declared as it is."""
    extensions: Iterable[ClientExtension | Mapping[str, types.Json]] | Mapping[str, types.Json] | None
    """Extensions: objects that act for them; or settings by id, which are only declared."""
    on_approval: ApprovalHandler | None
    """Says before each tool call whether it may be made: gets an `Approval`."""
    approval_timeout: float | None
    """Seconds after which a call that nobody approved is denied; without end by default."""
    on_log: Callable[[LogMessage], object] | None
    """Gets each log message of the server; without it they go to the logger `dragoman.client.server`."""
    log_level: types.LoggingLevel
    """From which level on log messages are asked for ("warning"), if there is an `on_log`."""
    on_progress: OnProgress | None
    """Gets progress, total and message of every request that has no `on_progress` of its own."""
    on_notification: Callable[[ServerNotification], object] | None
    """Gets every notification of the server."""
    on_list_changed: Callable[[str], object] | None
    """Gets "tools", "prompts", "resources" or "resource_templates"."""
    on_resource_updated: Callable[[str], object] | None
    """Gets the URI of each resource that was subscribed to and changed."""
    on_reconnect: Callable[[], object] | None
    """Called after a connection that was lost was made again."""
    strict: bool
    """Raise where structured content does not fit its schema, instead of warning."""
    trusted: bool
    """Believe what the server says about its tools."""
    server_name: str | None
    """What the server is called wherever a person is asked, instead of the name that it gives itself."""
    name: str | None
    """How the client introduces itself."""
    version: str | None
    """Which version of itself it names."""
    transport: str | Transport | SendsRequests | None
    """A transport, or the name of one."""
    network: Network | None
    """Proxies, certificates, a session of your own."""
    env: Mapping[str, str] | None
    """Variables for the server's process."""
    inherit_env: bool
    """Whether the server's process has our environment too (True)."""
    cwd: str | Path | None
    """Where the server's process works."""
    meta: Mapping[str, Any] | Callable[[], Mapping[str, Any]] | None
    """Sent as `_meta` with every request."""
    max_pages: int
    """How many pages of a list are read (1,000)."""
    max_message_bytes: int
    """The largest message that is read (4 MiB)."""
    max_server_requests: int
    """How many requests of the server are worked on at a time (100); further ones are refused."""


_CALLBACKS = ("on_log", "on_progress", "on_notification", "on_list_changed", "on_resource_updated", "on_reconnect")
_INTEGERS = ("max_pages", "max_message_bytes", "max_server_requests")
_POSITIVE = ("timeout", "total_timeout", "connect_timeout", "approval_timeout", *_INTEGERS)


def check(options: Mapping[str, Any]) -> None:
    """Refuse unknown options, and values that make no sense.

    Raises:
        TypeError: there is no such option, or it is of the wrong kind.
        ValueError: its value makes no sense.
    """
    refuse_unknown("A client", options, ClientOptions.__annotations__)
    for name, value in options.items():
        check_value(name, value)


def check_value(name: str, value: Any) -> None:
    """Refuse a value that makes no sense for an option.

    Raises:
        TypeError: it is of the wrong kind.
        ValueError: it makes no sense.
    """
    if name in _CALLBACKS and value is not None and not callable(value):
        raise TypeError(f"{name} must be a function, not {value!r}")
    if name in _INTEGERS and (isinstance(value, bool) or not isinstance(value, int)):
        raise TypeError(f"{name} must be an integer, not {value!r}")
    if name in _POSITIVE and value is not None and not value > 0:
        raise ValueError(f"{name} must be more than 0, not {value!r}")
    if name == "env":
        _check_env(value)
    if name == "log_level" and value not in get_args(types.LoggingLevel):
        raise ValueError(f"There is no log level {value!r}; there are {', '.join(get_args(types.LoggingLevel))}")


def _check_env(env: Any) -> None:
    if env is not None and not isinstance(env, Mapping):
        raise TypeError(f"env must be a mapping of names to texts, not {type(env).__name__}")
    for name, value in (env or {}).items():
        if not isinstance(name, str) or not isinstance(value, str):
            raise TypeError(f"The variable {name} of env must be a text, not {type(value).__name__}; use str()")


def reusable(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return options that can be given to several clients: an iterator of extensions becomes a tuple."""
    extensions = options.get("extensions")
    return {**options, **({"extensions": tuple(extensions)} if isinstance(extensions, Iterator) else {})}


def unknown_call_option(unknown: Mapping[str, Any]) -> TypeError:
    """Return the error for unknown options of `call_tool`, which may be meant as arguments of the tool."""
    name = next(iter(unknown))
    options = ("timeout", "total_timeout", "on_progress", "progress_token", "headers", "meta", "raise_on_error")
    if hint := did_you_mean(name, options):
        return TypeError(f"call_tool has no option {name!r}{hint}")
    return TypeError(
        f"call_tool has no option {name!r}. Give the arguments of a tool as a dictionary,"
        f" call_tool(tool, {{{name!r}: ...}}), or call the tool itself: client.tool(...)({name}=...)"
    )


def seconds(given: float | None, variable: str, default: float) -> float:
    """Return a time-out: the given one, else the one of an environment variable, else the default.

    Raises:
        ValueError: it is no positive number.
    """
    text = os.environ.get(variable)
    try:
        value = float(text) if given is None and text else default if given is None else float(given)
    except ValueError:
        raise ValueError(f"{variable} must be a number of seconds, not {text!r}") from None
    if not value > 0:
        raise ValueError(f"A time-out must be more than 0 seconds, not {value:g}")
    return value
