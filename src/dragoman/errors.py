"""Every exception class of the package, as one tree.

DragomanError
  RpcError(code, message, data)     what JSON-RPC says, both ways
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
  TransportError                    the other side cannot be reached, or does not answer
    ConnectError                    there is no connection, and nothing was sent
    ServerCrashed(exit_code, ...)   the server's process ended
    SessionExpired                  the server does not know the session any more
    ResumptionRefused(status)       the server does not take a stream up again
    TooLarge                        a message has more bytes than are accepted
    HttpError(status, body)         an HTTP server answered with a status that is no answer
    AuthError                       the server does not let this client in
      AuthRequired(challenge)       it wants credentials
      InsecureUrl                   credentials would go over an address that is not safe; also a ValueError
      InsecureRedirectUri           the redirect URI is neither https nor on this machine; also a ValueError
      UnregisteredRedirectUri       the client's metadata does not list the redirect URI; also a ValueError
      InvalidClientMetadataUrl      the URL cannot be a client id; also a ValueError
      InvalidCredentials            the credentials cannot be used as they are; also a ValueError
      TokenRefused(error)           an authorization server did not give tokens
    Timeout(request_id)             it did not answer in time; also a TimeoutError
  ModelError(status, retry_after)   a language model cannot be asked, or did not answer to the end
  RoundLimit                        a language model called tools for too many rounds
  ToolError(message, result)        what went wrong in a tool, for the model to read
    NotAccepted(action)             the user declined or cancelled a question, so that it has no answer
  Rejected                          a client's model is not asked what a server wants to ask it
  Cancelled                         the client gave the request up; nothing is answered
  InputNeeded(requests, state)      the server needs answers that this client cannot give by itself
  ConfigError(file, server, field)  a configuration says nothing that can be used; also a ValueError
  ValidationError(path)             a value does not fit its type or schema
  NotFound(kind, name)              the server has nothing of that name; also a LookupError
  PaginationLimit                   a list has more pages than are read, or repeats itself
  NotPrivate                        a folder or a file may be touched by others; also a PermissionError
  CapabilityNotAvailable            the server does not declare what was asked of it
  DefinitionError                   a tool, prompt, resource or template that cannot be served; also a ValueError
    ToolNotUnique                   two tools have one name
    MethodAlreadyDefined            a custom method has the name of one that exists
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, ClassVar

from msgspec import UNSET


class DragomanError(Exception):
    """The root of every exception that dragoman raises."""

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (type(self), self.args, self.__dict__)


def _rebuild(kind: type[DragomanError], args: tuple[Any, ...], attributes: dict[str, Any]) -> DragomanError:
    """Return a copy of an exception without a call of its constructor, whose parameters differ from class to class."""
    error = kind.__new__(kind)
    error.args = args
    error.__dict__.update(attributes)
    return error


class RpcError(DragomanError):
    """A JSON-RPC error: raise it in a handler to answer with it, catch it when a peer answered with it.

    Example:
        raise RpcError(-31999, "The printer is on fire", {"floor": 3})

    A subclass with a code of its own is raised as `InvalidParams("...", data)`.
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
    """The method exists and its parameters are wrong."""

    CODE = -32602
    label = "invalid_params"


class InternalError(_CodedError):
    """The other side failed; it does not say how."""

    CODE = -32603


class InsufficientScope(RpcError):
    """Whoever asks may not: it takes `scopes` that their token has not."""

    CODE: ClassVar[int] = -32600
    label = "insufficient_scope"

    def __init__(self, scopes: Iterable[str]) -> None:
        self.scopes = sorted(scopes)
        super().__init__(self.CODE, f"This takes the scopes: {' '.join(self.scopes)}")


class HeaderMismatch(_CodedError):
    """An HTTP header disagrees with the body that it mirrors, is missing, or is repeated."""

    CODE = -32020
    label = "header_mismatch"


class ResourceNotFound(RpcError):
    """No resource has this URI: -32602, sent as -32002 to clients before 2026-07-28."""

    label = "resource_not_found"

    def __init__(self, uri: str) -> None:
        super().__init__(InvalidParams.CODE, f"Resource not found: {uri}", {"uri": uri})


class UrlElicitationRequired(RpcError):
    """The user must first visit these URLs; `elicitations` holds elicitation parameters of mode `url`."""

    CODE: ClassVar[int] = -32042

    def __init__(
        self,
        elicitations: Sequence[object],
        message: str = "The user must visit a URL before this request can be served",
    ) -> None:
        super().__init__(self.CODE, message, {"elicitations": list(elicitations)})

    @property
    def elicitations(self) -> list[Any]:
        """What the user must visit first."""
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
    """The protocol version asked for is not served; `supported` lists those that are, newest first."""

    CODE: ClassVar[int] = -32022
    label = "unsupported_version"

    def __init__(self, requested: str, supported: Sequence[str]) -> None:
        super().__init__(
            self.CODE,
            f"Protocol version {requested!r} is not supported; use one of {', '.join(supported)}",
            {"supported": list(supported), "requested": requested},
        )


class TransportError(DragomanError):
    """The other side cannot be reached, or does not answer."""


class ConnectError(TransportError):
    """There is no connection to the other side; nothing was sent."""


