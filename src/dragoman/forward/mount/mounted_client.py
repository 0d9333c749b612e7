"""The client of a parent as a mounted server sees it: session and channels, with the URIs of the mounted server.

A `MountedSession` lasts as long as the session, because a server may keep what belongs to a session by its object. It
refers to the session weakly, so that it does not keep the session alive.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from weakref import ref

from dragoman.protocol.eras import Caller
from dragoman.server.request.call import Channel, ConnectedClient, Session

if TYPE_CHECKING:
    from dragoman.forward.mount.mount import Mount


class MountedSession:
    """The session of a client, for a mounted server."""

    def __init__(self, session: Session, mount: Mount) -> None:
        self._session = ref(session)
        self.mount = mount
        self._standalone: _MountedStandalone | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._session(), name)

    @property
    def subscribed(self) -> set[str]:
        """The URIs of the resources that the client subscribed to, of those of the mounted server."""
        session = self._session()
        uris = () if session is None else session.subscribed
        return {inner for uri in uris if (inner := self.mount.renaming.inner_uri(uri)) is not None}

    def begin(self, caller: Caller) -> None:
        """Do nothing: the parent begins the session."""

    def subscribe(self, uri: str) -> None:
        """Record that the client subscribed to a resource."""
        self.__getattr__("subscribe")(self.mount.renaming.uri(uri) or uri)

    def unsubscribe(self, uri: str) -> None:
        """Record that the client unsubscribed from a resource."""
        self.__getattr__("unsubscribe")(self.mount.renaming.uri(uri) or uri)

    def standalone(self, connection: ConnectedClient) -> _MountedStandalone:
        """Return what sends notifications that belong to no request, over a connection or a session."""
        if self._standalone is None or self._standalone.connection() is not connection:
            self._standalone = _MountedStandalone(connection, self.mount)
        return self._standalone


class _MountedStandalone:
    """Sends notifications of a mounted server that belong to no request; equal to any other for the same client."""

    def __init__(self, connection: ConnectedClient, mount: Mount) -> None:
        self.connection = ref(connection)
        self._hash = hash(connection)
        self._mount = mount

    def __getattr__(self, name: str) -> Any:
        return getattr(self.connection(), name)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _MountedStandalone) and self.connection() == other.connection()

    def __hash__(self) -> int:
        return self._hash

    def notify(self, method: str, params: Any) -> None:
        """Send a notification, from any thread."""
        connection = self.connection()
        if connection is not None:
            connection.notify(method, self._mount.outer_params(method, params))


class MountedChannel:
    """The channel of a client, for a mounted server."""

    def __init__(self, channel: Channel, session: MountedSession, owner: Session | None = None) -> None:
        self._channel = channel
        self._session = session
        self._owner = owner
        """The session of the client lives as long as its call, which a proxy may send again after the answer."""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._channel, name)

    @property
    def standalone(self) -> _MountedStandalone | None:
        """What outlives the requests of the client: its connection or its session; None if there is neither."""
        connection = self._channel.standalone
        return None if connection is None else self._session.standalone(connection)

    def notify(self, method: str, params: Any) -> None:
        """Send a notification that belongs to this request, from any thread."""
        self._channel.notify(method, self._session.mount.outer_params(method, params))

    def notify_updated(self, uri: str) -> bool:
        """Notify this client, from any thread, that a resource was updated."""
        return self._channel.notify_updated(self._session.mount.outer_uri(uri))
