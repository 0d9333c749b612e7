"""What a proxy keeps of a target that is away, and for whom."""

import asyncio

import pytest
from msgspec import Raw

from dragoman.errors import AuthRequired, ConnectError, HttpError, RpcError, Timeout, ToolError, TransportError
from dragoman.forward.proxy import known_targets
from dragoman.forward.proxy.known_targets import KnownTarget, KnownTargets, is_absence, refusal_of
from dragoman.protocol.versions import V2025_11_25

DEADLINE = 60


def nothing():
    """Do nothing when pages are kept."""


async def test_the_pages_of_a_user_have_a_bound(monkeypatch):
    monkeypatch.setattr(known_targets, "MAX_USER_BYTES", 10)
    known = KnownTarget(nothing)
    for key in "abc":
        known.keep(key, Raw(b"12345"), V2025_11_25)
    assert [known.page(key) is not None for key in "abc"] == [False, True, True]
    assert known.size == 10
    known.keep("d", Raw(b"12345678901"), V2025_11_25)
    assert known.size == 0


async def test_the_pages_of_all_users_have_a_bound(monkeypatch):
    monkeypatch.setattr(known_targets, "MAX_BYTES", 10)
    users = KnownTargets()
    for name in "abc":
        users.of(name).keep("list", Raw(b"12345"), V2025_11_25)
    assert [users.of(name).page("list") is not None for name in "cba"] == [True, True, False]


async def test_a_request_is_repeated_in_the_background_until_the_target_answers():
    known, answers = KnownTarget(nothing), iter([ConnectError("away"), ConnectError("away"), "fresh"])
    waits, is_done = [], asyncio.Event()

    async def fetch(wait):
        waits.append(wait)
        answer = next(answers)
        if isinstance(answer, Exception):
            raise answer
        is_done.set()
        return answer

    assert await known.latest(fetch, lambda: "last") == "last"
    assert known.is_away
    assert await known.latest(fetch, lambda: "last") == "last"
    assert waits == [known_targets.CONNECT_WAIT]
    async with asyncio.timeout(DEADLINE):
        await is_done.wait()
    assert waits == [known_targets.CONNECT_WAIT, None, None]
    assert not known.is_away
    await known.stop()


async def test_a_request_that_can_reach_the_target_does_so_although_others_cannot():
    known = KnownTarget(nothing)
    known.is_away = True

    async def fetch(_):
        return "fresh"

    assert await known.latest(fetch, lambda: "last", is_connected=True) == "fresh"
    assert not known.is_away


async def test_an_answer_that_is_not_known_is_asked_for_also_if_the_target_is_away():
    known = KnownTarget(nothing)
    known.is_away = True

    async def fetch(wait):
        return wait

    assert await known.latest(fetch, None) == known_targets.CONNECT_WAIT
    assert not known.is_away


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (ConnectError("refused"), True),
        (Timeout("late"), True),
        (TransportError("lost"), True),
        (HttpError("failed", 503, b""), True),
        (HttpError("refused", 404, b""), False),
        (AuthRequired("refused", 401, None), False),
    ],
)
async def test_only_a_target_that_does_not_answer_is_away(error, expected):
    known = KnownTarget(nothing)

    async def fetch(_):
        raise error

    assert is_absence(error) is expected
    if expected:
        assert await known.latest(fetch, lambda: "last") == "last"
    else:
        with pytest.raises(type(error)):
            await known.latest(fetch, lambda: "last")
    assert known.is_away is expected
    await known.stop()


@pytest.mark.parametrize("error", [RpcError(-32602, "Wrong"), ToolError("Connect your account first")])
def test_errors_of_the_target_and_of_the_author_pass_as_they_are(error):
    assert refusal_of(error, "front") is error


class Watch:
    """Counts how often a target is back."""

    is_watched = True

    def __init__(self):
        self.count = 0

    def target_is_back(self):
        self.count += 1


async def test_watchers_of_a_target_are_notified_once_when_it_is_back():
    watch = Watch()
    known = KnownTargets(watch).of(None)
    for is_away in (False, True, True, False, False):
        known.is_away = is_away
    assert watch.count == 1


@pytest.mark.parametrize(("user", "goes_on"), [(None, True), ("ann", False)])
async def test_a_watched_target_is_tried_for_good_but_not_with_the_credentials_of_one_user(user, goes_on, monkeypatch):
    monkeypatch.setattr(known_targets, "RETRIES", 2)
    for name in ("LONGEST_PAUSE", "WATCH_PAUSE"):
        monkeypatch.setattr(known_targets, name, 0.0)
    known, attempts, is_back = KnownTargets(Watch()).of(user), [], asyncio.Event()

    async def fetch(wait):
        attempts.append(wait)
        if len(attempts) < 5:
            raise ConnectError("away")
        is_back.set()
        return "fresh"

    assert await known.latest(fetch, lambda: "last") == "last"
    async with asyncio.timeout(DEADLINE):
        while len(attempts) < (5 if goes_on else 3):  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    await asyncio.sleep(0.3)
    assert is_back.is_set() is goes_on
    assert len(attempts) == (5 if goes_on else 3)
    await known.stop()


async def test_a_request_that_does_not_wait_gives_an_absent_target_no_time():
    known = KnownTarget(nothing)
    known.is_away = True

    async def fetch(wait):
        return wait

    assert await known.latest(fetch, None, waits=False) == 0.0
