"""`HandlerState`: the values that handlers keep for a user (`ctx.user_state`) or in a session (`ctx.session_state`).

A value is JSON in the store of the server. Values of a user are found by the principal of the request, or by the
`state_key` of the server. Values of a session end with it: over HTTP they are in the store, on a duplex connection in
the memory of the process.

`update` reads a value, calls the author's function, and writes the result if nobody else wrote meanwhile; otherwise it
starts again. Rejected: a lock. A process that dies would leave it locked.
"""

# ruff: noqa: A002

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Coroutine, Iterator
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal, TypeVar, overload

import msgspec

from dragoman.errors import DragomanError, StoreError, ValidationError
from dragoman.runtime.callables import blocking
from dragoman.schema.python.annotations import Codec
from dragoman.schema.python.shapes import encode_hook
from dragoman.server.request.call import MAX_STATE_KEYS, Call
from dragoman.server.request.driving import drive
from dragoman.stores.contract import check_ttl
from dragoman.stores.limits import Share

if TYPE_CHECKING:
    from dragoman.server.request.context import Context
    from dragoman.stores import State

T = TypeVar("T")
D = TypeVar("D")
StateKey = Callable[["Context"], str]
"""Says whose `ctx.user_state` a request uses: a function of the context that returns a text."""
MAX_KEY_CHARACTERS = 256
MAX_VALUE_BYTES = 64 * 1024
MAX_ATTEMPTS = 100
"""How often `update` calls its function at most."""
LONGEST_PAUSE = 0.05
_encoder = msgspec.json.Encoder(enc_hook=encode_hook)


class HandlerState:
    """The values of a user or a session, for `async def` handlers.

    Example:
        @server.tool
        async def add_to_cart(item: str, ctx: Context) -> int:
            cart = await ctx.user_state.update("cart", lambda cart: [*(cart or []), item], list[str])
            return len(cart)

    A value is anything that JSON can hold, a dataclass, a Struct or a pydantic model. Give the type to read it back as
    an object of the type. A user and a session have at most 1,000 keys; a key has at most 256 characters, and a value
    at most 64 KiB of JSON.
    """

    def __init__(self, values: State, longest: float | None = None, *, owner: Literal["user", "session"]) -> None:
        self._values = values
        self._longest = longest
        self._owner = owner

    def __repr__(self) -> str:
        # The keys and values are left out, because they are personal.
        return f"<HandlerState of a {self._owner}>"

    @overload
    async def get(self, key: str, type: None = None, default: object = None) -> Any: ...
    @overload
    async def get(self, key: str, type: type[T], default: None = None) -> T | None: ...
    @overload
    async def get(self, key: str, type: type[T], default: D) -> T | D: ...
    async def get(self, key: str, type: Any = None, default: Any = None) -> Any:
        """Return the value of a key, or `default` if there is none or it has expired.

        Example:
            cart = await ctx.user_state.get("cart", Cart, Cart())

        Raises:
            ValidationError: the value does not fit the type, or the key is too long.
            StoreUnavailable: the store cannot be reached.
        """
        found = await self._values.get(_checked_key(key))
        return default if found is None else _decoded(found.value, type)

    async def set(self, key: str, value: object, ttl: float | None = None) -> None:
        """Keep a value for `ttl` seconds, or until it is deleted; a value of a session ends with the session.

        Example:
            await ctx.user_state.set("cart", cart, ttl=3600)

        Raises:
            ValidationError: the value cannot be JSON or is too large, or the key is too long.
            StoreFull: there are too many keys.
            StoreUnavailable: the store cannot be reached.
        """
        await self._values.set(_checked_key(key), _encoded(value), ttl=self._ttl(ttl))

    @overload
    async def update(
        self, key: str, function: Callable[[Any], T], type: None = None, ttl: float | None = None
    ) -> T: ...
    @overload
    async def update(
        self, key: str, function: Callable[[T | None], T], type: type[T], ttl: float | None = None
    ) -> T: ...
    async def update(self, key: str, function: Callable[[Any], Any], type: Any = None, ttl: float | None = None) -> Any:
        """Replace a value by the return value of a function, and return it; no change of another request is lost.

        Example:
            visits = await ctx.user_state.update("visits", lambda count: (count or 0) + 1)

        The function gets None if there is no value. It is called again if another request changes the value meanwhile,
        so it should do nothing else. The new value lives `ttl` seconds from now, or until it is deleted.

        Raises:
            ValidationError: a value does not fit the type, cannot be JSON or is too large, or the key is too long.
            StoreError: other requests changed the value each time.
            StoreFull: there are too many keys.
            StoreUnavailable: the store cannot be reached.
        """
        for attempt in _attempts(key):
            value, revision = await self._read(key, type)
            value = function(value)
            if await self._replace(key, value, revision, ttl, attempt):
                return value
        raise AssertionError("the attempts end with an error")

    async def delete(self, key: str) -> bool:
        """Delete a value; return whether there was one.

        Example:
            await ctx.user_state.delete("cart")

        Raises:
            ValidationError: the key is too long.
            StoreUnavailable: the store cannot be reached.
        """
        return await self._values.delete(_checked_key(key))

    async def _read(self, key: str, kind: Any) -> tuple[Any, int]:
        found = await self._values.get(_checked_key(key))
        return (None, 0) if found is None else (_decoded(found.value, kind), found.revision)

    async def _replace(self, key: str, value: Any, revision: int, ttl: float | None, attempt: int) -> bool:
        """Write a value if the key still has a revision; otherwise pause, the longer the more attempts there were."""
        if await self._values.compare_and_set(key, _encoded(value), revision, ttl=self._ttl(ttl)) is not None:
            return True
        await asyncio.sleep(random.uniform(0, min(LONGEST_PAUSE, 0.001 * 2**attempt)))  # noqa: S311
        return False

    def _ttl(self, given: float | None) -> float | None:
        check_ttl(given)
        if given is None or self._longest is None:
            return self._longest if given is None else given
        return min(given, self._longest)


