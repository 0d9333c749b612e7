"""Values in the database."""

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
