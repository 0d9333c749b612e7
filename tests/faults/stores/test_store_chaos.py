"""Several processes that use one Redis, while it is killed again and again, or replaced by a replica."""

import asyncio
import logging
import os
import random
import signal
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path

import msgspec
import pytest

import redis_store
from dragoman.stores import Redis
from faults.stores import store_load
from faults.stores.sentinels import sentinels
from faults.stores.store_load import Report, toll
from redis_proxy import proxied
from redis_server import KEEPING, RedisServer, debugging
from redis_store import answering, fresh, until

LIMIT = 1.0
_logger = logging.getLogger(__name__)
TESTS = Path(__file__).parents[2]


class LoadProcess:
    """A load in a process of its own."""

    def __init__(self, url: str, group: str, replicas: int = 0) -> None:
        arguments = [url, group, str(LIMIT), str(replicas)]
        self.process = subprocess.Popen(
            [sys.executable, str(store_load.__file__), *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": str(TESTS)},
        )

    async def end(self) -> Report:
        """Let the load finish what it does, and return its report."""
        written, _ = await asyncio.to_thread(self.process.communicate, timeout=60)
        return msgspec.json.decode(written, type=Report)

    def kill(self) -> None:
        """End the process with SIGKILL."""
        self.process.kill()
        self.process.wait(60)

    def __enter__(self) -> "LoadProcess":
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()
        for pipe in (self.process.stdin, self.process.stdout):
            assert pipe is not None
            pipe.close()


async def in_use(url: str, group: str) -> None:
    """Wait until the loads have created tasks."""
    store = Redis(url, timeout=LIMIT)
    await answering(store)
    async with asyncio.timeout(60):
        while len(await store.tasks(group).list("ann")) < 20:  # noqa: ASYNC110
            await asyncio.sleep(0.05)
    await store.close()


@pytest.mark.e2e
@pytest.mark.parametrize("seed", range(2))
async def test_processes_survive_whatever_happens_to_redis_and_to_one_of_them(tmp_path, seed):
    chance = random.Random(seed)
    group = fresh()
    with ExitStack() as stack:
        server = stack.enter_context(RedisServer(tmp_path, *KEEPING, *debugging()))
        async with proxied(server) as proxy:
            loads = [stack.enter_context(LoadProcess(proxy.url, group)) for _ in range(3)]
            victim = stack.enter_context(LoadProcess(proxy.url, group))
            await in_use(server.url, group)
            ends_at = time.monotonic() + 20
            while time.monotonic() < ends_at:
                fault = chance.choice(["kill", "stop", "pause", "sleep", "cut", "mute"])
                if fault in ("kill", "stop"):
                    await asyncio.to_thread(server.kill if fault == "kill" else server.stop)
                    await asyncio.sleep(chance.uniform(0, 1.5 * LIMIT))
                    await asyncio.to_thread(server.start)
                elif fault == "pause":
                    redis_store.call(server, "CLIENT", "PAUSE", int(chance.uniform(100, 2000)))
                elif fault == "sleep":
                    await asyncio.to_thread(redis_store.call, server, "DEBUG", "SLEEP", f"{chance.uniform(0.1, 2):.1f}")
                elif fault == "cut":
                    proxy.cut()
                else:
                    proxy.is_mute = True
                    await asyncio.sleep(chance.uniform(0.1, 1.5))
                    proxy.is_mute = False
                await asyncio.sleep(chance.uniform(0, 1))
            victim.kill()
            store = Redis(server.url, timeout=LIMIT)
            await answering(store)
            reports = [await load.end() for load in loads]
        cost = await toll(store, group, reports)
        await store.close()
    _logger.info("%s", cost)
    assert (cost.hung, cost.lost, cost.lost_events, cost.twice) == (0, 0, 0, 0), cost
    assert cost.slowest < LIMIT + 1.0 + 3.0, cost
    assert 0 < cost.failed < cost.calls / 2, cost


@pytest.mark.e2e
@pytest.mark.parametrize("fault", [signal.SIGKILL, signal.SIGSTOP], ids=["killed", "stopped"])
async def test_a_replica_takes_over_and_nothing_that_it_had_to_have_is_lost(tmp_path, fault):
    group = fresh()
    async with sentinels(tmp_path) as made:
        loads = [made.stack.enter_context(LoadProcess(made.url, group, replicas=1)) for _ in range(3)]
        await in_use(made.url, group)
        os.kill(made.master.pid, fault)
        await made.promoted(made.master)
        store = Redis(made.url, timeout=LIMIT)
        took = await answering(store)
        if fault == signal.SIGSTOP:  # the old master comes back, and becomes a replica
            os.kill(made.master.pid, signal.SIGCONT)
            await until(lambda: made.is_replica(made.master))
        await asyncio.sleep(1)
        reports = [await load.end() for load in loads]
        cost = await toll(store, group, reports)
        assert await store.state(group).set("after", b"value")
        await store.close()
    _logger.info("%s; the store answered %.2f s after the Sentinels agreed", cost, took)
    assert (cost.hung, cost.lost, cost.twice) == (0, 0, 0), cost
    assert cost.slowest < 2 * LIMIT + 1.0 + 3.0, cost
    assert cost.failed > 0, cost
    assert took < 5
