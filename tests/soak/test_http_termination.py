"""A server over HTTP whose processes are ended again and again while it is used."""

from __future__ import annotations

import asyncio
import random
import sys

import pytest

from faults.http.termination_load import load, terminated

pytestmark = [
    pytest.mark.soak,
    pytest.mark.skipif(sys.platform != "linux", reason="The workers are found by /proc"),
]

ENDS = 40
MOST_BETWEEN = 60
"""Calls between one end and the next."""


def test_workers_that_are_ended_again_and_again_lose_no_call_and_run_none_twice():
    chance = random.Random(1)

    async def scenario() -> None:
        async with terminated("run", 3) as server:
            async with load(server) as more:
                for _ in range(ENDS):
                    await more(chance.randrange(MOST_BETWEEN))
                    await server.replace(*chance.sample(server.workers(), chance.randint(1, 3)))
                await more(100)
            server.account.assert_right(10 * ENDS)
            await server.end()

    asyncio.run(scenario())


@pytest.mark.parametrize("workers", [1, 3])
def test_a_server_that_is_started_again_and_again_answers_every_call_that_it_did_not_refuse(workers):
    chance = random.Random(2)

    async def scenario() -> None:
        async with terminated("run", workers) as server:
            async with load(server) as more:
                for _ in range(ENDS // 2):
                    await more(chance.randrange(1, MOST_BETWEEN))
                    await server.end()
                    server.start()
                await more(100)
            server.account.assert_right(5 * ENDS)
            await server.end()

    asyncio.run(scenario())


@pytest.mark.parametrize("how", ["run", "uvicorn", "starlette"])
def test_a_process_under_a_supervisor_that_is_started_again_and_again_loses_no_call_and_runs_none_twice(how):
    chance = random.Random(3)

    async def scenario() -> None:
        async with terminated(how, keeps_socket=True) as server:
            async with load(server) as more:
                for _ in range(ENDS // 2):
                    await more(chance.randrange(1, MOST_BETWEEN))
                    await server.end()
                    server.start()
                await more(100)
            server.account.assert_right(5 * ENDS, may_be_cut=how in ("uvicorn", "starlette"))
            await server.end()

    asyncio.run(scenario())
