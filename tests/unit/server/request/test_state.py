"""The values that handlers keep: their types, their bounds, and how they are updated."""

import asyncio
import dataclasses
import enum
from datetime import date
from typing import Any

import msgspec
import pydantic
import pytest

from dragoman.errors import StoreError, StoreFull, ValidationError
from dragoman.server.request import state as state_module
from dragoman.server.request.state import MAX_KEY_CHARACTERS, MAX_VALUE_BYTES, BlockingHandlerState, HandlerState
from dragoman.stores import Memory


@dataclasses.dataclass
class Cart:
    items: list[str]
    when: date | None = None


class Note(msgspec.Struct):
    text: str


class Wish(pydantic.BaseModel):
    item: str
    price: float = pydantic.Field(gt=0)


class Colour(enum.Enum):
    RED = "red"


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


def kept(clock: Any = None, *, longest: float | None = None, max_values: int = 1000) -> HandlerState:
    store = Memory() if clock is None else Memory(clock=clock)
    return HandlerState(store.state("values", max_values=max_values), longest, owner="user")


@pytest.mark.covers("STA-01")
@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (None, {"a": [1, 2.5, None, True, "é"]}),
        (None, None),
        (int, 3),
        (str, ""),
        (list[str], ["a", "b"]),
        (dict[str, int], {"a": 1}),
        (Cart, Cart(["apple"], date(2026, 11, 17))),
        (Note, Note("hello")),
        (Wish, Wish(item="bike", price=3.5)),
        (list[Wish], [Wish(item="bike", price=3.5)]),
        (Colour, Colour.RED),
        (set[int], {1, 2}),
        (bytes, b"\0\xff"),
    ],
)
async def test_a_value_is_read_back_as_its_type(kind, value):
    values = kept()
    await values.set("key", value)
    assert await values.get("key", kind) == value


async def test_what_is_not_there_is_the_default():
    values = kept()
    assert await values.get("cart") is None
    assert await values.get("cart", Cart) is None
    assert await values.get("cart", Cart, Cart([])) == Cart([])
    assert await values.get("cart", default=7) == 7
    assert await values.delete("cart") is False


async def test_a_value_is_there_until_it_is_deleted_or_its_time_is_up():
    clock = Clock()
    values = kept(clock)
    await values.set("for ever", 1)
    await values.set("for a minute", 2, ttl=60)
    clock.now += 61
    assert await values.get("for a minute") is None
    clock.now += 10**9
    assert await values.get("for ever") == 1
    assert await values.delete("for ever") is True
    assert await values.get("for ever") is None


@pytest.mark.covers("STA-02")
async def test_what_is_kept_in_a_session_ends_with_it():
    clock = Clock()
    values = kept(clock, longest=100)
    await values.set("a", 1)
    await values.set("b", 1, ttl=1000)
    await values.set("c", 1, ttl=10)
    await values.update("d", lambda _: 1)
    clock.now += 11
    assert [await values.get(key) for key in "abcd"] == [1, 1, None, 1]
    clock.now += 90
    assert [await values.get(key) for key in "abcd"] == [None] * 4


@pytest.mark.covers("STA-05")
async def test_keys_and_values_and_their_number_are_bounded():
    values = kept(max_values=2)
    longest = "k" * MAX_KEY_CHARACTERS
    await values.set(longest, "x" * (MAX_VALUE_BYTES - 2))
    assert len(await values.get(longest)) == MAX_VALUE_BYTES - 2
    for key in ("", longest + "k"):
        for use in (values.get(key), values.set(key, 1), values.delete(key), values.update(key, lambda _: 1)):
            with pytest.raises(ValidationError, match="A key has 1 to 256 characters"):
                await use
    with pytest.raises(ValidationError, match="The value has 65537 bytes of JSON; at most 65536 are kept"):
        await values.set("large", "x" * (MAX_VALUE_BYTES - 1))
    await values.set("second", 1)
    with pytest.raises(StoreFull):
        await values.set("third", 1)
    with pytest.raises(StoreFull):
        await values.update("third", lambda _: 1)
    await values.set("second", 2)


@pytest.mark.covers("STA-05")
async def test_what_cannot_be_kept_or_read_says_why():
    values = kept()
    cycle: list[Any] = []
    cycle.append(cycle)
    for value in (object(), "\ud800", cycle):
        with pytest.raises(ValidationError, match="The value cannot be kept as JSON"):
            await values.set("key", value)
    await values.set("key", {"items": 3})
    with pytest.raises(ValidationError, match="items"):
        await values.get("key", Cart)
    with pytest.raises(ValidationError, match="items"):
        await values.update("key", lambda cart: cart or Cart([]), Cart)
    for ttl in (0, -1, float("nan"), float("inf"), True, 1e308, 10**400):
        with pytest.raises(ValidationError, match="ttl must be a number of seconds above 0"):
            await values.set("key", 1, ttl=ttl)


@pytest.mark.covers("STA-03")
async def test_updates_at_once_are_all_counted():
    values = kept()

    async def count() -> int:
        return await values.update("n", lambda n: (n or 0) + 1)

    counted = await asyncio.gather(*(count() for _ in range(50)))
    assert sorted(counted) == list(range(1, 51))
    assert await values.get("n", int) == 50


@pytest.mark.covers("STA-03")
async def test_a_function_is_called_again_with_what_somebody_else_wrote():
    values = kept()
    await values.set("cart", Cart(["apple"]))
    seen: list[Cart | None] = []

    class Interrupted(HandlerState):
        async def _read(self, key: str, kind: Any) -> tuple[Any, int]:
            read = await super()._read(key, kind)
            if not seen:
                await values.set("cart", Cart(["apple", "bread"]))
            return read

    def add(cart: Cart | None) -> Cart:
        seen.append(cart)
        return Cart([*(cart.items if cart else []), "cheese"])

    changed = await Interrupted(values._values, owner="user").update("cart", add, Cart)
    assert seen == [Cart(["apple"]), Cart(["apple", "bread"])]
    assert changed == await values.get("cart", Cart) == Cart(["apple", "bread", "cheese"])


@pytest.mark.covers("STA-03")
async def test_an_update_that_never_succeeds_is_given_up(monkeypatch):
    monkeypatch.setattr(state_module, "MAX_ATTEMPTS", 3)
    monkeypatch.setattr(state_module, "LONGEST_PAUSE", 0)
    values, calls = kept(), []

    class Contested(HandlerState):
        async def _read(self, key: str, kind: Any) -> tuple[Any, int]:
            read = await super()._read(key, kind)
            await values.set(key, len(calls))
            return read

    with pytest.raises(StoreError, match=r"The value of 'n' was not updated: other requests changed it 3 times"):
        await Contested(values._values, owner="user").update("n", lambda n: calls.append(n) or 1)
    assert len(calls) == 3


async def test_a_function_that_fails_changes_nothing():
    values = kept()
    await values.set("n", 1)
    with pytest.raises(ZeroDivisionError):
        await values.update("n", lambda n: n // 0)
    assert await values.get("n") == 1


def test_a_representation_says_whose_values_they_are_and_no_value():
    values = kept()
    assert repr(values) == "<HandlerState of a user>"
    assert repr(BlockingHandlerState(None, values)) == "<Blocking <HandlerState of a user>>"  # type: ignore[arg-type]
