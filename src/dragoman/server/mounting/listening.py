"""`JoinedListening`: `subscriptions/listen` of a server that has mounts.

Each server is asked what it honours of the filter, with a channel that keeps its answer (`CapturingChannel`). The
client then has one subscription to all of it. The notifications of a mounted server reach the clients of its parent by
its audience. A server that forwards requests, such as a proxy, acknowledges the filter by a notification of its own and
listens to its target for as long as the client listens; what it notifies meanwhile is passed on.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, cast

import msgspec
from msgspec import Raw

from dragoman import types
from dragoman.protocol.jsonrpc import encode
from dragoman.protocol.subscriptions import ACKNOWLEDGED, CORE_FIELDS, MAX_WAITING, Subscription
from dragoman.runtime.tasks import cancel_and_wait
from dragoman.server.mounting.joined import Joined, finished
from dragoman.server.mounting.mount import Mount, is_open, reads
from dragoman.server.mounting.passing import run_inner
from dragoman.server.request.call import Call, Channel

if TYPE_CHECKING:
    from dragoman.server.dispatch.dispatcher import Dispatcher

ANSWER_SECONDS = 10.0
"""How long a server has to say what it honours."""
_CORE_NAMES = frozenset(field.name for field in CORE_FIELDS)
_CORE_WIRE_NAMES = frozenset(field.encode_name for field in msgspec.structs.fields(types.SubscriptionFilter))


class CapturingChannel:
    """A channel that keeps what a server honours of a filter, instead of serving the subscription."""

    def __init__(self, channel: Channel, filter_type: type[types.SubscriptionFilter]) -> None:
        self._channel = channel
        self._filter_type = filter_type
        self.honoured: asyncio.Future[types.SubscriptionFilter] = asyncio.get_running_loop().create_future()
        self.hidden: frozenset[str] = frozenset()
        """The URIs that the server acknowledges but never notifies."""
        self._early: deque[tuple[str, Any]] | None = deque(maxlen=MAX_WAITING)
        """The notifications that came before the client had its acknowledgement; None once it has it."""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._channel, name)

    async def listen(self, subscription: Subscription) -> None:
        """Keep the filter of a subscription."""
        self.hidden = subscription.hidden
        self.honoured.set_result(subscription.honoured)

    def notify(self, method: str, params: Any) -> None:
        """Keep the filter that a server acknowledges, and send any other notification after the acknowledgement."""
        if method == ACKNOWLEDGED:
            if not self.honoured.done():
                acknowledged = msgspec.json.decode(encode(params))["notifications"]
                self.honoured.set_result(msgspec.convert(acknowledged, self._filter_type))
        elif self._early is not None:
            self._early.append((method, params))
        else:
            self._channel.notify(method, params)

    def release(self) -> None:
        """Send the notifications that came early, and any other from now on."""
        early, self._early = self._early or (), None
        for method, params in early:
            self._channel.notify(method, params)


class JoinedListening(Joined):
    """The handler of `subscriptions/listen`."""

    async def __call__(self, server: Dispatcher, call: Call) -> Any:
        """Serve a subscription until the client cancels it or the connection ends."""
        uris = call.request.params.notifications.resource_subscriptions or []
        routes = {mount: _inner_uris(mount, uris) for mount in self.offering(call)}
        passed = {outer for inner in routes.values() for outer in inner.values()}
        held: list[tuple[asyncio.Task[Any], CapturingChannel]] = []
        try:
            own = await self._capture_own(server, call, [uri for uri in uris if uri not in passed])
            honoured, hidden = own.honoured.result(), own.hidden
            for mount, inner in routes.items():
                channel = await self._capture_mounted(call, mount, inner, held)
                if channel is not None:
                    honoured = _union(honoured, channel.honoured.result(), inner)
                    hidden |= {inner[uri] for uri in channel.hidden}
            subscription = Subscription(call.request.id, honoured, server.offer.table.subscription_fields(), hidden)
            for _, channel in held:
                # The first step of `listen` sends the acknowledgement, which MUST be the first message (2026-07-28).
                asyncio.get_running_loop().call_soon(channel.release)
            await call.channel.listen(subscription)
            return subscription.result()
        finally:
            for task, _ in held:
                await cancel_and_wait(task)

    async def _capture_own(self, server: Dispatcher, call: Call, uris: list[str]) -> CapturingChannel:
        """Return a channel with the filter that the server honours without its mounts."""
        assert self.own is not None
        rows = () if server.installed is None else server.installed.rows
        known = _CORE_NAMES | {field.name for row in rows for field in row.subscriptions}
        wanted = call.request.params.notifications
        foreign = dict.fromkeys(set(wanted.__struct_fields__) - known)
        wanted = msgspec.structs.replace(wanted, resource_subscriptions=uris or None, **foreign)
        params = msgspec.structs.replace(call.request.params, notifications=wanted)
        request = msgspec.structs.replace(call.request, params=params)
        channel = CapturingChannel(call.channel, type(wanted))
        await finished(self.own(server, msgspec.structs.replace(call, request=request, channel=channel)))
        return channel

    async def _capture_mounted(
        self, call: Call, mount: Mount, uris: Iterable[str], held: list[tuple[asyncio.Task[Any], CapturingChannel]]
    ) -> CapturingChannel | None:
        """Return a channel with the filter that a mounted server honours; None without an answer in time."""
        wanted = msgspec.to_builtins(call.request.params.notifications)
        inner = [*uris]
        if not is_open(mount.server, self.method) and not inner and wanted.keys() <= _CORE_WIRE_NAMES:
            return None  # a change of its lists reaches every client
        wanted.pop("resourceSubscriptions", None)
        given = {**msgspec.json.decode(call.request.raw_params), "notifications": wanted}
        if inner:
            wanted["resourceSubscriptions"] = inner
        channel = CapturingChannel(call.channel, type(call.request.params.notifications))
        passing = run_inner(call, mount, self.method, Raw(encode(given)), cast("Channel", channel))
        serving = asyncio.create_task(passing)
        held.append((serving, channel))
        await asyncio.wait((serving, channel.honoured), timeout=ANSWER_SECONDS, return_when=asyncio.FIRST_COMPLETED)
        return channel if channel.honoured.done() else None


def _inner_uris(mount: Mount, uris: Iterable[str]) -> dict[str, str]:
    """Return the URIs of a filter that are those of a mounted server: the URI there, and the URI in the filter."""
    found = {inner: uri for uri in uris if (inner := mount.renaming.inner_uri(uri)) is not None}
    return {inner: uri for inner, uri in found.items() if inner != uri or reads(mount.server, inner) is not False}


def _union(
    one: types.SubscriptionFilter, other: types.SubscriptionFilter, renamed: dict[str, str]
) -> types.SubscriptionFilter:
    """Return what either filter has; the URIs of the second are those of a mounted server."""
    entries, added = msgspec.to_builtins(one), msgspec.to_builtins(other)
    for name, value in added.items():
        if isinstance(value, list):
            known = [renamed.get(subject, subject) for subject in value] if name == "resourceSubscriptions" else value
            entries[name] = [*entries.get(name, []), *known] if entries.get(name) is not True else True
        else:
            entries[name] = value or entries.get(name)
    return msgspec.convert(entries, type(one))
