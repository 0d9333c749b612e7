"""Every exception class of the package, as one tree.

DragomanError
  RpcError(code, message, data)     a JSON-RPC error, sent or received
    ParseError                      -32700
    InvalidRequest                  -32600
    MethodNotFound                  -32601
    InvalidParams                   -32602
    InternalError                   -32603
    InsufficientScope(scopes)       -32600; over HTTP with status 403
    ResourceNotFound(uri)           -32602, or -32002 before 2026-07-28
    UrlElicitationRequired(...)     -32042
    HeaderMismatch                  -32020
    MissingCapability(required)     -32021
    UnsupportedVersion(...)         -32022
    AppRefused                      -32000; an app asked for what it may not have
    TooManyRequests(retry_after)    -31029; a limit of a server refuses the request for now
  TransportError                    the other side cannot be reached, or does not answer
    ConnectError                    there is no connection, and nothing was sent
      ServerUsesHttp(url)           the server's process serves HTTP instead of stdin and stdout
    ServerCrashed(exit_code, ...)   the server's process ended
    SessionExpired                  the server does not know the session any more
    ResumptionRefused(status)       the server does not resume a stream
    TooLarge                        a message has more bytes than are accepted
    HttpError(status, body)         an HTTP response holds no JSON-RPC message
    AuthError                       the client is not authorized
      AuthRequired(challenge)       the server requires credentials
      InsecureUrl                   credentials would be sent to an unsafe URL; also a ValueError
      InsecureRedirectUri           the redirect URI is neither https nor on this machine; also a ValueError
      UnregisteredRedirectUri       the client's metadata does not list the redirect URI; also a ValueError
      InvalidClientMetadataUrl      the URL cannot be a client id; also a ValueError
      InvalidCredentials            the credentials cannot be used; also a ValueError
      TokenRefused(error)           an authorization server issued no tokens
    Timeout(request_id)             the other side did not answer in time; also a TimeoutError
  ModelError(status, retry_after)   a language model cannot be called, or its answer is incomplete
  RoundLimit                        a language model called tools for too many rounds
  ToolError(message, result)        a tool failed; the message is for the model
    NotAccepted(action)             the user declined or cancelled a question, so there is no answer
  Rejected                          a client refuses a sampling request of a server
  Cancelled                         the client cancelled the request; no response is sent
  InputNeeded(requests, state)      the server needs input that this client has no handler for
  SkillRefused(uri)                 a skill was not approved, or differs from what its server listed
  ConfigError(file, server, field)  a configuration is invalid; also a ValueError
  ValidationError(path)             a value does not fit its type or schema
  NotFound(kind, name)              the server has no such tool, prompt or resource; also a LookupError
  StoreError                        what processes share cannot be read or written
    StoreUnavailable                the store cannot be reached, or does not answer in time
    StoreFull                       the store has no room for another value or task
    StoreUnreadable                 a value was written with another secret, or was changed
  SessionFileError                  a file of recorded messages cannot be read or written
  InspectorError(status)            the page of the inspector asked for what cannot be done
  PaginationLimit                   a list has too many pages, or repeats a page
  NotPrivate                        other users may read or change a folder or file; also a PermissionError
  CapabilityNotAvailable            the server does not declare a capability that the call needs
  DefinitionError                   a tool, prompt, resource or template is invalid; also a ValueError
    ToolNotUnique                   two tools have the same name
    MethodAlreadyDefined            a custom method has the name of an existing method
  UnknownOption                     a function or class has no such option; also a TypeError
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar

from msgspec import UNSET


class DragomanError(Exception):
    """The root of every exception that dragoman raises."""

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (type(self), self.args, self.__dict__)


def _rebuild(kind: type[DragomanError], args: tuple[Any, ...], attributes: dict[str, Any]) -> DragomanError:
    """Return a copy of an exception without calling its constructor, because each class has other parameters."""
    error = kind.__new__(kind)
    error.args = args
    error.__dict__.update(attributes)
    return error


class RpcError(DragomanError):
    """A JSON-RPC error: a handler raises it to send an error response, a client raises it for a received one.

    Example:
        raise RpcError(-31999, "The printer is on fire", {"floor": 3})

    Most subclasses have a fixed code and take no `code`: `InvalidParams("...", data)`.
    """

    label: str = "rpc_error"
    """The name of this outcome for the hooks of a server."""

    def __init__(self, code: int, message: str, data: object = UNSET) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.data: Any = data

    @staticmethod
    def of(code: int, message: str, data: object = UNSET) -> RpcError:
        """Return the most precise class for an error that a peer sent."""
        kind = _BY_CODE.get(code, RpcError)
        error = kind.__new__(kind)
        RpcError.__init__(error, code, message, data)
        return error


class _CodedError(RpcError):
    CODE: ClassVar[int]

    def __init__(self, message: str, data: object = UNSET) -> None:
        super().__init__(self.CODE, message, data)


class ParseError(_CodedError):
    """The bytes are not a JSON text that this side accepts: broken, too large, too deep, not Unicode."""

    CODE = -32700


class InvalidRequest(_CodedError):
    """The JSON is not a JSON-RPC 2.0 message that may be sent here."""

    CODE = -32600
    label = "invalid_request"


class MethodNotFound(_CodedError):
    """The method does not exist, or not in this protocol version, or its capability is not offered."""

    CODE = -32601
    label = "method_not_found"


class InvalidParams(_CodedError):
    """The parameters do not fit the method."""

    CODE = -32602
    label = "invalid_params"


class InternalError(_CodedError):
    """The other side failed, and does not tell the reason."""

    CODE = -32603


class InsufficientScope(RpcError):
    """The token of the caller lacks `scopes` that the request needs; the client receives them as `requiredScopes`."""

    CODE: ClassVar[int] = -32600
    label = "insufficient_scope"

    def __init__(self, scopes: Iterable[str]) -> None:
        self.scopes = sorted(scopes)
        text = f"This takes the scopes: {' '.join(self.scopes)}"
        super().__init__(self.CODE, text, {"requiredScopes": self.scopes})


class HeaderMismatch(_CodedError):
    """An HTTP header disagrees with the body that it mirrors, is missing, or is repeated."""

    CODE = -32020
    label = "header_mismatch"


class ResourceNotFound(RpcError):
    """No resource has this URI: -32602, sent as -32002 to clients before 2026-07-28."""

    label = "resource_not_found"

    def __init__(self, uri: str, reason: str | None = None) -> None:
        message = f"Resource not found: {uri}" if reason is None else f"Resource not found: {uri} ({reason})"
        super().__init__(InvalidParams.CODE, message, {"uri": uri})


class UrlElicitationRequired(RpcError):
    """The user must first visit some pages: `elicitations` is a list of `ElicitUrl` objects, or of their parameters.

    Example:
        raise UrlElicitationRequired([ElicitUrl("Please sign in", "https://example.com/sign-in")])

    Raises:
        TypeError: `elicitations` is not a list.
    """

    CODE: ClassVar[int] = -32042

    def __init__(
        self,
        elicitations: Iterable[object],
        message: str = "The user must visit a URL before this request can be served",
    ) -> None:
        if isinstance(elicitations, str | bytes | Mapping) or not isinstance(elicitations, Iterable):
            kind = type(elicitations).__name__
            raise TypeError(f"UrlElicitationRequired takes a list, such as [ElicitUrl(message, url)], not {kind}")
        super().__init__(self.CODE, message, {"elicitations": list(elicitations)})

    @property
    def elicitations(self) -> list[Any]:
        """The elicitations whose URLs the user must visit first."""
        found = self.data.get("elicitations") if isinstance(self.data, dict) else None
        return found if isinstance(found, list) else []


class MissingCapability(RpcError):
    """The client did not declare a capability that the request needs: `required` is a ClientCapabilities object."""

    CODE: ClassVar[int] = -32021
    label = "missing_capability"

    def __init__(self, required: dict[str, Any], message: str | None = None) -> None:
        names = ", ".join(_capability_paths(required))
        super().__init__(
            self.CODE,
            message or f"The client did not declare a capability that this needs: {names}",
            {"requiredCapabilities": required},
        )


class UnsupportedVersion(RpcError):
    """The server does not serve the requested protocol version; its data lists the supported ones, newest first."""

    CODE: ClassVar[int] = -32022
    label = "unsupported_version"

    def __init__(self, requested: str, supported: Sequence[str]) -> None:
        super().__init__(
            self.CODE,
            f"Protocol version {requested!r} is not supported; use one of {', '.join(supported)}",
            {"supported": list(supported), "requested": requested},
        )


class AppRefused(_CodedError):
    """An app may not do what it asked for; a host sends the error to the app."""

    CODE = -32000


class TooManyRequests(RpcError):
    """A limit of a server refuses the request for now; `retry_after` is the number of seconds to wait, if it is known.

    Example:
        raise TooManyRequests("Too many orders; wait a minute", retry_after=60)

    The client receives the seconds as `data.retryAfter`. A client raises a plain `RpcError` with this code, because
    other servers may use the code for something else.
    """

    CODE: ClassVar[int] = -31029
    label = "too_many_requests"

    def __init__(self, message: str, retry_after: float | None = None) -> None:
        super().__init__(self.CODE, message, UNSET if retry_after is None else {"retryAfter": retry_after})
        self.retry_after = retry_after


class TransportError(DragomanError):
    """The other side cannot be reached, or does not answer."""


class ConnectError(TransportError):
    """There is no connection to the other side; nothing was sent."""


class ServerUsesHttp(ConnectError):
    """The server's process serves HTTP at `url` instead of stdin and stdout."""

    def __init__(self, message: str, url: str) -> None:
        super().__init__(message)
        self.url = url


