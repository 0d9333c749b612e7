"""A relay runs coroutines as tasks of their own would run them."""

import asyncio
import contextlib

from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman.runtime.eager import EagerRunner
from properties.programs import Program, act, actions, both, ended, programs

SETTLE = ("settle", 0, 0)
batches = st.lists(st.tuples(st.lists(programs, min_size=1, max_size=3), st.lists(actions, max_size=6)), max_size=3)


async def run_each(begin, came, relay):
    """Run coroutines by a relay, or in tasks that have begun when this returns."""
    if relay is not None:
        relay.run(iter(came))
        return []
    tasks = [asyncio.create_task(begin(program)) for program in came]
    await asyncio.sleep(0)
    return tasks


@given(batches)
@settings(max_examples=300, deadline=None)
def test_a_relay_does_what_tasks_do(batches):
    async def logs(is_relayed):
        relay = EagerRunner(asyncio.get_running_loop(), Program.quietly) if is_relayed else None
        running, tasks = [], []
        for batch, script in batches:
            came = [Program(program) for program in batch]
            running += came
            tasks += await run_each(Program.quietly, came, relay)
            await act(running, [*script, SETTLE])
        return await ended(running)

    plain, relayed = both(logs)
    assert relayed == plain


@given(st.lists(programs, min_size=1, max_size=6), st.integers(0, 5))
@settings(max_examples=100, deadline=None)
def test_a_cancellation_at_the_end_of_one_coroutine_does_not_reach_the_next(batch, culprit):
    async def logs(is_relayed):
        running = [Program(program) for program in batch]

        async def begin(program):
            await program.quietly()
            if program is running[culprit % len(running)]:
                asyncio.current_task().cancel("after its end")

        tasks = await run_each(begin, running, EagerRunner(asyncio.get_running_loop(), begin) if is_relayed else None)
        logged = await ended(running)
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.gather(*tasks)
        return logged

    plain, relayed = both(logs)
    assert relayed == plain
