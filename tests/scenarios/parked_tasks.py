"""Many tasks that wait for an answer, on any engine, and what they cost the process."""

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from dragoman import Context, Server
from dragoman.stores import Local, Memory, Redis
from dragoman.stores.contract import Store
from redis_server import RedisServer
from scenarios.task_peer import FIRST, polled, task_peer

SECRET = "a secret of sixteen"
OWN_FILES = 8
"""How many descriptors an engine may open for itself at any time, however many tasks there are."""


@asynccontextmanager
async def shared_store(engine: str, folder: Path) -> AsyncIterator[Store]:
    """Make a store on an engine, and close it."""
    if engine == "redis":
        with RedisServer(folder / "redis") as redis:
            store = Redis(redis.url)
            yield store
            await store.close()
        return
    kept = Memory() if engine == "memory" else Local(folder / "store")
    yield kept
    await kept.close()


def cost() -> tuple[int, int, int]:
    """Return how many tasks of the loop, threads and open descriptors there are."""
    return len(asyncio.all_tasks()), threading.active_count(), len(list(Path("/proc/self/fd").iterdir()))


async def park_tasks(server: Server, parked: int, version: str) -> None:
    """Make tasks that ask, check that they cost nothing, and let one of them go on."""

    @server.tool(task=True)
    async def ask(ctx: Context) -> str:
        return (await ctx.elicit("What?", str)).content or ""

    async with task_peer(server, version) as peer:
        ids = [(await peer.start("ask"))["taskId"] for _ in range(2)]
        for id in ids:
            await peer.until(id, "input_required")
        before = await polled(settled, lambda two: two[0] == two[1])
        ids += [(await peer.start("ask"))["taskId"] for _ in range(parked - 2)]
        await peer.until(ids[-1], "input_required")
        after = await polled(settled, lambda two: two[0] == two[1] and two[0][0] <= before[0][0])
        allowed = (0, 0, OWN_FILES)
        assert all(now <= then + more for now, then, more in zip(after[0], before[0], allowed, strict=True))
        answer = {"action": "accept", "content": {"value": "x"}}
        if version != FIRST:
            await peer.request("tasks/update", taskId=ids[0], inputResponses={"elicit-1": answer})
            assert (await peer.outcome(ids[0]))["result"]["content"][0]["text"] == "x"
            return
        waiting = peer.peer.start("tasks/result", {"taskId": ids[0]})
        peer.peer.answer((await peer.peer.receive("elicitation/create"))["id"], answer)
        assert (await peer.peer.response(waiting))["result"]["content"][0]["text"] == "x"


async def settled() -> tuple[tuple[int, int, int], tuple[int, int, int]]:
    """Return the cost now and a moment later."""
    now = cost()
    await asyncio.sleep(0.2)
    return now, cost()
