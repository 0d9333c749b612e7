"""The client of a parent as a mounted server sees it: session and channels, with the URIs of the mounted server.

A `MountedSession` lasts as long as the session, because a server may keep what belongs to a session by its object. It
refers to the session weakly, so that it does not keep the session alive.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from weakref import ref

import msgspec

from dragoman.protocol.eras import Caller
from dragoman.protocol.jsonrpc import encode
from dragoman.protocol.subscriptions import RESOURCE_UPDATED
from dragoman.server.mounting.places import with_uris
from dragoman.server.mounting.renaming import Renaming
from dragoman.server.request.call import Channel, Session

Rename = Callable[[str], str]


class MountedSession:
    """The session of a client, for a mounted server."""

    def __init__(self, session: Session, renaming: Renaming, rename: Rename) -> None:
        self._session = ref(session)
        self._renaming = renaming
        self.rename = rename
        """Returns a URI of the mounted server as the client knows it."""
        self._standalone: _Standalone | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._session(), name)

    @property
    def subscribed(self) -> set[str]:
        """The URIs of the resources that the client subscribed to, of those of the mounted server."""
        session = self._session()
        uris = () if session is None else session.subscribed
        return {inner for uri in uris if (inner := self._renaming.inner_uri(uri)) is not None}

    def begin(self, caller: Caller) -> None:
        """Do nothing: the parent begins the session."""

    def subscribe(self, uri: str) -> None:
        """Record that the client subscribed to a resource."""
        self.__getattr__("subscribe")(self._renaming.uri(uri) or uri)

    def unsubscribe(self, uri: str) -> None:
        """Record that the client unsubscribed from a resource."""
        self.__getattr__("unsubscribe")(self._renaming.uri(uri) or uri)

    def standalone(self, connection: Any) -> Any:
        """Return what sends notifications that belong to no request, over a connection or a session."""
        if self._standalone is None or self._standalone.connection() is not connection:
            self._standalone = _Standalone(connection, self.rename)
        return self._standalone


class _Standalone:
    """Sends notifications of a mounted server that belong to no request; equal to any other for the same client."""

    def __init__(self, connection: Any, rename: Rename) -> None:
        self.connection = ref(connection)
        self._hash = hash(connection)
        self._rename = rename

    def __getattr__(self, name: str) -> Any:
        return getattr(self.connection(), name)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Standalone) and self.connection() == other.connection()

    def __hash__(self) -> int:
        return self._hash

    def notify(self, method: str, params: Any) -> None:
        """Send a notification, from any thread."""
        connection = self.connection()
        if connection is not None:
            connection.notify(method, renamed_params(method, params, self._rename))


class MountedChannel:
    """The channel of a client, for a mounted server."""

    def __init__(self, channel: Channel, session: MountedSession) -> None:
        self._channel = channel
        self._session = session

    def __getattr__(self, name: str) -> Any:
        return getattr(self._channel, name)

    @property
    def standalone(self) -> Any:
        """What outlives the requests of the client: its connection or its session; None if there is neither."""
        connection = getattr(self._channel, "standalone", None)
        return None if connection is None else self._session.standalone(connection)

    def notify(self, method: str, params: Any) -> None:
        """Send a notification that belongs to this request, from any thread."""
        self._channel.notify(method, renamed_params(method, params, self._session.rename))

    def notify_updated(self, uri: str) -> bool:
        """Notify this client, from any thread, that a resource was updated."""
        return self._channel.notify_updated(self._session.rename(uri))


def renamed_params(method: str, params: Any, rename: Rename) -> Any:
    """Return the parameters of a notification, with the URI of an updated resource as the client knows it."""
    return with_uris(msgspec.json.decode(encode(params)), rename) if method == RESOURCE_UPDATED else params
