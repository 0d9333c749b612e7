"""A process uses a store of one machine whose folder cannot be written any more, and can be written again later.

python unwritable_writer.py <folder>
"""

import asyncio
import ctypes
import os
import sys
from pathlib import Path

from dragoman.errors import StoreUnavailable
from dragoman.stores import Local

DROP_FROM_BOUNDING_SET = 24
"""PR_CAPBSET_DROP of Linux."""
IGNORES_PERMISSIONS = (1, 2)
"""CAP_DAC_OVERRIDE and CAP_DAC_READ_SEARCH of Linux: with them root may write everywhere."""


def obey_permissions() -> None:
    """Start the program again without the rights of root to write where the permissions forbid it."""
    if os.geteuid() == 0 and "OBEYS" not in os.environ:
        for right in IGNORES_PERMISSIONS:
            assert ctypes.CDLL(None).prctl(DROP_FROM_BOUNDING_SET, right, 0, 0, 0) == 0
        os.execve(sys.executable, [sys.executable, "-W", "ignore", *sys.argv], os.environ | {"OBEYS": "1"})


def permit(folder: Path, *, writes: bool) -> None:
    """Let the folder and its files be written, or not."""
    for path in (folder, *folder.rglob("*")):
        path.chmod((0o700 if path.is_dir() else 0o600) if writes else (0o500 if path.is_dir() else 0o400))


async def refusal(store: Local) -> str:
    """Return why a store takes nothing new, in each of its parts."""
    said = []
    log = store.log("stream")
    log.append(100, b"event")
    for refused in (
        store.state("unwritable").set("new", b"value"),
        store.tasks("unwritable").create("new", b"value", owner="ann"),
        log.flush(),
    ):
        try:
            await refused
        except StoreUnavailable as error:
            said.append(str(error))
    assert len(said) == 3, said
    return "\n".join(said)


async def main(folder: Path) -> None:
    store = Local(folder)
    for number in range(50):
        await store.state("unwritable").set(f"{number}", b"%d" % number)
    await store.tasks("unwritable").create("task", b"todo", owner="ann")
    await store.close()
    permit(folder, writes=False)
    try:
        sys.stdout.write(await refusal(store))
    finally:
        permit(folder, writes=True)
    for number in range(50):
        found = await store.state("unwritable").get(f"{number}")
        assert found is not None, f"{number} is lost"
        assert found.value == b"%d" % number
    claimed = await store.tasks("unwritable").claim(30)
    assert claimed is not None
    assert claimed.value == b"todo"
    assert await store.state("unwritable").set("new", b"value")
    await store.close()


obey_permissions()
asyncio.run(main(Path(sys.argv[1])))
