"""A process that forks while its threads write to a store of one machine; every acknowledged value must be found.

python forking_writer.py <folder>
"""

import asyncio
import os
import sys
import threading
import time
from pathlib import Path

from dragoman.stores import Local

CHILDREN = 12
DEADLINE = 60
store = Local(Path(sys.argv[1]))
state = store.state("forked")
stopping = threading.Event()
acknowledged: dict[int, int] = {}


async def write_until_stopped(writer: int) -> None:
    number = 0
    while not stopping.is_set():
        await state.set(f"parent{writer}x{number}", b"value")
        number += 1
        acknowledged[writer] = number


async def write_as_child(child: int) -> None:
    tasks = store.tasks("forked")
    for number in range(20):
        await state.set(f"child{child}x{number}", b"value")
    await tasks.wait(0)
    made = await tasks.create(f"child{child}", b"", owner="child")
    await asyncio.wait_for(tasks.wait(3600), DEADLINE)
    assert made.phase == "ready"
    await store.close()


async def count() -> None:
    for writer, numbers in acknowledged.items():
        for number in range(numbers):
            assert await state.get(f"parent{writer}x{number}"), f"parent{writer}x{number} is lost"
    for child in range(CHILDREN):
        for number in range(20):
            assert await state.get(f"child{child}x{number}"), f"child{child}x{number} is lost"
    assert len(await store.tasks("forked").list("child")) == CHILDREN
    await store.close()
    sys.stdout.write(f"{sum(acknowledged.values())} written meanwhile\n")


def fork(child: int) -> int:
    process = os.fork()
    if process == 0:
        try:
            asyncio.run(asyncio.wait_for(write_as_child(child), DEADLINE))
        except BaseException as error:
            sys.stderr.write(f"child {child}: {error!r}\n")
            sys.stderr.flush()
            os._exit(1)
        os._exit(0)
    return process


def main() -> None:
    writers = [threading.Thread(target=asyncio.run, args=(write_until_stopped(n),), daemon=True) for n in range(3)]
    for writer in writers:
        writer.start()
    ends_at = time.monotonic() + DEADLINE
    while len(acknowledged) < 3:
        assert time.monotonic() < ends_at
        time.sleep(0.001)
    processes = [fork(child) for child in range(CHILDREN)]
    codes = [os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) for process in processes]
    assert codes == [0] * CHILDREN, codes
    stopping.set()
    for writer in writers:
        writer.join(DEADLINE)
        assert not writer.is_alive()
    asyncio.run(count())


main()
