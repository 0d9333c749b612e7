"""A process that writes to a store of one machine until it is killed, and says what was acknowledged.

python store_writer.py <folder> <name>
"""

import asyncio
import sys
from pathlib import Path

from dragoman.stores import Local


async def main(folder: Path, name: str) -> None:
    store = Local(folder)
    state, log, tasks = store.state("killed"), store.log(name), store.tasks("killed")

    async def write(writer: int) -> None:
        for number in range(1_000_000):
            key = f"{name}x{writer}x{number}"
            await state.set(key, key.encode())
            if number % 5 == 0:
                await tasks.create(key, key.encode(), owner=name)
            if writer == 0:
                log.append(number + 1, key.encode())
                await log.flush()
            sys.stdout.write(key + "\n")
            sys.stdout.flush()

    await asyncio.gather(*(write(writer) for writer in range(4)))


asyncio.run(main(Path(sys.argv[1]), sys.argv[2]))
