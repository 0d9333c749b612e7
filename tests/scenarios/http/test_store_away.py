"""A store that is away: sessions go on, what needs the store says so, and nothing hangs."""

import asyncio
from typing import Any

import pytest

from dragoman import Context
from dragoman.errors import StoreUnavailable
from dragoman.server.http import resumption
from dragoman.server.http.service import HttpService
from dragoman.server.http.sessions import SessionRegistry
from dragoman.server.http.workers import Workers
from dragoman.stores import Memory
from dragoman.transports.http.asgi import AsgiApp
from scenarios.http_crew import until
from scenarios.http_peer import BRISK, STATELESS, HttpPeer, live
from scenarios.http_travels import Gate, text, travels


class Fickle(Memory):
    """A store that processes share, and that is away when the test wants that."""

    reach: Any = "machine"

    def __init__(self) -> None:
        super().__init__()
        self.is_away = False
        self.members: dict[str, Any] = {}
        self.used = 0

    def require(self) -> None:
        self.used += 1
        if self.is_away:
            raise StoreUnavailable("nobody is there")

    def bus(self, group: str) -> Any:
        return FickleBus(self, super().bus(group).name)

    def log(self, stream: str) -> Any:
        return Guarded(self, super().log(stream))

    def state(self, namespace: str, **options: Any) -> Any:
        return Guarded(self, super().state(namespace, **options))


class Guarded:
    """A part of a store, whose methods fail while the store is away."""

    def __init__(self, store: Fickle, part: Any) -> None:
        self._store = store
        self._part = part

    def append(self, sequence: int, event: bytes) -> None:
        if not self._store.is_away:
            self._part.append(sequence, event)

    def __getattr__(self, name: str) -> Any:
        async def call(*args: Any, **options: Any) -> Any:
            self._store.require()
            return await getattr(self._part, name)(*args, **options)

        return call


class FickleBus:
    def __init__(self, store: Fickle, name: str) -> None:
        self.name = name
        self._store = store

    async def open(self, receive: Any) -> None:
        self._store.members[self.name] = receive
        self._store.require()

    async def publish(self, message: bytes, to: str | None = None) -> list[bytes]:
        self._store.require()
        others = [receive for name, receive in self._store.members.items() if name != self.name and to in (None, name)]
        return [receive(message) for receive in others]

    async def close(self) -> None:
        self._store.members.pop(self.name, None)


class Harbour:
    """Two workers with a fickle store."""

    def __init__(self, gate: Gate | None = None) -> None:
        self.store = Fickle()
        self.servers = [travels(gate, store=self.store) for _ in range(2)]
        self.apps = [self._app(number) for number in range(2)]

    def _app(self, number: int) -> AsgiApp:
        server = self.servers[number]

        @server.tool
        async def remember(ctx: Context) -> int:
            return await ctx.session_state.update("n", lambda n: (n or 0) + 1)

        workers = Workers(server.dispatcher, joins=True)
        return AsgiApp(
            HttpService(
                server.dispatcher, workers=workers, sessions=SessionRegistry(server.dispatcher, workers=workers)
            ),
            pace=BRISK,
        )

    async def begin(self) -> HttpPeer:
        peer = HttpPeer(self.apps[0])
        await peer.initialize()
        return peer

    def at(self, peer: HttpPeer, number: int) -> HttpPeer:
        peer.app = self.apps[number]
        return peer

    async def close(self) -> None:
        for app in self.apps:
            await live(app)


@pytest.mark.covers("WRK-13")
async def test_sessions_are_begun_and_taken_up_while_the_store_is_away(caplog):
    harbour = Harbour()
    harbour.store.is_away = True
    peer = await harbour.begin()
    for number in (0, 1, 0):
        assert text(await harbour.at(peer, number).call("add", {"a": 1, "b": 1}).end()) == "2"
        assert (await harbour.at(peer, number).request("logging/setLevel", {"level": "error"})).status == 200
    stream = await peer.listen()
    harbour.servers[0].log("error", "here")
    await stream.events(1)
    stream.leave()
    await stream.end()
    warnings = [record.getMessage() for record in caplog.records]
    assert len(warnings) == 2, "one for each worker"
    assert warnings[0].startswith("The store is away (nobody is there): until it is back, sessions go on")
    await harbour.close()


