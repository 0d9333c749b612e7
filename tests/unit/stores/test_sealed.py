"""What a server gives to its store is encrypted, and bound to the place for which it was made."""

import asyncio
import os
from contextlib import aclosing

import pytest

from dragoman.errors import StoreUnreadable
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


async def test_value_copied_to_another_place_is_unreadable(store, engine, caplog):
    state, other = store.state("one"), store.state("other")
    await state.set("key", b"value")
    stolen = await engine.state(digest("one")).get(digest("key"))
    assert b"value" not in stolen.value
    await engine.state(digest("one")).set(digest("another key"), stolen.value)
    await engine.state(digest("other")).set(digest("key"), stolen.value)
    for values, key in ((state, "another key"), (other, "key")):
        with pytest.raises(StoreUnreadable, match="written with another secret"):
            await values.get(key)
    assert caplog.text.count("cannot decrypt") == 1
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
    found = await engine.tasks(digest("tasks")).get(digest("id"))
    copied = {"owner": digest("ann"), "summary": found.summary}
    await engine.tasks(digest("tasks")).create(digest("copy"), found.value, **copied)
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
    with pytest.raises(StoreUnreadable):
        await store.state("carts").get("ann")


async def test_value_of_another_secret_is_never_replaced(store, engine):
    await store.state("carts").set("ann", b"apples")
    stranger = SealedStore(engine, KeyRing(OTHER_KEY)).state("carts")
    for attempt in (stranger.get("ann"), stranger.set("ann", b"pears"), stranger.delete("ann")):
        with pytest.raises(StoreUnreadable, match="it is not replaced"):
            await attempt
    assert await stranger.compare_and_set("ann", b"pears", 0) is None
    assert (await store.state("carts").get("ann")).value == b"apples"
    await stranger.set("ben", b"pears")
    assert (await stranger.get("ben")).value == b"pears"


async def test_concurrent_sets_of_one_key_all_succeed(store):
    state = store.state("carts")
    revisions = await asyncio.gather(*(state.set("ann", b"%d" % number) for number in range(30)))
    assert len(set(revisions)) == 30


async def test_engine_never_sees_the_id_of_a_task(store, engine):
    tasks = store.tasks("tasks")
    made = await tasks.create("secret-id", b"value", owner="ann", summary=b"shown", lease=30)
    kept = engine._tables[digest("tasks")]._tasks
    assert "secret-id" not in repr(kept)
    (stored_id,) = kept
    assert await tasks.get(stored_id) is None
    assert await tasks.list("ann", after=stored_id) == []
    assert [(task.id, task.summary) for task in await tasks.list("ann")] == [("secret-id", b"shown")]
    assert await tasks.release(made.id, made.token)
    claim = await tasks.claim(30)
    assert (claim.id, claim.value, claim.summary) == ("secret-id", b"value", b"shown")
    assert await tasks.renew("secret-id", claim.token, 30)
    async with aclosing(tasks.watch("secret-id")) as changes:
        await anext(changes)
        await tasks.finish("secret-id", b"done", token=claim.token, summary=b"end")
        await asyncio.wait_for(anext(changes), 5)
    done = await tasks.get("secret-id")
    assert (done.value, done.summary, done.phase) == (b"done", b"end", "finished")


async def test_claim_of_a_foreign_task_can_be_given_back(store, engine):
    await store.tasks("tasks").create("id", b"value", owner="ann")
    stranger = SealedStore(engine, KeyRing(OTHER_KEY)).tasks("tasks")
    claim = await stranger.claim(30)
    assert (claim.value, claim.summary) == (b"", b"")
    assert await stranger.get(str(claim.id)) is None
    assert await stranger.renew(claim.id, claim.token, 30)
    assert not await stranger.release(str(claim.id), claim.token), "a client must not be able to name a stored id"
    assert await stranger.release(claim.id, claim.token)
    assert (await store.tasks("tasks").claim(30)).id == "id"


async def test_namespaces_and_keys_cannot_trade_characters(store, engine):
    await store.state("a").set("b c", b"apples")
    stolen = await engine.state(digest("a")).get(digest("b c"))
    await engine.state(digest("a b")).set(digest("c"), stolen.value)
    with pytest.raises(StoreUnreadable):
        await store.state("a b").get("c")
