"""The official clients use a fleet of servers for minutes, while Redis and the servers fail again and again."""

import asyncio
import random
import time

import pytest

from faults.stores.official_clients import Toll, fleet
from faults.stores.official_faults import FAULTS

SECONDS = 240.0
LONGEST_AWAY = 4.0


@pytest.mark.soak
def test_no_call_of_an_official_client_hangs_or_runs_twice_whatever_happens_for_minutes(tmp_path, capsys):
    async def scenario() -> Toll:
        chance = random.Random(1)
        ends_at = time.monotonic() + SECONDS
        async with asyncio.timeout(2 * SECONDS), fleet(tmp_path) as ships:
            while time.monotonic() < ends_at:
                await ships.results(chance.randrange(1, 6))
                await chance.choice(FAULTS)(ships, chance.uniform(0.1, LONGEST_AWAY))
            await ships.results()
        return ships.toll()

    toll = asyncio.run(scenario())
    with capsys.disabled():
        toll.show()
    toll.judge()
