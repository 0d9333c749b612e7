"""What a server gives to its store is encrypted, and bound to the place for which it was made."""

import os

import pytest

from dragoman.protocol.tokens import KeyRing
from dragoman.stores import Memory
from dragoman.stores.sealed import SealedStore, digest
from dragoman.testing import check_store

KEY, OTHER_KEY = os.urandom(32), os.urandom(32)


@pytest.fixture
def engine() -> Memory:
    return Memory()


@pytest.fixture
def store(engine) -> SealedStore:
    return SealedStore(engine, KeyRing(KEY))


async def test_a_sealed_store_is_a_store(store):
    await check_store(lambda: store, ttl=0.05)
    assert repr(store).startswith("<Sealed <Memory store")
    assert store.reach == "process"


async def test_a_value_that_is_copied_to_another_place_counts_as_absent(store, engine, caplog):
    state, other = store.state("one"), store.state("other")
    await state.set("key", b"value")
    stolen = await engine.state(digest("one")).get(digest("key"))
    assert b"value" not in stolen.value
    await engine.state(digest("one")).set(digest("another key"), stolen.value)
    await engine.state(digest("other")).set(digest("key"), stolen.value)
    assert await state.get("another key") is None
    assert await other.get("key") is None
    assert caplog.text.count("was not made with the keys of this server") == 2
    assert (await state.get("key")).value == b"value"


async def test_a_value_of_another_key_ring_counts_as_absent(store, engine):
    log, tasks = store.log("stream"), store.tasks("tasks")
    log.append(1, b"event")
    task = await tasks.create("id", b"value", owner="ann")
    stranger = SealedStore(engine, KeyRing(OTHER_KEY))
    assert await stranger.log("stream").after(0) == []
    assert await stranger.tasks("tasks").get("id") is None
    assert await stranger.tasks("tasks").list("ann") == []
    assert await log.after(0) == [(1, b"event")]
    assert await tasks.get("id") == task


async def test_an_event_and_a_task_open_only_in_their_own_place(store, engine):
    engine.log(digest("one")).append(1, b"no ciphertext")
    assert await store.log("one").after(0) == []
    await store.tasks("tasks").create("id", b"value", owner="ann")
    found = await engine.tasks(digest("tasks")).get("id")
    await engine.tasks(digest("tasks")).create("copy", found.value, owner=digest("ann"))
    assert await store.tasks("tasks").get("copy") is None
    assert [task.id for task in await store.tasks("tasks").list("ann")] == ["id"]


class Network(Memory):
    """A store that reaches other machines: two buses that hear each other, and what travels between them."""

    reach = "network"

    def __init__(self):
        super().__init__()
        self.travelled: list[bytes] = []
        self.members: list = []

    def bus(self, group):
        return Wire(self)


class Wire:
    """A bus of the network."""

    name = "wire"

    def __init__(self, network):
        self.network = network

    async def open(self, receive):
        self.network.members.append((self, receive))

    async def publish(self, message, to=None):
        self.network.travelled.append(message)
        replies = [receive(message) for bus, receive in self.network.members if bus is not self]
        self.network.travelled.extend(replies)
        return replies

    async def close(self):
        self.network.members = [(bus, receive) for bus, receive in self.network.members if bus is not self]


async def test_messages_between_machines_are_encrypted_and_strangers_get_no_answer():
    network = Network()
    one, other = (SealedStore(network, KeyRing(KEY)).bus("group") for _ in range(2))
    stranger = SealedStore(network, KeyRing(OTHER_KEY)).bus("group")
    await one.open(lambda message: b"reply to " + message)
    heard: list[bytes] = []
    await stranger.open(lambda message: heard.append(message) or b"")
    assert await other.publish(b"secret") == [b"reply to secret"]
    assert not heard
    assert not any(b"secret" in message for message in network.travelled)
    assert one.name == "wire"
    await one.close()
    await stranger.close()
    assert await other.publish(b"secret") == []


async def test_messages_within_a_machine_travel_as_they_are(store, engine):
    assert type(store.bus("group")) is type(engine.bus("group"))


async def test_a_rotated_key_ring_reads_what_was_written_before(store, engine):
    await store.state("carts").set("ann", b"apples")
    rotated = SealedStore(engine, KeyRing(OTHER_KEY, KEY))
    assert (await rotated.state("carts").get("ann")).value == b"apples"
    await rotated.state("carts").set("ann", b"pears")
    assert await store.state("carts").get("ann") is None


async def test_namespaces_and_keys_cannot_trade_characters(store, engine):
    await store.state("a").set("b c", b"apples")
    stolen = await engine.state(digest("a")).get(digest("b c"))
    await engine.state(digest("a b")).set(digest("c"), stolen.value)
    assert await store.state("a b").get("c") is None