class ServerCrashed(TransportError):
    """The server's process ended; `exit_code` is negative for a signal, `stderr_tail` is the last that it wrote."""

    def __init__(self, message: str, exit_code: int | None = None, stderr_tail: str = "") -> None:
        super().__init__(message)
        self.exit_code = exit_code
        self.stderr_tail = stderr_tail


class SessionExpired(TransportError):
    """The server does not know the session any more."""


class ResumptionRefused(TransportError):
    """The server does not take a stream up again; whether the request was served is not known."""

    def __init__(self, message: str, status: int = 0) -> None:
        super().__init__(message)
        self.status = status


class TooLarge(TransportError):
    """A message has more bytes than are accepted."""


class HttpError(TransportError):
    """An HTTP server answered with a status that is no answer; `body` is the beginning of what it said."""

    def __init__(self, message: str, status: int, body: bytes = b"") -> None:
        super().__init__(message)
        self.status = status
        self.body = body


class AuthError(TransportError):
    """The server does not let this client in."""


class AuthRequired(AuthError):
    """The server wants credentials; `status` is 401 or 403 and `challenge` its `WWW-Authenticate` header."""

    def __init__(self, message: str, status: int = 401, challenge: str | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.challenge = challenge


class InsecureUrl(AuthError, ValueError):
    """Credentials would be sent to an address that is neither https nor on this machine, or not where they belong."""


class InsecureRedirectUri(AuthError, ValueError):
    """The redirect URI is neither https nor on this machine."""


class UnregisteredRedirectUri(AuthError, ValueError):
    """The client's metadata does not list the redirect URI."""


class InvalidClientMetadataUrl(AuthError, ValueError):
    """The URL of a client's metadata document cannot be its client id."""


class InvalidCredentials(AuthError, ValueError):
    """The credentials are missing, blank, or do not fit the way in which they are to be used."""


class TokenRefused(AuthError):
    """An authorization server did not give tokens; `error` is the code that it gave as the reason.

    A code that repeats a secret is `unreadable`.
    """

    def __init__(self, message: str, error: str | None = None) -> None:
        super().__init__(message)
        self.error = error


class Timeout(TransportError, TimeoutError):
    """The other side did not answer in time."""

    def __init__(self, message: str, request_id: int | str | None = None) -> None:
        super().__init__(message)
        self.request_id = request_id


class ModelError(DragomanError):
    """A language model cannot be asked, or did not answer to the end.

    Example:
        except ModelError as error:
            if error.status == 429:
                await asyncio.sleep(error.retry_after or 10)

    `status` is what its API answered, None if it did not; `retry_after` the seconds that it wants to be left alone.
    """

    def __init__(self, message: str, status: int | None = None, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.retry_after = retry_after


class RoundLimit(DragomanError):
    """A language model went on calling tools for too many rounds of one turn."""


class ToolError(DragomanError):
    """What went wrong in a tool, in words for the model: raise it in a tool, and the result says `isError`.

    Example:
        raise ToolError(f"There is no city called {city}")

    A client's `call_tool` raises it with the whole result as `result`.
    """

    label = "tool_error"

    def __init__(self, message: str, result: object = None) -> None:
        super().__init__(message)
        self.result: Any = result


class NotAccepted(ToolError):
    """The user declined or cancelled a question, and its `content` was read; `action` says which of the two."""

    def __init__(self, action: str) -> None:
        super().__init__(f"The user did not accept: {action}")
        self.action = action


class Rejected(DragomanError):
    """Raise it in a sampling handler to refuse the request; the server is told the message.

    Example:
        raise Rejected("Not while I am in a meeting")
    """

    def __init__(self, message: str = "Sampling request was rejected") -> None:
        super().__init__(message)


class Cancelled(DragomanError):
    """The client gave the request up; a handler that raises it then is not answered."""


class ConfigError(DragomanError, ValueError):
    """A configuration says nothing that can be used; `file`, `server` and `field` say where, as far as it is known."""

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
    """The server needs answers that this client has no handler for, or asked too often.

    Example:
        result = await client.call_tool("book", arguments, input_responses=answers, request_state=needed.state)
    """

    def __init__(self, message: str, requests: dict[str, Any] | None = None, state: str | None = None) -> None:
        super().__init__(message)
        self.requests = requests or {}
        self.state = state


class NotFound(DragomanError, LookupError):
    """The server has nothing of that kind and name; `close_matches` are names that resemble it."""

    def __init__(self, kind: str, name: str, close_matches: Sequence[str] = ()) -> None:
        remedy = f"; did you mean {' or '.join(repr(match) for match in close_matches)}?" if close_matches else ""
        super().__init__(f"The server has no {kind} {name!r}{remedy}")
        self.kind = kind
        self.name = name
        self.close_matches = list(close_matches)


class PaginationLimit(DragomanError):
    """A list has more pages than are read, or comes back to a page that was read before."""


class NotPrivate(DragomanError, PermissionError):
    """A folder or a file of this user may be touched by somebody else."""


class CapabilityNotAvailable(DragomanError):
    """The server does not declare what was asked of it."""


class DefinitionError(DragomanError, ValueError):
    """A definition that cannot be served, found when it is registered."""


class ToolNotUnique(DefinitionError):
    """Two tools have one name."""


class MethodAlreadyDefined(DefinitionError):
    """A method of the server's own has the name of one that exists."""


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
