"""`Mount`: one server that is mounted in another, with its renaming; `MountListener` passes its notifications on.

The parent keeps its mounts alive. The mounted server knows them by weak references, so it can be mounted in several
servers, be mounted twice, and be served by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple, cast
from weakref import WeakKeyDictionary, ref

import msgspec

from dragoman import types
from dragoman.forward.messages import Subject, with_uris
from dragoman.forward.mount.mounted_client import MountedSession
from dragoman.forward.mount.renaming import Renaming
from dragoman.protocol.jsonrpc import encode
from dragoman.protocol.subscriptions import RESOURCE_UPDATED
from dragoman.server.dispatch.handlers import HANDLERS
from dragoman.server.request.call import ELICITATION_COMPLETE
from dragoman.types.memo import Recent

if TYPE_CHECKING:
    from dragoman.protocol.eras import Offer
    from dragoman.protocol.methods import Method
    from dragoman.server.dispatch.dispatcher import Dispatcher
    from dragoman.server.notifier import NotificationListener
    from dragoman.server.registry import Registry
    from dragoman.server.request.call import Call, Session

URI_TABLES = ("resources", "templates")
TABLES = ("tools", "prompts", *URI_TABLES)
MAX_LISTED = 10_000
"""At most this many names are remembered of the lists of a mounted server."""


class Mount:
    """A server that is mounted in a parent."""

    def __init__(self, parent: Dispatcher, server: Dispatcher, renaming: Renaming) -> None:
        self._parent = ref(parent)
        self.server = server
        self.renaming = renaming
        self._sessions: WeakKeyDictionary[Session, MountedSession] = WeakKeyDictionary()
        self.listeners = tuple(MountListener(self, is_elsewhere=one) for one in (False, True))
        self.listed: Recent[tuple[str, str], None] = Recent(MAX_LISTED)
        """The list and the name of each entry that the mounted server has listed."""

    def __repr__(self) -> str:
        return f"<Mount of {self.server.name!r}, prefix {self.renaming.prefix!r}>"

    @property
    def parent(self) -> Dispatcher | None:
        """The server that this one is mounted in; None if nobody keeps it any more."""
        return self._parent()

    def session(self, session: Session) -> MountedSession:
        """Return the session of a client for the mounted server: the same object for each request of the session."""
        found = self._sessions.get(session)
        if found is None:
            found = self._sessions[session] = MountedSession(session, self)
        return found

    def outer(self, table: str, key: str) -> str | None:
        """Return the name or URI of a definition in the parent; None if it is left out."""
        return self.renaming.uri(key) if table in URI_TABLES else self.renaming.name(key)

    def inner(self, table: str, key: str) -> str | None:
        """Return the name or URI of a definition in the mounted server; None if it cannot be one of that server's."""
        return self.renaming.inner_uri(key) if table in URI_TABLES else self.renaming.inner_name(key)

    def outer_uri(self, uri: str) -> str:
        """Return a URI as clients of the parent know it; a URI that the mounted server lacks is not changed."""
        return uri if reads(self.server, uri) is False else self.renaming.uri(uri) or uri

    def uri_paths(self, method: str) -> tuple[str, ...]:
        """Return the paths of the URIs in the result of a method, in each entry of a list, or in a notification."""
        parent = self.parent
        return () if parent is None else parent.offer.table.uris(method)

    def outer_params(self, method: str, params: Any) -> Any:
        """Return the parameters of a notification with the URIs that clients of the parent know."""
        paths = self.uri_paths(method)
        return with_uris(msgspec.json.decode(encode(params)), paths, self.outer_uri) if paths else params

    def offer(self, call: Call) -> Offer | None:
        """Return what the mounted server offers to clients; None if it does not handle a notification."""
        is_notification, method = call.is_notification, call.request.method.name
        return self.server.offering.for_notification(method) if is_notification else self.server.offer

    def reached(self, change: Change) -> Iterator[tuple[Dispatcher, Change]]:
        """Yield the servers above the mounted server, each with a change as its clients know it."""
        parent = self.parent
        if parent is not None:
            is_uri = change.method == RESOURCE_UPDATED and change.subject is not None
            subject = self.outer_uri(change.subject or "") if is_uri else change.subject
            params = None if change.params is None else self.outer_params(change.method, change.params)
            change = Change(change.method, subject, params)
            yield parent, change
            for mount in mounts_above(parent):
                yield from mount.reached(change)

    def find(self, table: str, key: str) -> Any:
        """Return the definition that has a name or URI in the parent; None if the mounted server has none."""
        inner = self.inner(table, key)
        return None if inner is None else find(self.server, table, inner)


class Change(NamedTuple):
    """What a notification tells about, as the clients of one server know it."""

    method: str
    subject: str | None = None
    params: types.Json | None = None


