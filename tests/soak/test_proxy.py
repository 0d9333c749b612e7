"""A proxy with many clients, whose target is killed again and again."""

import asyncio

import pytest

from scenarios.proxied_restart import call_while_the_target_is_killed

pytestmark = pytest.mark.soak


@pytest.mark.parametrize("turn", range(3))
def test_two_hundred_clients_lose_and_double_nothing_when_the_target_restarts(turn, tmp_path):
    assert turn >= 0
    asyncio.run(asyncio.wait_for(call_while_the_target_is_killed(tmp_path, clients=200, kills=4), 300))
