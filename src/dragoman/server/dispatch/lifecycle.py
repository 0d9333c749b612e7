"""`Lifecycle`: enters the async context managers of a server before it serves, and leaves them when serving ends.

The managers are the lifespans of the author, and then the `serving` hooks of extensions. They are entered once in each
process and event loop, because objects such as connections belong to one loop. Everything that serves the server in a
loop is a user of the loop's scope: a connection, an HTTP application, a view. The first user enters the scope, and the
last one leaves it. A user that has no end, such as a view of a framework, lasts as long as its loop. A loop that ends
cancels its tasks, and the scope is left then; a loop that only closes its async generators closes those of lifespans
too. The loop of the portal never ends; its scopes are left at the exit of the interpreter.

A scope has these states:

    entering   the task of the scope enters the managers; users wait
    open       the managers are entered
    leaving    no user is left, or the loop ends: the task leaves the managers

One task enters and leaves the managers of a scope, because a manager may hold a task group or a time-out, which must be
left in the task that entered it. A server without managers has no scopes.

Rejected: the lifespan events of ASGI. A mounted application receives none, and neither do stdio, memory and views.
"""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Callable, Hashable, Iterable, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, nullcontext, suppress
from typing import TYPE_CHECKING, Any, TypeVar

from dragoman.config import is_async
from dragoman.errors import DefinitionError, DragomanError
from dragoman.server.define.sources import Overrides
from dragoman.server.notifier import Report
from dragoman.server.registry import Registry

if TYPE_CHECKING:
    import asyncio

    from dragoman.runtime.portal import Portal

LEAVE_SECONDS = 10.0
"""The seconds that managers have to end; their task is then cancelled."""
PLACE = "a lifespan or an extension, while the server serves"
Managers = Callable[[], Iterable[AbstractAsyncContextManager[object]]]
LifespanFunction = Callable[..., AbstractAsyncContextManager[object] | AsyncIterator[object]]
"""A function of the server, or of nothing, that is an async generator or returns an async context manager."""
OwnLifespan = TypeVar("OwnLifespan", bound=LifespanFunction)
_REMEDY = "write an `async def` that yields once, with or without @asynccontextmanager"


class _Serving:
    """One user of a lifecycle, as a context manager."""

    def __init__(self, lifecycle: Lifecycle) -> None:
        self._lifecycle = lifecycle

    async def __aenter__(self) -> None:
        try:
            await self._lifecycle.begin(self)
        except BaseException:
            await self._lifecycle.end(self)
            raise

    async def __aexit__(self, *_: object) -> None:
        await self._lifecycle.end(self)


class Lifecycle:
    """The scopes of one server.

    `managers` makes the context managers of a scope. A function of a lifespan may take the `owner`, which is the
    `Server` that its author knows.

    Example:
        lifecycle = Lifecycle(server, registry, Overrides(), report, list)
        lifecycle.add(open_database)
        async with lifecycle.serving():
            lifecycle.values(asyncio.get_running_loop())
    """

    def __init__(
        self, owner: object, registry: Registry, overrides: Overrides, report: Report, managers: Managers
    ) -> None:
        self.lifespans: list[LifespanFunction] = []
        self._owner = owner
        self._registry = registry
        self._overrides = overrides
        self._report = report
        self._managers = managers
        self._scopes: dict[asyncio.AbstractEventLoop, _Scope] = {}

    def add(self, function: LifespanFunction) -> None:
        """Register a lifespan.

        Raises:
            DefinitionError: the function is of another kind, or has more parameters.
        """
        self.lifespans.append(_checked(function))

    def beside(self, managers: Managers) -> Lifecycle:
        """Return a lifecycle of the same server with other managers, and without lifespans."""
        return Lifecycle(self._owner, self._registry, self._overrides, self._report, managers)

    def serving(self) -> AbstractAsyncContextManager[None]:
        """Return a context in which the server serves in this loop: it enters and leaves lifespans and extensions."""
        return _Serving(self) if self._is_needed() else nullcontext()

    def _is_needed(self) -> bool:
        return bool(self.lifespans) or bool(list(self._managers()))

    def values(self, loop: asyncio.AbstractEventLoop | None) -> Mapping[LifespanFunction, object]:
        """Return the values of the lifespans in a loop, by their functions.

        Raises:
            DragomanError: there are lifespans, and they are not entered in this loop.
        """
        scope = None if loop is None else self._scopes.get(loop)
        if scope is None and self.lifespans:
            raise DragomanError(
                "The lifespan of the server is not open: connect within `async with server.serving()`."
                " If it was open and failed, the log says why"
            )
        return {} if scope is None else scope.values

    async def begin(self, user: Hashable) -> None:
        """Enter the scope of this loop, or wait until it is entered; a user may begin again, which does nothing.

        Without lifespans and managers there is nothing to enter.

        Raises:
            Exception: a manager could not be entered.
        """
        import asyncio

        if not self._is_needed():
            return
        loop = asyncio.get_running_loop()
        while (scope := self._scopes.get(loop)) is not None and scope.leave.is_set():
            await asyncio.wait([scope.task])
        if scope is None:
            scope = self._scopes[loop] = _Scope(loop)
            scope.task = loop.create_task(self._keep(scope, loop))
            scope.keep(loop)
        scope.users.add(user)
        await asyncio.shield(scope.entered)

    def begins_late(self, loop: asyncio.AbstractEventLoop) -> bool:
        """Tell whether there are lifespans that nobody has entered in a loop."""
        return bool(self.lifespans) and loop not in self._scopes

    async def begin_until_the_loop_ends(self) -> None:
        """Enter the scope of this loop for code that cannot tell when it has served its last request."""
        await self.begin(self)

    async def end(self, user: Hashable) -> None:
        """Leave the scope of this loop if no other user is left, and wait until its managers have ended."""
        import asyncio

        scope = self._scopes.get(asyncio.get_running_loop())
        if scope is None or user not in scope.users:
            return
        scope.users.discard(user)
        if not scope.users:
            await scope.stop()

    async def _keep(self, scope: _Scope, loop: asyncio.AbstractEventLoop) -> None:
        from asyncio import CancelledError

        try:
            async with AsyncExitStack() as stack:
                for function in list(self.lifespans):
                    manager = _manager(self._overrides.functions.get(function, function), self._owner)
                    scope.values[function] = await stack.enter_async_context(manager)
                if self.lifespans:
                    self._registry.require_lifespans(scope.values, self._overrides)
                for manager in self._managers():
                    await stack.enter_async_context(manager)
                scope.entered.set_result(None)
                with suppress(CancelledError):  # the loop ends, or a task group of a manager does
                    await scope.leave.wait()
        except Exception as error:
            if scope.entered.done():
                self._report(error, None, {"place": PLACE})
            else:
                scope.entered.set_exception(error)
                scope.entered.exception()  # nobody may wait for it any more
        finally:
            scope.leave.set()
            scope.entered.cancel()
            scope.forget()
            self._scopes.pop(loop, None)