class MountListener:
    """Passes the notifications of a mounted server on to the clients of the servers above it.

    One listener passes them to the clients of this process, and the other to those of other processes. If a server is
    mounted several times below the same parent, the listener of the first mount passes what clients of the parent would
    receive several times.
    """

    def __init__(self, mount: Mount, *, is_elsewhere: bool) -> None:
        self._mount = mount
        self.is_elsewhere = is_elsewhere

    def notify_change(self, method: str, subject: str | None = None, params: types.Json | None = None) -> bool:
        """Send the notification of a change, about the URI that the receivers know."""
        return self._deliver(Change(method, subject, params), lambda member, change: member.notify_change(*change))

    def log(self, level: types.LoggingLevel, data: Any, logger: str | None) -> bool:
        """Send a log message."""
        return self._deliver(Change("notifications/message"), lambda member, _: member.log(level, data, logger))

    def complete_elicitation(self, id: str) -> bool:
        """Notify the client that received a url elicitation that it is complete."""
        return self._deliver(Change(ELICITATION_COMPLETE), lambda member, _: member.complete_elicitation(id))

    def _deliver(self, change: Change, send: Callable[[NotificationListener, Change], bool]) -> bool:
        known: set[tuple[int, bytes]] = set()
        deliveries: list[bool] = []
        for mount in mounts_above(self._mount.server):
            for server, outer_change in mount.reached(change):
                key = id(server), encode(outer_change)
                if key not in known and mount is self._mount:
                    deliveries += [send(member, outer_change) for member in self._clients(server)]
                known.add(key)
        return any(deliveries)

    def _clients(self, server: Dispatcher) -> Iterator[NotificationListener]:
        for member in server.notifier.members():
            if not isinstance(member, MountListener) and getattr(member, "is_elsewhere", False) is self.is_elsewhere:
                yield member


def mounts_of(server: Dispatcher) -> list[Mount]:
    """Return the mounts of a server."""
    return cast("list[Mount]", list(server.mounts or ()))


def mounts_above(server: Dispatcher) -> list[Mount]:
    """Return the mounts of a server in others."""
    return cast("list[Mount]", list(server.mounted_in))


def keys(server: Dispatcher, table: str) -> Iterator[str]:
    """Yield the names or URIs of the definitions that a server is known to have, mounted ones too."""
    yield from server.registry.registered(table)
    for mount in mounts_of(server):
        outer = (mount.outer(table, inner) for inner in keys(mount.server, table))
        yield from (key for key in outer if key is not None)


def find(server: Dispatcher, table: str, key: str) -> Any:
    """Return the definition that a server is known to have by a name or URI, also a disabled or mounted one."""
    registry: Registry = server.registry
    found = getattr(registry, table).get(key) or registry.disabled[table].get(key)
    mounts = [] if found is not None else mounts_of(server)
    return next((one for mount in mounts if (one := mount.find(table, key)) is not None), found)


def has(server: Dispatcher, method: Method, subject: Subject) -> bool | None:
    """Tell whether a request about a subject is for a server; None: it may be, but only the server itself can tell."""
    if method.name not in HANDLERS:
        return None  # only the extension knows what it serves
    if subject.is_uri:
        return reads(server, subject.text, method.name)
    if find(server, "tools" if method.name == "tools/call" else "prompts", subject.text) is not None:
        return True
    return None if is_open(server, method.name) else False


def reads(server: Dispatcher, uri: str, method: str = "resources/read") -> bool | None:
    """Tell whether a server has a URI or URI template; None: it may have it, but only the server itself can tell."""
    if any(find(server, table, uri) is not None for table in URI_TABLES):
        return True
    if any(template.match(uri) is not None for template in server.registry.registered("templates").values()):
        return True
    inner = [(mount, found) for mount in mounts_of(server) if (found := mount.renaming.inner_uri(uri)) is not None]
    answers = [reads(mount.server, found, method) for mount, found in inner]
    if True in answers:
        return True
    extends = server.installed is not None and server.installed.reads
    may = (
        "on_read_resource" in server.registry.hooks
        or "on_list_resources" in server.registry.hooks
        or extends
        or None in answers
    )
    return None if may or is_open(server, method) else False


def is_open(server: Dispatcher, method: str) -> bool:
    """Tell whether the handler of a method is not that of the registry, so that the server may serve any name."""
    own = own_handler(server, method)
    return own is not HANDLERS.get(method, own) or any(is_open(mount.server, method) for mount in server.mounts or ())


def own_handler(server: Dispatcher, method: str) -> Any:
    """Return the handler of a method that a server has without its mounts; None if it has none."""
    return without_mounts(server.handlers.get(method))


def without_mounts(handler: Any) -> Any:
    """Return the handler that a joined handler joins with mounts; any other handler is returned itself."""
    return getattr(handler, "own", handler)
