"""`MergedListening`: `subscriptions/listen` of a server that has mounts.

Each server is asked what it honours of the filter, with a channel that keeps its answer (`CapturingChannel`). The
client then has one subscription to all of it. The notifications of a mounted server reach the clients of its parent by
its audience. A server that forwards requests, such as a proxy, acknowledges the filter by a notification of its own and
listens to its target for as long as the client listens; what it notifies meanwhile is passed on.
"""

from __future__ import annotations

import asyncio
from asyncio import FIRST_COMPLETED
from collections import deque
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, cast

import msgspec
from msgspec import Raw

from dragoman import types
from dragoman.forward.messages import raw_object
from dragoman.forward.mount.delegation import run_mounted
from dragoman.forward.mount.merged_handlers import MergedHandler, resolve
from dragoman.forward.mount.mount import Mount, is_open, reads
from dragoman.protocol.jsonrpc import encode
from dragoman.protocol.subscriptions import ACKNOWLEDGED, CORE_FIELDS, MAX_WAITING, Subscription
from dragoman.runtime.tasks import cancel_and_wait
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


class MergedListening(MergedHandler):
    """The handler of `subscriptions/listen`."""

    async def __call__(self, server: Dispatcher, call: Call) -> Any:
        """Serve a subscription until the client cancels it or the connection ends."""
        wanted = call.request.params.notifications
        uris = wanted.resource_subscriptions or []
        routes = {mount: _inner_uris(mount, uris) for mount in self.offering(call)}
        mounted_uris = {outer for inner in routes.values() for outer in inner.values()}
        listening: dict[asyncio.Task[Any], CapturingChannel] = {}
        try:
            own = CapturingChannel(call.channel, type(wanted))
            await self._listen_here(server, call, own, [uri for uri in uris if uri not in mounted_uris])
            honoured, hidden = own.honoured.result(), own.hidden
            for mount, inner in routes.items():
                if not inner and self._notifies_by_audience(mount, wanted):
                    continue
                channel = CapturingChannel(call.channel, type(wanted))
                task = asyncio.create_task(self._listen_there(call, mount, channel, list(inner)))
                listening[task] = channel
                await asyncio.wait((task, channel.honoured), timeout=ANSWER_SECONDS, return_when=FIRST_COMPLETED)
                if channel.honoured.done():
                    honoured = _union(honoured, channel.honoured.result(), inner)
                    hidden |= {inner[uri] for uri in channel.hidden}
            subscription = Subscription(call.request.id, honoured, server.offer.table.subscription_fields(), hidden)
            for channel in listening.values():
                # The first step of `listen` sends the acknowledgement, which MUST be the first message (2026-07-28).
                asyncio.get_running_loop().call_soon(channel.release)
            await call.channel.listen(subscription)
            return subscription.result()
        finally:
            for task in listening:
                await cancel_and_wait(task)

    def _notifies_by_audience(self, mount: Mount, wanted: types.SubscriptionFilter) -> bool:
        """Tell whether a mounted server notifies every client of what a filter without URIs asks for."""
        return not is_open(mount.server, self.method) and msgspec.to_builtins(wanted).keys() <= _CORE_WIRE_NAMES

    async def _listen_here(self, server: Dispatcher, call: Call, channel: CapturingChannel, uris: list[str]) -> None:
        """Let a server say what it honours without its mounts."""
        assert self.own is not None
        rows = () if server.installed is None else server.installed.rows
        known = _CORE_NAMES | {field.name for row in rows for field in row.subscriptions}
        wanted = call.request.params.notifications
        foreign = dict.fromkeys(set(wanted.__struct_fields__) - known)
        wanted = msgspec.structs.replace(wanted, resource_subscriptions=uris or None, **foreign)
        params = msgspec.structs.replace(call.request.params, notifications=wanted)
        request = msgspec.structs.replace(call.request, params=params)
        await resolve(self.own(server, msgspec.structs.replace(call, request=request, channel=channel)))

    async def _listen_there(self, call: Call, mount: Mount, channel: CapturingChannel, uris: list[str]) -> None:
        """Let a mounted server listen for as long as the client does."""
        wanted = msgspec.structs.replace(call.request.params.notifications, resource_subscriptions=uris or None)
        params = {**raw_object(call.request.raw_params), "notifications": wanted}
        await run_mounted(call, mount, Raw(encode(params)), channel=cast("Channel", channel))


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
