"""`MergedListening`: `subscriptions/listen` of a server that has mounts.

Each server is asked what it honours of the filter, with a channel that keeps its answer (`CapturingChannel`). The
client then has one subscription to all of it. The notifications of a mounted server reach the clients of its parent by
its audience. A server that forwards requests, such as a proxy, acknowledges the filter by a notification of its own and
listens to its target for as long as the client listens; what it notifies meanwhile is passed on. If its target is away,
or goes away, it is asked again until the target is back; then every list that the client listens to may have changed.
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
from dragoman.errors import DragomanError, RpcError
from dragoman.forward.messages import UNREACHABLE, raw_object
from dragoman.forward.mount.delegation import run_mounted
from dragoman.forward.mount.merged_handlers import MergedHandler, resolve
from dragoman.forward.mount.mount import Mount, is_open, reads
from dragoman.protocol.jsonrpc import encode
from dragoman.protocol.subscriptions import ACKNOWLEDGED, CORE_FIELDS, MAX_WAITING, Subscription
from dragoman.runtime.backoff import backoff
from dragoman.runtime.tasks import cancel_and_wait, is_being_cancelled
from dragoman.server.request.call import Call, Channel

if TYPE_CHECKING:
    from dragoman.server.dispatch.dispatcher import Dispatcher

ANSWER_SECONDS = 10.0
"""How long a server has to say what it honours."""
FIRST_PAUSE, LONGEST_PAUSE = 0.05, 30.0
"""The seconds before a server is asked again whose target is away."""
_CORE_NAMES = frozenset(field.name for field in CORE_FIELDS)
_WIRE_NAMES = {field.name: field.encode_name for field in msgspec.structs.fields(types.SubscriptionFilter)}
_CORE_WIRE_NAMES = frozenset(_WIRE_NAMES.values())


class CapturingChannel:
    """A channel that keeps what a server honours of a filter, instead of serving the subscription."""

    def __init__(self, channel: Channel, filter_type: type[types.SubscriptionFilter]) -> None:
        self._channel = channel
        self._filter_type = filter_type
        self.honoured: asyncio.Future[types.SubscriptionFilter] = asyncio.get_running_loop().create_future()
        self.hidden: frozenset[str] = frozenset()
        """The URIs that the server acknowledges but never notifies."""
        self._was_away = False
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
            if self._was_away:
                self._was_away = False
                self._announce_lists(params)
        elif self._early is not None:
            self._early.append((method, params))
        else:
            self._channel.notify(method, params)

    def mark_away(self) -> None:
        """Record that the server cannot listen now: the client must hear of its lists once it can."""
        self._was_away = True
        if not self.honoured.done():
            self.honoured.set_result(self._filter_type())

    def _announce_lists(self, acknowledged: Any) -> None:
        members = raw_object(encode(acknowledged))
        honoured = raw_object(members["notifications"])
        for field in CORE_FIELDS:
            if honoured.get(_WIRE_NAMES.get(field.name, "")) == Raw(b"true"):
                self.notify(field.method, {"_meta": members["_meta"]})

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
        answers: list[tuple[dict[str, str], CapturingChannel, asyncio.Task[Any]]] = []
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
                answers.append((inner, channel, task))
            deadline = asyncio.get_running_loop().time() + ANSWER_SECONDS
            for inner, channel, task in answers:
                wait = max(0.0, deadline - asyncio.get_running_loop().time())
                await asyncio.wait((task, channel.honoured), timeout=wait, return_when=FIRST_COMPLETED)
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
                task.cancel()  # each, before this task is cancelled again
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
        """Let a mounted server listen for as long as the client does, and again if its target comes back."""
        wanted = msgspec.structs.replace(call.request.params.notifications, resource_subscriptions=uris or None)
        params = {**raw_object(call.request.raw_params), "notifications": wanted}
        loop, attempt = asyncio.get_running_loop(), 0
        while not is_being_cancelled() and _is_serving(mount.server, call):
            began = loop.time()
            try:
                await run_mounted(call, mount, Raw(encode(params)), channel=cast("Channel", channel))
            except RpcError as error:
                if error.code != UNREACHABLE:
                    raise
            if not is_open(mount.server, self.method):
                return
            channel.mark_away()
            attempt = 0 if loop.time() - began > LONGEST_PAUSE else attempt + 1
            await asyncio.sleep(backoff(attempt, FIRST_PAUSE, LONGEST_PAUSE))


def _is_serving(server: Dispatcher, call: Call) -> bool:
    """Tell whether a server can still serve the client of a call."""
    try:
        server.lifespan_values(call.loop)
    except DragomanError:
        return False
    return not call.session.has_ended


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
