"""How a process joins those that serve the same server, and what it takes from them."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from dragoman import Server
from dragoman.protocol.eras import Caller
from dragoman.protocol.jsonrpc import encode
from dragoman.protocol.versions import find_version
from dragoman.server.http.refusal import HttpRefusal
from dragoman.server.http.session import SessionData
from dragoman.server.http.sessions import SessionRegistry
from dragoman.server.http.workers import (
    ChangeAnnounced,
    SessionEnded,
    SessionState,
    SessionStateChanged,
    SessionStateRequested,
    Workers,
)
from dragoman.stores import Local, Memory, Store
from dragoman.stores.memory import MemoryBus
from scenarios.http_peer import DEADLINE, SECRET, scenario

NEWEST = find_version("2025-11-25")


class Counted(Memory):
    """A store whose buses open as slowly as the test wants, and are counted."""

    def __init__(self) -> None:
        super().__init__()
        self.groups: list[str] = []
        self.closed = 0
        self.may_open = asyncio.Event()
        self.may_open.set()

    def bus(self, group: str) -> Any:
        self.groups.append(group)
        return CountedBus(self)


class CountedBus(MemoryBus):
    def __init__(self, store: Counted) -> None:
        super().__init__()
        self._store = store

    async def open(self, receive: Callable[[bytes], bytes]) -> None:
        await asyncio.wait_for(self._store.may_open.wait(), DEADLINE)

    async def close(self) -> None:
        self._store.closed += 1


class Ear:
    """Somebody who is told of changes."""

    def __init__(self) -> None:
        self.heard: list[Any] = []

    def notify_change(self, method: str, subject: str | None = None, params: Any = None) -> None:
        self.heard.append((method, subject) if params is None else (method, subject, params))

    def log(self, level: str, data: Any, logger: str | None) -> None:
        self.heard.append((level, data, logger))


def sums(name: str = "sums", secret: str = SECRET, store: Store | None = None) -> Server:
    return Server(name, secret=secret, store=store)


@scenario
async def test_a_process_joins_once_however_many_requests_come_first():
    store = Counted()
    workers = Workers(sums(store=store), joins=True)
    store.may_open.clear()
    joining = [asyncio.create_task(workers.join()) for _ in range(5)]
    await asyncio.sleep(0)
    store.may_open.set()
    await asyncio.gather(*joining)
    assert len(store.groups) == 1
    assert not workers.needs_to_join(asyncio.get_running_loop())
    await workers.close()


@scenario
async def test_whoever_has_left_does_not_join_again_in_the_same_loop():
    store = Counted()
    server = sums(store=store)
    workers = Workers(server.dispatcher, joins=True)
    await workers.join()
    await workers.close()
    assert not workers.needs_to_join(asyncio.get_running_loop())
    await workers.join()
    workers.send(ChangeAnnounced("method", None))
    assert (len(store.groups), store.closed) == (1, 1)
    assert not server.notifier.members()


@scenario
async def test_leaving_while_joining_leaves_what_was_joined():
    store = Counted()
    workers = Workers(sums(store=store), joins=True)
    store.may_open.clear()
    joining = asyncio.create_task(workers.join())
    await asyncio.sleep(0)
    leaving = asyncio.create_task(workers.close())
    await asyncio.sleep(0)
    store.may_open.set()
    await asyncio.gather(joining, leaving)
    assert store.closed == 1


def test_an_application_that_is_used_in_one_loop_after_another_joins_in_each():
    store = Counted()
    workers = Workers(sums(store=store), joins=True)

    async def use() -> None:
        assert workers.needs_to_join(asyncio.get_running_loop())
        await workers.join()
        await workers.close()

    asyncio.run(use())
    asyncio.run(use())
    assert len(store.groups) == 2


def test_leaving_in_another_loop_than_was_joined_in_is_harmless():
    store = Counted()
    server = sums(store=store)
    workers = Workers(server.dispatcher, joins=True)
    asyncio.run(workers.join())
    asyncio.run(workers.close())
    assert store.closed == 1, "left when its loop ended"
    assert not server.notifier.members()


@scenario
async def test_without_a_store_there_is_nobody_to_join():
    workers = Workers(sums())
    assert not workers.needs_to_join(asyncio.get_running_loop())
    workers.send(ChangeAnnounced("method", None))
    workers.notify_change("method")
    assert await workers.share(ChangeAnnounced("method", None)) == []
    await workers.close()


@pytest.mark.covers("WRK-01")
@scenario
async def test_only_equal_servers_at_the_same_path_in_the_same_folder_with_the_same_key_are_one_group(
    tmp_path, monkeypatch
):
    groups = [Workers(sums(), path="/mcp")._group() for _ in range(2)]
    assert groups[0] == groups[1]
    groups.append(Workers(sums("other"))._group())
    groups.append(Workers(sums(), path="/other")._group())
    groups.append(Workers(sums(secret="another secret, also long enough"))._group())
    monkeypatch.chdir(tmp_path)
    groups.append(Workers(sums())._group())
    assert len(set(groups)) == 5


@pytest.mark.covers("WRK-01")
@scenario
async def test_processes_with_a_store_of_many_machines_need_no_folder_and_machine_in_common(tmp_path, monkeypatch):
    store = Counted()
    store.reach = "network"
    groups = [Workers(sums(store=store), joins=True)._group()]
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("socket.gethostname", lambda: "another machine")
    groups.append(Workers(sums(store=store), joins=True)._group())
    groups.append(Workers(sums("other", store=store), joins=True)._group())
    assert groups[0] == groups[1] != groups[2]


@scenario
async def test_a_folder_that_was_removed_is_no_hindrance(tmp_path, monkeypatch):
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    assert Workers(sums())._group()


@pytest.mark.covers("WRK-05")
@scenario
async def test_changes_and_log_messages_reach_the_listeners_of_every_process_once(tmp_path):
    servers = [sums(store=Local(tmp_path)) for _ in range(3)]
    everybody = [Workers(server.dispatcher, joins=True) for server in servers]
    ears = [Ear() for _ in servers]
    for workers, server, ear in zip(everybody, servers, ears, strict=True):
        await workers.join()
        server.notifier.add(ear)
    servers[0].notify_resource_updated("file:///a")
    await asyncio.to_thread(servers[1].log, "error", {"a": 1}, "here")
    await asyncio.sleep(0)
    for workers in everybody:
        await workers.share(SessionStateRequested("nothing"))
    for ear in ears:
        changed, logged = sorted(ear.heard, key=len)
        assert changed == ("notifications/resources/updated", "file:///a")
        assert (logged[0], encode(logged[1]), logged[2]) == ("error", b'{"a":1}', "here")
    for workers in everybody:
        await workers.close()


@scenario
async def test_a_message_that_is_none_of_ours_is_ignored():
    workers = Workers(sums())
    assert workers._receive(b"\xff\x00") == b""
    assert workers._receive(msgspec.msgpack.encode(SessionStateRequested("nobody takes these"))) == b""


class Adopting:
    """Two processes with the same sessions, of which the second is about to take one up."""

    def __init__(self, folder: Path) -> None:
        servers = [sums(store=Local(folder)) for _ in range(2)]
        self.sessions = [
            SessionRegistry(server.dispatcher, workers=Workers(server.dispatcher, joins=True)) for server in servers
        ]

    async def begin(self) -> str:
        for sessions in self.sessions:
            await sessions.workers.join()
        return self.sessions[0].begin(SessionData(Caller(NEWEST)))

    def interfere(self, act: Callable[[], Any]) -> None:
        """Do something in the second process after the first has replied, and before that is taken in."""
        share = self.sessions[1].workers.share

        async def share_and_act(message: Any) -> list[SessionState]:
            told = await share(message)
            act()
            return told

        self.sessions[1].workers.share = share_and_act  # type: ignore[method-assign]

    async def close(self) -> None:
        for sessions in self.sessions:
            await sessions.close()
            await sessions.workers.close()


@pytest.mark.covers("WRK-03")
@scenario
async def test_a_session_that_ends_while_it_is_taken_up_is_not(tmp_path):
    both = Adopting(tmp_path)
    id = await both.begin()
    both.interfere(lambda: both.sessions[1]._receive(SessionEnded(id)))
    with pytest.raises(HttpRefusal) as refused:
        await both.sessions[1].find(id)
    assert refused.value.status == 404
    await both.close()


@pytest.mark.covers("WRK-03")
@scenario
async def test_what_a_session_comes_to_remember_while_it_is_taken_up_is_not_lost(tmp_path):
    both = Adopting(tmp_path)
    id = await both.begin()
    first = await both.sessions[0].find(id)
    first.data.set_level("debug")
    first.data.subscribe("file:///old")
    changes = [
        SessionStateChanged(id, log_level="error"),
        SessionStateChanged(id, subscribed="file:///new"),
        SessionStateChanged(id, unsubscribed="file:///old"),
    ]
    both.interfere(lambda: [both.sessions[1]._receive(change) for change in changes])
    second = await both.sessions[1].find(id)
    assert (second.data.log_level, second.data.subscribed) == ("error", {"file:///new"})
    assert not both.sessions[1]._changed_while_adopting
    await both.close()


@pytest.mark.covers("WRK-03")
@scenario
async def test_requests_that_come_at_once_take_a_session_up_once(tmp_path):
    both = Adopting(tmp_path)
    id = await both.begin()
    found = await asyncio.gather(*(both.sessions[1].find(id) for _ in range(5)))
    assert len(set(found)) == 1
    await both.close()


async def test_a_message_of_another_release_is_ignored_or_read_as_far_as_it_is_known():
    server, ear = Server(secret=SECRET), Ear()
    server.notifier.add(ear)
    receive = Workers(server.dispatcher)._receive
    newer = msgspec.msgpack.encode([1, "notifications/tools/list_changed", None, None, "a field of a newer release"])
    assert receive(msgspec.msgpack.encode([99, "a kind of a newer release"])) == b""
    assert ear.heard == []
    assert receive(newer) == b""
    assert len(ear.heard) == 1
