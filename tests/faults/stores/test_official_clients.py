"""The official clients, with their default options, use a fleet of servers, while Redis and the servers fail."""

import asyncio
import os
import signal

import pytest

from faults.stores.official_clients import Fleet, Toll, fleet
from faults.stores.official_faults import FAULTS
from faults.stores.sentinels import sentinels
from redis_store import until

AWAY = 1.5
DEADLINE = 180.0


@pytest.mark.e2e
def test_each_call_of_an_official_client_is_answered_or_fails_and_none_runs_twice(tmp_path, capsys):
    async def scenario() -> Toll:
        async with asyncio.timeout(DEADLINE), fleet(tmp_path) as ships:
            await ships.results()
            for fault in FAULTS:
                await fault(ships, AWAY)
                await ships.results()
        return ships.toll()

    toll = asyncio.run(scenario())
    with capsys.disabled():
        toll.show()
    toll.judge()


@pytest.mark.e2e
def test_each_call_of_an_official_client_ends_while_replicas_take_over(tmp_path, capsys):
    async def scenario() -> Toll:
        async with asyncio.timeout(DEADLINE), sentinels(tmp_path / "redis") as made:
            ships = Fleet(tmp_path, made.url)
            async with ships.used():
                await ships.results()
                os.kill(made.master.pid, signal.SIGSTOP)
                promoted = await made.promoted(made.master)
                await ships.results()
                os.kill(made.master.pid, signal.SIGCONT)  # the old master becomes a replica
                await until(lambda: made.is_replica(made.master))
                await ships.results()
                promoted.kill()
                await made.promoted(promoted)
                await ships.results()
        return ships.toll()

    toll = asyncio.run(scenario())
    with capsys.disabled():
        toll.show()
    toll.judge()
