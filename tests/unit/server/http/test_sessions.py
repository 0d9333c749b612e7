"""The sessions of a server: which are kept, expire, or are evicted when there are too many."""

import asyncio
import gc

import pytest

from dragoman import Server
from dragoman.protocol.eras import Caller
from dragoman.protocol.versions import LATEST_HANDSHAKE
from dragoman.server.http import sessions as module
from dragoman.server.http.refusal import HttpRefusal
from dragoman.server.http.session import LiveSession, SessionData
from dragoman.server.http.sessions import BUSY_SECONDS, SessionRegistry
from dragoman.server.request.http_request import holder_name
from dragoman.types import Implementation
from scenarios.http_peer import SECRET, scenario


class House:
    """Sessions of clients at addresses, with a clock."""

    def __init__(self, most: int = 10, idle_timeout: float | None = None) -> None:
        self.now = 0.0
        self.looked: list[str] = []
        self.server = Server(secret=SECRET)
        self.sessions = SessionRegistry(
            self.server.dispatcher, max_sessions=most, idle_timeout=idle_timeout, clock=lambda: self.now
        )

    def begin(self, address: str = "1.1.1.1", principal: str | None = None) -> str:
        self.now += 1
        return self.sessions.begin(SessionData(Caller(LATEST_HANDSHAKE), principal=principal), address)

    async def use(self, *ids: str) -> None:
        for id in ids:
            self.now += 1
            await self.sessions.find(id)

    async def occupy(self, id: str) -> None:
        """Let a session be busy from now on."""
        house = self

        class Busy(LiveSession):
            @property
            def is_busy(self) -> bool:
                house.looked.append(self.data.id)
                return True

        (await self.sessions.find(id)).__class__ = Busy

    def has(self, *ids: str) -> list[bool]:
        return [id in self.sessions._local for id in ids]


@scenario
async def test_of_a_client_that_says_much_of_itself_that_is_kept_which_the_id_carries():
    sessions = SessionRegistry(Server(secret=SECRET).dispatcher)
    kept = []
    for size in (100, 5000):
        info = Implementation("client", "1", title="x" * size)
        id = sessions.begin(SessionData(Caller(LATEST_HANDSHAKE, info=info), principal="ann"))
        kept.append((await sessions.find(id, "ann")).data.caller.info)
    assert kept == [Implementation("client", "1", title="x" * 100), Implementation("client", "1")]


@scenario
async def test_a_session_that_works_while_it_is_idle_for_long_is_looked_at_once():
    house = House(idle_timeout=100)
    ids = [house.begin() for _ in range(3)]
    for id in ids[:2]:
        await house.occupy(id)
    house.now += 100
    for _ in range(2):
        house.sessions._expire(house.now)
    assert house.looked == list(house.sessions._local) == ids[:2]
    house.now += 100
    house.sessions._expire(house.now)
    assert len(house.looked) == 4


def test_a_notification_after_the_loop_has_ended_reaches_nobody():
    house = House()

    async def begin() -> None:
        (await house.sessions.find(house.begin())).open_standalone()

    asyncio.run(begin())
    house.server.notify_tools_list_changed()
    gc.collect()
    assert len(house.server.notifier.members()) == 1


@scenario
async def test_sessions_that_were_never_used_are_evicted_first_and_then_the_least_recently_used():
    house = House(most=4)
    first, second, third, fourth = (house.begin() for _ in range(4))
    await house.use(third, first)
    new = [house.begin()]
    assert house.has(first, second, third, fourth) == [True, False, True, True]
    new.append(house.begin())
    assert house.has(first, third, fourth) == [True, True, False]
    await house.use(*new)
    house.begin()
    assert house.has(first, third, *new) == [True, False, True, True]


@scenario
async def test_one_who_opens_thousands_loses_only_its_own():
    house = House(most=1000)
    others = [house.begin(f"2.2.2.{number}") for number in range(10)]
    await house.use(*others)
    unused = house.begin("3.3.3.3")
    for _ in range(3000):
        await house.use(house.begin())
    assert all(house.has(unused, *others))
    newcomers = [house.begin(f"4.4.4.{number}") for number in range(100)]
    assert all(house.has(unused, *others, *newcomers))
    assert len(house.sessions._local) == 1000


