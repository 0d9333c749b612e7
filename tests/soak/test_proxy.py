"""A proxy with many clients, whose target is killed again and again."""

import asyncio

import pytest

from scenarios.proxied_restart import call_while_the_target_is_killed

pytestmark = pytest.mark.soak


@pytest.mark.parametrize("carriers", [("asgi", "stdio"), ("http", "stdio"), ("http", "http")])
def test_two_hundred_clients_lose_and_double_nothing_when_the_target_restarts(carriers, tmp_path):
    working = call_while_the_target_is_killed(tmp_path, clients=200, kills=4, carriers=carriers)
    asyncio.run(asyncio.wait_for(working, 300))