@pytest.mark.covers("WRK-13")
async def test_the_workers_hear_of_each_other_when_the_store_is_back():
    harbour = Harbour()
    harbour.store.is_away = True
    peer = await harbour.begin()
    assert (await harbour.at(peer, 1).request("ping")).status == 200
    harbour.store.is_away = False
    stream = await harbour.at(peer, 1).listen()
    await harbour.at(peer, 0).request("logging/setLevel", {"level": "error"})
    harbour.servers[0].log("error", "from the other")
    await stream.events(1)
    stream.leave()
    await stream.end()
    await harbour.close()


@pytest.mark.covers("WRK-13", "WRK-04")
async def test_an_end_that_the_store_cannot_record_is_503_and_the_session_has_ended_here():
    harbour = Harbour()
    peer = await harbour.begin()
    harbour.store.is_away = True
    ended = await peer.send("DELETE").end()
    assert (ended.status, ended.json["error"]["code"]) == (503, -32603)
    assert ended.json["error"]["message"] == (
        "The session has ended here, but the store could not record it: another process may still serve it"
    )
    assert (await peer.request("ping")).status == 404
    harbour.store.is_away = False
    other = await harbour.begin()
    assert (await other.send("DELETE").end()).status == 200
    assert (await harbour.at(other, 1).request("ping")).status == 404
    await harbour.close()


async def began(harbour: Harbour) -> tuple[HttpPeer, str]:
    """Begin a call whose client leaves; return the client, and the id of the event that it received."""
    peer = await harbour.begin()
    exchange = peer.call("steps", token="t", id="call")
    (first,) = await exchange.events(1)
    exchange.leave()
    await exchange.end()
    assert (await harbour.at(peer, 1).request("ping")).status == 200
    return peer, first.id


@pytest.mark.covers("WRK-13", "WRK-07")
async def test_who_resumes_a_stream_of_another_worker_waits_until_the_store_is_back():
    gate = Gate()
    harbour = Harbour(gate)
    peer, cursor = await began(harbour)
    harbour.store.is_away = True
    used = harbour.store.used
    waiting = harbour.at(peer, 1).send("GET", headers={"last-event-id": cursor})
    await until(lambda: harbour.store.used > used + 1)
    harbour.store.is_away = False
    gate.opened.set()
    assert text(await waiting.end()) == "there"
    await harbour.close()


@pytest.mark.covers("WRK-13", "WRK-07")
async def test_a_stream_of_another_worker_ends_with_an_error_if_the_store_stays_away(monkeypatch):
    monkeypatch.setattr(resumption, "STORE_SECONDS", 0.1)
    gate = Gate()
    harbour = Harbour(gate)
    peer, cursor = await began(harbour)
    harbour.store.is_away = True
    refused = await harbour.at(peer, 1).send("GET", headers={"last-event-id": cursor}).end()
    (event,) = refused.said
    assert refused.all_events[0].id == cursor
    assert (refused.status, event["id"], event["error"]["message"]) == (200, "call", resumption.STORE_AWAY)
    home = await harbour.at(peer, 0).listen(last_event_id=cursor)
    gate.opened.set()
    assert text(await home.end()) == "there"
    await harbour.close()


@pytest.mark.covers("WRK-13", "STA-05")
async def test_a_handler_that_needs_the_store_fails_with_a_reason_that_its_client_reads(caplog):
    harbour = Harbour()
    peer = await harbour.begin()
    assert text(await peer.call("remember").end()) == "1"
    harbour.store.is_away = True
    failed = (await peer.call("remember").end()).json["result"]
    assert failed["isError"] is True
    assert failed["content"][0]["text"] == "The store of this server cannot be reached; try again later"
    assert "nobody is there" in caplog.text
    harbour.store.is_away = False
    assert text(await harbour.at(peer, 1).call("remember").end()) == "2"
    await harbour.close()


@pytest.mark.covers("WRK-13")
async def test_calls_in_either_era_do_not_use_the_store():
    harbour = Harbour()
    peer, modern = await harbour.begin(), HttpPeer(harbour.apps[0], STATELESS)
    used = harbour.store.used
    for client in (peer, modern):
        for _ in range(3):
            assert text(await client.call("add", {"a": 1, "b": 1}).end()) == "2"
    await asyncio.sleep(0)
    assert harbour.store.used == used
    await harbour.close()
