"""What a client can be told when it is made; the same for the blocking and the asynchronous one."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict

from dragoman import types
from dragoman.auth.contract import Authorization
from dragoman.client.answer.approval import ApprovalHandler
from dragoman.client.answer.elicitation import Elicitation, ElicitationHandler
from dragoman.client.answer.handlers import RequestHandlers
from dragoman.client.answer.roots import RootLike
from dragoman.client.answer.sampling import Sampling, SamplingHandler
from dragoman.client.connect.connection import OnProgress
from dragoman.client.connect.credentials import Credentials, Headers
from dragoman.client.connect.handshake import Mode
from dragoman.client.connect.link import SendsRequests
from dragoman.client.hear.notifications import LEVELS, LogMessage, ServerNotification
from dragoman.runtime.callables import did_you_mean, refuse_unknown
from dragoman.transports.contract import Transport

if TYPE_CHECKING:
    from dragoman.client.extensions.contract import ClientExtension
    from dragoman.runtime.network import Network


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


TOLD = ("on_log", "on_progress", "on_notification", "on_list_changed", "on_resource_updated", "on_reconnect")
"""The functions that are told of things, and may be set at any time."""


def check(options: Mapping[str, Any]) -> None:
    """Refuse options that there are not, and values that make no sense.

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
    if name in TOLD and value is not None and not callable(value):
        raise TypeError(f"{name} must be a function, not {value!r}")
    if name in _WHOLE and (isinstance(value, bool) or not isinstance(value, int)):
        raise TypeError(f"{name} must be an integer, not {value!r}")
    if name in _POSITIVE and value is not None and not value > 0:
        raise ValueError(f"{name} must be more than 0, not {value!r}")
    if name == "env":
        _check_env(value)
    if name == "log_level" and value not in LEVELS:
        raise ValueError(f"There is no log level {value!r}; there are {', '.join(LEVELS)}")


def kept(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return options as they are kept for several clients: what can be iterated over once, as a tuple."""
    given = options.get("extensions")
    return {**options, **({"extensions": tuple(given)} if isinstance(given, Iterator) else {})}


def misplaced(given: Mapping[str, Any]) -> TypeError:
    """Return the error of arguments of a tool that were given as arguments of `call_tool`."""
    name = next(iter(given))
    options = ("timeout", "total_timeout", "on_progress", "progress_token", "headers", "meta", "raise_on_error")
    if hint := did_you_mean(name, options):
        return TypeError(f"call_tool has no option {name!r}{hint}")
    return TypeError(
        f"call_tool has no option {name!r}. Give the arguments of a tool as a dictionary,"
        f" call_tool(tool, {{{name!r}: ...}}), or call the tool itself: client.tool(...)({name}=...)"
    )


def _check_env(env: Any) -> None:
    if env is not None and not isinstance(env, Mapping):
        raise TypeError(f"env must be a mapping of names to texts, not {type(env).__name__}")
    for name, value in (env or {}).items():
        if not isinstance(name, str) or not isinstance(value, str):
            raise TypeError(f"The variable {name} of env must be a text, not {type(value).__name__}; use str()")


_WHOLE = ("max_pages", "max_message_bytes", "max_server_requests")
_POSITIVE = ("timeout", "total_timeout", "connect_timeout", "approval_timeout", *_WHOLE)


def credentials_of(headers: Any, auth: Any) -> Credentials:
    """Return headers and whatever authorizes requests: a token, a function that gives one, or an `Authorization`.

    Raises:
        TypeError: it is none of these.
    """
    if auth is None:
        return Credentials(headers)
    if isinstance(auth, Authorization):
        return Credentials(headers, auth)
    if isinstance(auth, str) and (headers is None or isinstance(headers, Mapping)):
        return Credentials({**(headers or {}), "Authorization": f"Bearer {auth}"})
    if not isinstance(auth, str) and not callable(auth):
        raise TypeError(
            f"auth must be a bearer token, a function that gives one, or an object of dragoman.auth such as OAuth(),"
            f" not {type(auth).__name__}"
        )
    return Credentials(_TokenHeaders(headers, auth))


class _TokenHeaders:
    """Headers and a bearer token, given anew for each request."""

    def __init__(self, headers: Any, token: Any) -> None:
        self._headers = Credentials(headers)
        self._token = Credentials({"Authorization": token})

    async def __call__(self) -> dict[str, str]:
        token = (await self._token.own_headers())["Authorization"]
        return {**await self._headers.own_headers(), "Authorization": f"Bearer {token}"}