class BlockingHandlerState:
    """The values of a user or a session, for `def` handlers: the methods of `HandlerState`, blocking.

    Example:
        @server.tool
        def add_to_cart(item: str, ctx: BlockingContext) -> int:
            cart = ctx.user_state.update("cart", lambda cart: [*(cart or []), item], list[str])
            return len(cart)
    """

    def __init__(self, call: Call, state: HandlerState) -> None:
        self._call = call
        self._state = state

    def __repr__(self) -> str:
        return f"<Blocking {self._state!r}>"

    get = blocking(HandlerState.get)
    set = blocking(HandlerState.set)
    delete = blocking(HandlerState.delete)

    @overload
    def update(self, key: str, function: Callable[[Any], T], type: None = None, ttl: float | None = None) -> T: ...
    @overload
    def update(self, key: str, function: Callable[[T | None], T], type: type[T], ttl: float | None = None) -> T: ...
    def update(self, key: str, function: Callable[[Any], Any], type: Any = None, ttl: float | None = None) -> Any:
        """Replace a value as `HandlerState.update` does; the function runs in this thread."""
        for attempt in _attempts(key):
            value, revision = self._drive(HandlerState._read, key, type)
            value = function(value)
            if self._drive(HandlerState._replace, key, value, revision, ttl, attempt):
                return value
        raise AssertionError("the attempts end with an error")

    def _drive(self, method: Callable[..., Coroutine[Any, Any, T]], *args: Any, **kwargs: Any) -> T:
        return drive(self._call, method(self._state, *args, **kwargs))


def user_state(call: Call, context: Context) -> HandlerState:
    """Return the values of the user whose request it is.

    Raises:
        DragomanError: nobody knows whose request it is, or `state_key` returned no text.
    """
    server = call.server
    if server.storage.state_key is not None:
        owner: Any = server.storage.state_key(context)
        if not isinstance(owner, str) or not owner.strip():
            raise DragomanError(f"state_key must return a text that is not empty, not {owner!r}")
        kind = "key"
    elif call.principal is not None:
        owner, kind = call.principal, "principal"
    else:
        raise DragomanError(
            "ctx.user_state needs to know whose values they are, and this request has no principal: give auth= to"
            " asgi() or run('http'), or a function Server(state_key=...)"
        )
    name = f"user state\0{len(server.name)}\0{server.name}\0{kind}\0{owner}"
    share = Share(f"user state\0{server.name}", name)
    return HandlerState(server.storage.store.state(name, max_values=MAX_STATE_KEYS, share=share), owner="user")


def session_state(call: Call) -> HandlerState:
    """Return the values of the session of a request.

    Raises:
        DragomanError: the request has no session.
    """
    version = call.request.caller.version
    if version.stateless:
        raise DragomanError(f"Protocol version {version.name} has no sessions, and so no session_state: use user_state")
    found = call.session.kept_values(call.server, call.holder)
    if found is None:
        raise DragomanError("The request came without a session, and so without session_state: use user_state")
    return HandlerState(found.values, found.seconds, owner="session")


def _checked_key(key: str) -> str:
    if not 0 < len(key) <= MAX_KEY_CHARACTERS:
        raise ValidationError(f"A key has 1 to {MAX_KEY_CHARACTERS} characters; {key[:40]!r}... has {len(key)}")
    return key


def _encoded(value: object) -> bytes:
    try:
        data = _encoder.encode(value)
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise ValidationError(f"The value cannot be kept as JSON: {error}") from None
    if len(data) > MAX_VALUE_BYTES:
        raise ValidationError(f"The value has {len(data)} bytes of JSON; at most {MAX_VALUE_BYTES} are kept")
    return data


def _decoded(data: bytes, kind: Any) -> Any:
    value = msgspec.json.decode(data)
    return value if kind is None else _codec(kind).convert(value)


@lru_cache(maxsize=256)
def _codec(kind: Any) -> Codec:
    return Codec(kind, "The type of a value")


def _attempts(key: str) -> Iterator[int]:
    """Yield the numbers of the attempts to update a value.

    Raises:
        StoreError: all attempts failed.
    """
    yield from range(MAX_ATTEMPTS)
    raise StoreError(
        f"The value of {key!r} was not updated: other requests changed it {MAX_ATTEMPTS} times in a row, or"
        " another process wrote it with a secret that this server lacks. In the second case, delete it"
    )