class ServerCrashed(TransportError):
    """The server's process ended; `exit_code` is negative for a signal, `stderr_tail` is the end of its stderr.

    `summary` is the message without the words of the server.
    """

    def __init__(
        self, message: str, exit_code: int | None = None, stderr_tail: str = "", summary: str | None = None
    ) -> None:
        super().__init__(message)
        self.summary = summary or message
        self.exit_code = exit_code
        self.stderr_tail = stderr_tail


class SessionExpired(TransportError):
    """The server does not know the session any more."""


class ResumptionRefused(TransportError):
    """The server does not resume a stream. The client does not know whether the request was served."""

    def __init__(self, message: str, status: int = 0) -> None:
        super().__init__(message)
        self.status = status


class TooLarge(TransportError):
    """A message has more bytes than are accepted; the client's option `max_message_bytes` changes the limit."""


class HttpError(TransportError):
    """An HTTP response holds no JSON-RPC message; `body` is the beginning of its body."""

    def __init__(self, message: str, status: int, body: bytes = b"") -> None:
        super().__init__(message)
        self.status = status
        self.body = body


class AuthError(TransportError):
    """The client is not authorized, or an authorization step failed."""


class AuthRequired(AuthError):
    """The server requires credentials; `status` is 401 or 403, and `challenge` is the `WWW-Authenticate` header."""

    has_remedy = False
    """Whether the message says how to log in."""

    def __init__(self, message: str, status: int = 401, challenge: str | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.challenge = challenge


class InsecureUrl(AuthError, ValueError):
    """Credentials would be sent to a URL that is neither https nor on this machine, or to the wrong server."""


class InsecureRedirectUri(AuthError, ValueError):
    """The redirect URI is neither https nor on this machine."""


class UnregisteredRedirectUri(AuthError, ValueError):
    """The client's metadata does not list the redirect URI."""


class InvalidClientMetadataUrl(AuthError, ValueError):
    """The URL of a client's metadata document cannot be its client id."""


class InvalidCredentials(AuthError, ValueError):
    """The credentials are missing or blank, or do not fit the authorization method."""


class TokenRefused(AuthError):
    """An authorization server issued no tokens; `error` is the error code of its response.

    If the code contains a secret, `error` is `unreadable`.
    """

    def __init__(self, message: str, error: str | None = None) -> None:
        super().__init__(message)
        self.error = error


class Timeout(TransportError, TimeoutError):
    """The other side did not answer in time; `option` is the option that gives it more time, if there is one.

    `summary` is the message without the option.
    """

    def __init__(self, message: str, request_id: int | str | None = None, option: str | None = None) -> None:
        super().__init__(message if option is None else f"{message} If it needs longer, raise {option}")
        self.request_id = request_id
        self.option = option
        self.summary = message


class ModelError(DragomanError):
    """A language model cannot be called, or its answer is incomplete.

    Example:
        except ModelError as error:
            if error.status == 429:
                await asyncio.sleep(error.retry_after or 10)

    `status` is the HTTP status of the model's API, None without a response. `retry_after` is the number of seconds to
    wait before the next call, if the API names one.
    """

    def __init__(self, message: str, status: int | None = None, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.retry_after = retry_after


class RoundLimit(DragomanError):
    """A language model called tools in too many rounds of one turn."""


WITHHELD = "Internal error occurred"
"""What a client reads of a tool whose exception is not meant for it."""


class ToolError(DragomanError):
    """A failure of a tool, described for the model: raise it in a tool, and the result has `isError`.

    Example:
        raise ToolError(f"There is no city called {city}")

    A client's `call_tool` raises a ToolError with the whole result as `result`.
    """

    label = "tool_error"

    def __init__(self, message: str, result: object = None) -> None:
        super().__init__(message)
        self.result: Any = result


class NotAccepted(ToolError):
    """The code read the `content` of a question that the user declined or cancelled; `action` says which."""

    def __init__(self, action: str) -> None:
        super().__init__(f"The user did not accept: {action}")
        self.action = action


class Rejected(DragomanError):
    """The refusal of a sampling request: a sampling handler raises it, and the server receives the message.

    Example:
        raise Rejected("Not while I am in a meeting")
    """

    def __init__(self, message: str = "Sampling request was rejected") -> None:
        super().__init__(message)


class Cancelled(DragomanError):
    """The client cancelled the request: a handler may raise this, and no response is sent.

    A client raises it for the result of a task that was cancelled.
    """


class SkillRefused(DragomanError):
    """A client does not use a skill or a file of it: it was not approved, or differs from what its server listed."""

    def __init__(self, message: str, uri: str) -> None:
        super().__init__(message)
        self.uri = uri


class ConfigError(DragomanError, ValueError):
    """A configuration is invalid; `file`, `server` and `field` name the place, as far as it is known."""

    def __init__(
        self, message: str, file: str | None = None, server: str | None = None, field: str | None = None
    ) -> None:
        named = None if server is None else f"server {server!r}"
        place = ", ".join(part for part in (file, named, field) if part is not None)
        super().__init__(f"{place}: {message}" if place else message)
        self.message = message
        self.file = file
        self.server = server
        self.field = field


class ValidationError(DragomanError):
    """A value does not fit its type or schema; `path` says where, as in `$.tools[3].name`."""

    def __init__(self, message: str, path: str = "$") -> None:
        super().__init__(message)
        self.path = path


class InputNeeded(DragomanError):
    """The server needs input that this client has no handler for, or asked in too many rounds.

    Example:
        result = await client.call_tool("book", arguments, input_responses=answers, request_state=needed.state)
    """

    def __init__(self, message: str, requests: dict[str, Any] | None = None, state: str | None = None) -> None:
        super().__init__(message)
        self.requests = requests or {}
        self.state = state


class NotFound(DragomanError, LookupError):
    """The server has no object of this kind and name; `close_matches` are similar names."""

    def __init__(self, kind: str, name: str, close_matches: Sequence[str] = ()) -> None:
        remedy = f"; did you mean {' or '.join(repr(match) for match in close_matches)}?" if close_matches else ""
        super().__init__(f"The server has no {kind} {name!r}{remedy}")
        self.kind = kind
        self.name = name
        self.close_matches = list(close_matches)


class StoreError(DragomanError):
    """A value that the processes of a server share cannot be read or written."""


class StoreUnavailable(StoreError):
    """The store cannot be reached, or does not answer in time; a later call may succeed.

    Example:
        try:
            await ctx.user_state.set("cart", cart)
        except StoreUnavailable:
            raise ToolError("The cart cannot be saved now; try again in a minute") from None

    If a handler does not catch it, the client reads that the store cannot be reached: in a result with `isError` of a
    tool, else in the error -32603, over HTTP with status 503.
    """

    label = "store_unavailable"


class StoreFull(StoreError):
    """The store has no room for another value or task of this kind; the message names the limit."""


class StoreUnreadable(StoreError):
    """A value in the store was written with another secret, or was changed; it is neither returned nor replaced."""


class SessionFileError(DragomanError):
    """A session file or a cassette cannot be read or written; the message names the file and the reason."""


class InspectorError(DragomanError):
    """The page of the inspector asked for what cannot be done; `status` is that of the HTTP response."""

    def __init__(self, message: str, status: int = 400) -> None:
        super().__init__(message)
        self.status = status


class PaginationLimit(DragomanError):
    """A list has more pages than the client reads, or repeats a page."""


class NotPrivate(DragomanError, PermissionError):
    """Other users may read or change a folder or a file that must be private to this user."""


class CapabilityNotAvailable(DragomanError):
    """The server does not declare a capability that the call needs."""


class DefinitionError(DragomanError, ValueError):
    """A definition is invalid. The error is raised when the definition is registered."""


class ToolNotUnique(DefinitionError):
    """Two tools have the same name."""


class MethodAlreadyDefined(DefinitionError):
    """A custom method has the name of an existing method."""


class UnknownOption(DragomanError, TypeError):
    """A function or class has no option of this name; the message says what to write instead."""


def _capability_paths(required: dict[str, Any], prefix: str = "") -> list[str]:
    paths: list[str] = []
    for name, value in required.items():
        nested = _capability_paths(value, f"{prefix}{name}.") if isinstance(value, dict) else []
        paths += nested or [prefix + name]
    return paths


_BY_CODE: dict[int, type[RpcError]] = {
    kind.CODE: kind
    for kind in (
        ParseError,
        InvalidRequest,
        MethodNotFound,
        InvalidParams,
        InternalError,
        HeaderMismatch,
        UrlElicitationRequired,
        MissingCapability,
        UnsupportedVersion,
    )
} | {-32002: ResourceNotFound}
