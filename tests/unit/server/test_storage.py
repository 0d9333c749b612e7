"""The store and the keys of a server."""

import pytest

from dragoman import DefinitionError
from dragoman.server.storage import Storage
from dragoman.stores import Memory

SECRET = "a secret of sixteen characters"


async def test_a_storage_that_was_never_used_closes_nothing():
    engine = Memory()
    storage = Storage(engine, SECRET)
    await storage.close()
    assert "key_ring" not in vars(storage)
    assert await storage.store.state("carts").get("mine") is None
    await storage.close()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"engine": "redis://localhost"}, "store must be a store"),
        ({"state_key": "principal"}, "state_key must be a function"),
        ({"secret": "short"}, "secret"),
    ],
)
def test_a_storage_refuses_what_cannot_be_used(options, message):
    with pytest.raises(DefinitionError, match=message):
        Storage(**options)
