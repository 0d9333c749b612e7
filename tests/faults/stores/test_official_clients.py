"""The official clients use a fleet of servers, while Redis and the servers fail."""

import asyncio

import pytest

from faults.stores.official_clients import Toll, fleet
from faults.stores.official_faults import FAULTS

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