@scenario
async def test_one_who_opens_thousands_takes_few_from_a_full_house():
    house = House(most=1000)
    others = [house.begin(f"2.2.{number // 250}.{number % 250}") for number in range(1000)]
    await house.use(*others)
    for _ in range(3000):
        await house.use(house.begin())
    assert sum(house.has(*others)) == 1000 - 11


@scenario
async def test_a_principal_counts_whatever_its_addresses():
    house = House(most=100)
    other = house.begin("1.1.1.1", principal="bob")
    for number in range(300):
        house.begin(f"1.1.1.{number % 250}", principal="ann")
    assert house.has(other) == [True]


@scenario
async def test_a_holder_whose_sessions_are_all_in_use_takes_one_that_is_idle():
    house = House(most=3)
    busy = [house.begin(), house.begin()]
    for id in busy:
        await house.occupy(id)
    idle = house.begin("2.2.2.2")
    new = house.begin()
    assert house.has(*busy, idle, new) == [True, True, False, True]


@scenario
async def test_when_all_are_in_use_they_are_looked_at_once_a_second():
    house = House(most=50)
    for _ in range(50):
        await house.occupy(house.begin())
    for _ in range(3):
        with pytest.raises(HttpRefusal, match="too many sessions"):
            house.sessions.begin(SessionData(Caller(LATEST_HANDSHAKE)))
    assert len(house.looked) <= 2 * 50
    house.now += BUSY_SECONDS
    with pytest.raises(HttpRefusal):
        house.sessions.begin(SessionData(Caller(LATEST_HANDSHAKE)))
    assert len(house.looked) <= 4 * 50
    await house.sessions.end(next(iter(house.sessions._local)))
    house.begin()


@scenario
async def test_when_all_of_one_holder_are_in_use_they_are_looked_at_once_a_second_though_others_are_idle():
    house = House(most=100)
    for _ in range(50):
        await house.occupy(house.begin())
    for number in range(50):
        house.begin(f"2.2.2.{number}")
    house.looked.clear()
    for number in range(20):
        house.sessions.begin(SessionData(Caller(LATEST_HANDSHAKE)), f"3.3.3.{number}")
    assert len(house.looked) <= 3 * 50


@scenario
async def test_what_is_evicted_of_sessions_is_bounded(monkeypatch):
    monkeypatch.setattr(module, "MAX_EVICTED", 2)
    house = House(most=1)
    ids = []
    for number in range(4):
        ids.append(house.begin())
        data = (await house.sessions.find(ids[-1])).data
        data.set_level("error")
        data.subscribe("file:///" + "a" * (module.MAX_EVICTED_CHARACTERS * (number % 2)))
    aside = house.sessions._evicted
    assert list(aside) == ids[1:3]
    assert [(len(data.subscribed), data.log_level) for data in aside.values()] == [(0, "error"), (1, "error")]
    again = await house.sessions.find(ids[2])
    assert again.data.subscribed == {"file:///"}
    assert list(aside) == ids[3:]


@pytest.mark.parametrize("is_evicted", [False, True])
@scenario
async def test_a_session_that_was_ended_is_not_adopted_again(is_evicted):
    house = House(most=1)
    id = house.begin()
    await house.use(id)
    if is_evicted:
        house.begin()
    await house.sessions.end(id)
    with pytest.raises(HttpRefusal) as refused:
        await house.sessions.find(id)
    assert refused.value.status == 404


def test_a_network_of_ipv6_is_one_holder_and_an_address_of_ipv4_is_one_however_it_is_written():
    assert holder_name(None, "2001:db8:1:2::1") == holder_name(None, "2001:db8:1:2:ffff::7%eth0")
    assert holder_name(None, "2001:db8:1:2::1") != holder_name(None, "2001:db8:1:3::1")
    assert holder_name(None, "::ffff:10.0.0.1") == holder_name(None, "10.0.0.1") != holder_name(None, "10.0.0.2")
    assert holder_name("10.0.0.1", "10.0.0.2") != holder_name(None, "10.0.0.1")
    assert holder_name(None, None) == holder_name(None, None)
