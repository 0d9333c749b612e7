"""Arguments are checked once, before an engine is asked."""

import pytest

from dragoman.errors import ValidationError
from dragoman.stores.operations import CheckedState, CheckedTasks


class Untouched(CheckedState, CheckedTasks):
    """An engine that must not be asked."""

    async def _set(self, *_):
        raise AssertionError

    _create = _change = _claim = _renew = _set


@pytest.mark.parametrize("ttl", [2**63, 1e308, 10**400, float("nan"), 0, -1, True, "1"])
async def test_an_invalid_time_to_live_reaches_no_engine(ttl):
    engine = Untouched()
    for attempt in (
        engine.set("key", b"", ttl=ttl),
        engine.compare_and_set("key", b"", 0, ttl=ttl),
        engine.create("id", b"", owner="ann", ttl=ttl),
        engine.update("id", b"", revision=1, ttl=ttl),
    ):
        with pytest.raises(ValidationError, match="ttl must be a number of seconds"):
            await attempt


@pytest.mark.parametrize("lease", [1e308, float("nan"), -1, True])
async def test_an_invalid_lease_reaches_no_engine(lease):
    engine = Untouched()
    for attempt in (
        engine.create("id", b"", owner="ann", lease=lease),
        engine.claim(lease),
        engine.renew("id", 1, lease),
    ):
        with pytest.raises(ValidationError, match="lease must be a number of seconds"):
            await attempt
