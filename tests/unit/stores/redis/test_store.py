"""The store Redis: the contract, its connections, and where they must not be shared."""

import asyncio
import functools
import os
import re
import subprocess
import sys
import threading
import traceback

import pytest

import redis_store
from dragoman.errors import StoreUnavailable
from dragoman.stores import Redis
from dragoman.testing import check_store
from redis_server import RedisServer
from redis_store import fresh, use_everything


async def test_redis_keeps_the_contract_of_stores(redis_server):
    await check_store(
        functools.partial(Redis, redis_server.url), contents=lambda: redis_store.contents(redis_server.port)
    )


def test_redis_serves_the_loops_of_uvloop_too(redis_server):
    uvloop = pytest.importorskip("uvloop")
    store = Redis(redis_server.url)

    async def use() -> None:
        await use_everything(store)
        await store.close()

    uvloop.run(use())


def test_a_missing_package_is_named_with_its_remedy():
    program = """
import sys
sys.modules["hiredis"] = None
from dragoman.errors import ConfigError
from dragoman.stores import Redis
try:
    Redis("redis://localhost")
except ConfigError as error:
    print(error)
"""
    finished = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert finished.stdout == 'The store Redis needs the package hiredis; run: pip install "dragoman[redis]"\n'


def test_a_store_shows_where_it_is_and_no_secret():
    store = Redis("redis://shop:topsecret@redis.example:7000/1")
    assert repr(store) == "<Redis store at redis://redis.example:7000>"


async def test_one_loop_has_few_connections_however_many_operations_run_at_once(redis_server):
    store = Redis(redis_server.url)
    state, tasks, bus = store.state(fresh()), store.tasks(fresh()), store.bus(fresh())
    await bus.open(lambda _: b"")
    await tasks.wait(0)
    await asyncio.gather(*(state.set(f"{number}", b"") for number in range(200)), tasks.wait(0.01))
    assert redis_store.connections(redis_server, os.getpid()) == 3
    await store.close()
    await redis_store.until(lambda: redis_store.connections(redis_server, os.getpid()) == 0)


def test_each_loop_has_connections_of_its_own(redis_server):
    store, namespace = Redis(redis_server.url), fresh()

    async def use(key: str) -> list[str]:
        state = store.state(namespace)
        for _ in range(50):
            await state.set(key, key.encode())
        found = await asyncio.gather(*(state.get(key) for _ in range(50)))
        await store.close()
        return [one.value.decode() for one in found if one is not None]

    found: dict[str, list[str]] = {}
    threads = [
        threading.Thread(target=lambda key=key: found.update({key: asyncio.run(use(key))})) for key in ("a", "b", "c")
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert found == {key: [key] * 50 for key in ("a", "b", "c")}


def test_a_loop_that_ended_without_closing_does_not_keep_its_connections(redis_server):
    store = Redis(redis_server.url)

    async def use() -> None:
        await store.now()
        store._links[asyncio.get_running_loop()].commands.drop()

    for _ in range(3):
        asyncio.run(use())
    assert len(store._links) == 1


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_forked_process_opens_connections_of_its_own(redis_server):
    store, state = Redis(redis_server.url), fresh()
    runner = asyncio.Runner()

    async def count_up() -> None:
        await redis_store.increment(store.state(state), "counter", 100)

    runner.run(count_up())
    child = os.fork()
    if child == 0:  # the child must not run what pytest does at the end of a process
        status = 1
        try:
            asyncio.run(count_up())
            status = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(status)
    runner.run(count_up())
    assert os.waitpid(child, 0)[1] == 0

    async def counted() -> bytes:
        found = await store.state(state).get("counter")
        await store.close()
        assert found is not None
        return found.value

    assert runner.run(counted()) == b"300"
    runner.close()


RIGHTS = "~dragoman:* resetchannels &dragoman:* -@all +@connection +@read +@write +@pubsub +@scripting +time +wait"
"""The rights of docs/stores.md."""


async def test_a_user_with_few_rights_is_enough(tmp_path):
    with RedisServer(tmp_path) as server:
        assert redis_store.call(server, "ACL", "SETUSER", "shop", "on", ">secret", *RIGHTS.split()) == b"OK"
        store = Redis(server.url.replace("//", "//shop:secret@"), replicas=0)
        await use_everything(store)
        await store.close()


@pytest.mark.parametrize(
    ("login", "answer"), [("shop:topsecret@", "WRONGPASS"), (":topsecret@", "WRONGPASS"), ("", "NOAUTH")]
)
async def test_a_refused_login_is_an_error_that_does_not_repeat_the_password(tmp_path, login, answer):
    with RedisServer(tmp_path, "--requirepass", "other") as server:
        store = Redis(server.url.replace("//", f"//{login}"), timeout=0.2)
        with pytest.raises(StoreUnavailable, match=answer) as raised:
            await store.now()
        assert "topsecret" not in str(raised.value)
        await store.close()


async def test_a_socket_of_this_machine_and_another_database_are_used(tmp_path, redis_server):
    with RedisServer(tmp_path, "--unixsocket", str(tmp_path / "redis.sock")):
        store = Redis(f"unix://{tmp_path}/redis.sock?db=3")
        assert await store.state("names").set("key", b"value")
        other = Redis(f"unix://{tmp_path}/redis.sock?db=2")
        assert await other.state("names").get("key") is None
        for one in (store, other):
            await one.close()


async def test_the_keys_of_one_command_share_a_hash_tag(redis_server):
    store = Redis(redis_server.url)
    await store.now()
    with redis_server.monitored() as commands:
        await use_everything(store)
    await store.close()
    tags = [set(re.findall(rb"dragoman:\{([^}]*)\}", command)) for command in commands]
    assert any(tags)
    assert all(len(tag) <= 1 for tag in tags)
