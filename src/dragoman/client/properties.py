"""ClientProperties: the state of the connection and the callbacks, as properties of both clients."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar, overload

from dragoman import types
from dragoman.client.answer.approval import Approval, ApprovalHandler
from dragoman.client.answer.elicitation import Elicitation, ElicitationHandler
from dragoman.client.answer.handlers import Handlers, RequestHandlers
from dragoman.client.answer.roots import Roots
from dragoman.client.answer.sampling import Sampling, SamplingHandler
from dragoman.client.connect.reconnect import Status
from dragoman.client.hear.notifications import ClientCallbacks, LogMessage, ServerNotification
from dragoman.client.options import OnProgress, check_value
from dragoman.client.session import ClientSession
from dragoman.errors import DragomanError

if TYPE_CHECKING:
    from dragoman.client.client import AsyncClient


Function = TypeVar("Function")


class _Callback(Generic[Function]):
    """A property that holds a callback of the author.

    `is_declared` marks a callback that the client declares as a capability. In the handshake era such a callback cannot
    be set while there is a connection.
    """

    def __init__(self, *, is_declared: bool = False) -> None:
        self._is_declared = is_declared

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, client: None, owner: type) -> Self: ...
    @overload
    def __get__(self, client: ClientProperties, owner: type) -> Function | None: ...
    def __get__(self, client: ClientProperties | None, owner: type) -> Any:
        return self if client is None else getattr(self._holder(client._current_session()), self._name)

    def __set__(self, client: ClientProperties, given: Function | None) -> None:
        session = client._current_session()
        connection = session.connections.current
        if self._is_declared and connection is not None and not connection.version.stateless:
            raise DragomanError(
                f"{self._name} cannot be set while the client is connected, because a client declares its capabilities"
                " when it connects: set it before the start, or stop() the client first"
            )
        check_value(self._name, given)
        setattr(self._holder(session), self._name, given)
        client._option_changed(self._name, given)
        if connection is not None and connection.version.stateless:
            connection.use_version(connection.version)  # later requests carry the new capabilities

    def _holder(self, session: ClientSession) -> ClientCallbacks | Handlers:
        return session.callbacks if self._name in ClientCallbacks.__struct_fields__ else session.handlers


class WithStatements:
    """Explains which of `with` and `async with` a client supports; each client overrides its own pair."""

    if not TYPE_CHECKING:  # type checkers see that there is no such method

        def __enter__(self):
            """Refuse `with`.

            Raises:
                TypeError: always.
            """
            name = type(self).__name__
            raise TypeError(f"{name} is asynchronous: write `async with {name}(...)`, or `with {_other(name)}(...)`")

        def __exit__(self, *_):
            """Do nothing: the block is never entered."""

        def __aenter__(self):
            """Refuse `async with`.

            Raises:
                TypeError: always.
            """
            name = type(self).__name__
            raise TypeError(f"{name} blocks: write `with {name}(...)`, or `async with {_other(name)}(...)`")

        def __aexit__(self, *_):
            """Do nothing: the block is never entered."""


def _other(name: str) -> str:
    return name.removeprefix("Async") if name.startswith("Async") else f"Async{name}"


class ClientProperties(WithStatements, ABC):
    """The properties that both clients have."""

    @abstractmethod
    def _current_client(self) -> AsyncClient:
        """Return the asynchronous client of this process."""

    def _current_session(self) -> ClientSession:
        return self._current_client()._session

    def _option_changed(self, name: str, value: Any) -> None:
        """Record the new value of an option, if the client keeps its options."""

    @property
    def roots(self) -> Roots:
        """The folders that the server may work in."""
        roots = self._current_session().handlers.roots
        assert roots is not None
        return roots

    @property
    def status(self) -> Status:
        """The state of the connection: new, connecting, ready, lost, failed or stopped."""
        return self._current_session().connections.status

    @property
    def alive(self) -> bool:
        """Whether there is a connection."""
        return self._current_session().connections.current is not None

    @property
    def server_name(self) -> str | None:
        """The name of the server: the option `server_name`, else the last name that the server gave itself."""
        return self._current_session().handlers.server

    @property
    def server_info(self) -> types.Implementation | None:
        """The name and version that the server declared; None without a connection."""
        connection = self._current_session().connections.current
        return None if connection is None else connection.server_info

    @property
    def capabilities(self) -> types.ServerCapabilities:
        """The capabilities that the server declared; empty without a connection."""
        connection = self._current_session().connections.current
        return types.ServerCapabilities() if connection is None else connection.capabilities

    @property
    def instructions(self) -> str | None:
        """The server's instructions for the model; None without a connection."""
        connection = self._current_session().connections.current
        return None if connection is None else connection.instructions

    @property
    def protocol_version(self) -> str | None:
        """The protocol version in use; None without a connection."""
        connection = self._current_session().connections.current
        return None if connection is None else connection.version.name

    @property
    def subscribed_resources(self) -> list[str]:
        """The URIs of the resources that the client subscribes to."""
        return sorted(self._current_session().subscriptions.resources)

    def __repr__(self) -> str:
        # Neither the target nor the options: both may hold secrets.
        state = self.status if self.protocol_version is None else f"{self.status}, {self.protocol_version}"
        server = "" if self.server_info is None else f" of {self.server_info.name!r}"
        return f"<{type(self).__name__}{server}: {state}>"

    on_log = _Callback[Callable[[LogMessage], object]]()
    """Called with each log message of the server; `set_log_level` sets the lowest level."""
    on_progress = _Callback[OnProgress]()
    """Called with progress, total and message of every request that has no `on_progress` of its own."""
    on_notification = _Callback[Callable[[ServerNotification], object]]()
    """Called with every notification of the server."""
    on_list_changed = _Callback[Callable[[str], object]]()
    """Called with "tools", "prompts", "resources" or "resource_templates" when that list changed."""
    on_resource_updated = _Callback[Callable[[str], object]]()
    """Called with the URI of each subscribed resource that changed."""
    on_reconnect = _Callback[Callable[[], object]]()
    """Called after the client has replaced a lost connection."""
    on_sampling = _Callback[Sampling | SamplingHandler](is_declared=True)
    """Answers sampling requests of the server; in the handshake era, set it before the client connects."""
    on_elicitation = _Callback[Elicitation | ElicitationHandler](is_declared=True)
    """Answers elicitation requests of the server; in the handshake era, set it before the client connects."""
    on_request = _Callback[RequestHandlers]()
    """Answers other requests of the server: functions by method."""

    @property
    def on_approval(self) -> ApprovalHandler | None:
        """Decides before each tool call whether the client may send it."""
        return self._current_client()._on_approval

    @on_approval.setter
    def on_approval(self, given: ApprovalHandler | None) -> None:
        self._current_client()._on_approval = given
        self._option_changed("on_approval", given)

    @property
    def approvals(self) -> list[Approval]:
        """The tool calls that wait for approval, the oldest first.

        Example:
            for call in client.approvals:
                print(call.id, call.name, call.arguments)
        """
        return self._current_client()._approvals.waiting

    def approve(self, id: str) -> bool:
        """Approve the waiting call with this id; return False if no such call waits."""
        return self._current_client()._approvals.approve(id)

    def deny(self, id: str, reason: str | None = None) -> bool:
        """Deny the waiting call with this id; return False if no such call waits."""
        return self._current_client()._approvals.deny(id, reason)
