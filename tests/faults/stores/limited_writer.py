"""A process that may write only small files fills a store of one machine, as on a full disk.

python limited_writer.py <folder>
"""

import asyncio
import resource
import sys
from pathlib import Path

from dragoman.errors import StoreUnavailable
from dragoman.stores import Local

LIMIT = 7_000_000


async def main(folder: Path) -> None:
    store = Local(folder)
    state, tasks = store.state("full"), store.tasks("full")
    task = await tasks.create("id", b"x" * 1000, owner="ann", lease=30)
    resource.setrlimit(resource.RLIMIT_FSIZE, (LIMIT, LIMIT))
    written, refusals = [], []
    for size in (200_000, 20_000, 1000):
        try:
            for number in range(10_000):
                await state.set(f"{size}x{number}", bytes(size))
                written.append((f"{size}x{number}", size))
        except StoreUnavailable as error:
            refusals.append(str(error))
    assert len(written) > 10, written
    assert len(refusals) == 3, refusals
    assert all("has no room" in refusal for refusal in refusals), refusals
    for _ in range(1000):
        assert await tasks.renew("id", task.token, 30)
    done = await tasks.finish("id", b"y" * 10_000, token=task.token)
    assert done is not None
    for key, size in written:
        found = await state.get(key)
        assert found is not None, f"{key} is lost"
        assert found.value == bytes(size)
    for key, _ in written[:5]:
        assert await state.delete(key)
    await state.set("new", bytes(200_000))
    await store.close()
    assert (await Local(folder).tasks("full").get("id")).value == b"y" * 10_000
    sys.stdout.write(f"{len(written)} written\n")


asyncio.run(main(Path(sys.argv[1])))
