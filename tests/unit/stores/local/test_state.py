"""Values in the database."""

import asyncio

import pytest

from dragoman.errors import StoreFull
from dragoman.stores import Local


async def test_values_and_revisions_outlive_the_connection(tmp_path):
    store = Local(tmp_path / "store")
    first = await store.state("namespace").set("key", b"value")
    await store.close()
    again = Local(tmp_path / "store")
    assert await again.state("namespace").get("key") == (b"value", first)
    await again.state("namespace").delete("key")
    await again.close()
    assert await store.state("namespace").set("key", b"value") > first
    await store.close()


async def test_expired_values_make_room_in_a_full_namespace(tmp_path):
    store = Local(tmp_path / "store")
    state = store.state("namespace", max_values=2)
    await state.set("one", b"", ttl=0.01)
    await state.set("two", b"")
    await store.state("other").set("three", b"")
    async with asyncio.timeout(60):
        while await state.get("one"):  # noqa: ASYNC110
            await asyncio.sleep(0.005)
    await state.set("three", b"")
    with pytest.raises(StoreFull, match="There are 2 values already"):
        await state.set("four", b"")
    await state.delete("two")
    await state.set("four", b"")
    await store.close()