class _Scope:
    """What is entered in one loop."""

    task: asyncio.Task[None]

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        import asyncio

        self.users: set[Any] = set()
        self.values: dict[LifespanFunction, object] = {}
        """The values of the lifespans."""
        self.entered: asyncio.Future[None] = loop.create_future()
        self.leave = asyncio.Event()
        self._kept_by: Portal | None = None

    def keep(self, loop: asyncio.AbstractEventLoop) -> None:
        """Let the portal stop the scope at the exit of the interpreter, if the loop is that of the portal."""
        from dragoman.runtime.portal import existing_portal

        portal = existing_portal()
        if portal is not None and portal.loop is loop:
            self._kept_by = portal
            portal.kept.add(self)

    def forget(self) -> None:
        """Let the portal stop the scope no more."""
        if self._kept_by is not None:
            self._kept_by.kept.discard(self)

    async def stop(self) -> None:
        """Let the managers end, and wait; a manager that takes too long, or has not begun yet, is cancelled."""
        import asyncio

        self.leave.set()
        if not self.entered.done():
            self.task.cancel()
        await asyncio.wait([self.task], timeout=LEAVE_SECONDS)
        if not self.task.done():
            import logging

            logger = logging.getLogger("dragoman.server")
            logger.warning("What begins and ends with serving (%s) did not end; it is cancelled", PLACE)
            self.task.cancel()
            await asyncio.wait([self.task], timeout=1)


def _checked(function: Any) -> LifespanFunction:
    """Check that a function can be a lifespan.

    Raises:
        DefinitionError: it cannot; the message names the remedy.
    """
    is_entered_once = hasattr(function, "__aenter__") and not isinstance(function, type)
    is_blocking = inspect.isgeneratorfunction(inspect.unwrap(function))
    if not callable(function) or is_async(function) or is_entered_once or is_blocking:
        raise DefinitionError(f"{_called(function)} cannot be a lifespan: {_REMEDY}, and give the function itself")
    if len(_required_parameters(function)) > 1:
        raise DefinitionError(f"{_called(function)} cannot be a lifespan: it takes the server, or nothing")
    return function  # type: ignore[no-any-return]


def _required_parameters(function: Callable[..., object]) -> list[inspect.Parameter]:
    parameters = inspect.signature(function).parameters.values()
    variadic = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return [one for one in parameters if one.default is one.empty and one.kind not in variadic]


def _manager(function: Callable[..., Any], owner: object) -> AbstractAsyncContextManager[object]:
    """Call the function of a lifespan.

    Raises:
        DefinitionError: the function returned no async context manager.
    """
    made = function(owner) if _required_parameters(function) else function()
    if inspect.isasyncgen(made):
        return asynccontextmanager(lambda: made)()
    if not isinstance(made, AbstractAsyncContextManager):
        kind = type(made).__name__
        raise DefinitionError(f"{_called(function)} returned {kind}, and cannot be a lifespan: {_REMEDY}")
    return made


def _called(function: Any) -> str:
    return f"{function.__name__}()" if hasattr(function, "__name__") else repr(function)
