"""Ten thousand tasks that wait for an answer, on each engine and in both generations."""

import asyncio

import pytest

from dragoman import Server
from scenarios.parked_tasks import SECRET, park_tasks, shared_store
from scenarios.task_peer import GENERATIONS

DEADLINE = 300.0


@pytest.mark.soak
@pytest.mark.parametrize("version", GENERATIONS)
@pytest.mark.parametrize("engine", ["memory", "local", "redis"])
def test_ten_thousand_parked_tasks_cost_no_task_thread_or_connection(engine, version, tmp_path):
    async def scenario() -> None:
        async with asyncio.timeout(DEADLINE), shared_store(engine, tmp_path) as store:
            await park_tasks(Server("shared", store=store, secret=SECRET), 10_000, version)

    asyncio.run(scenario())
