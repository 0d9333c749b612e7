"""Dependencies: the functions that make values for parameters of an author's function, once for each request.

A `DependencyPlan` is compiled when a function with dependencies is registered. It has a `Provider` for each function
that is needed, also for the dependencies of dependencies. Each call of the author's function is a `DependencyRun`:

    resolving   the providers run one after another, in the order of the parameters
    running     the author's function runs with the values
    cleaning    the generators run on after their `yield`, in reverse order; the code that sent the response starts this
    closed      nothing is left to clean up

Async providers run in the task of the request, and so does their clean-up, because a generator may hold a time-out or a
task group, which must be left in the task that entered it. Blocking providers run in threads. If the author's function
raises, the generators receive the exception at their `yield`, so that a transaction is rolled back.

A handler that runs again, to ask the client a question, has a new run: its dependencies are made again, and those of
the run before are cleaned up.

Rejected: an `AsyncExitStack`. It passes the error of one clean-up on to the next ones, so that a connection that cannot
be closed would roll back a transaction that is complete.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
from collections.abc import Awaitable, Callable, Collection, Hashable, Iterator, Mapping
from contextlib import (
    AbstractAsyncContextManager,
    AbstractContextManager,
    asynccontextmanager,
    contextmanager,
    suppress,
)
from typing import Any

from dragoman.config import is_async
from dragoman.errors import DefinitionError
from dragoman.runtime.callables import resolved
from dragoman.runtime.offload import offload
from dragoman.runtime.tasks import is_running_here, retrieve_exception
from dragoman.schema.python.signature import Signature
from dragoman.server.define.sources import (
    Dependency,
    DependencySources,
    NamedArgument,
    Pending,
    PendingSource,
)
from dragoman.server.request.call import Call

_VARIADIC = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
_NOTHING_RAISED = (None, None, None)
Manager = AbstractAsyncContextManager[Any] | AbstractContextManager[Any]
Functions = Mapping[Hashable, Callable[..., object]]


class Provider:
    """A function that makes the value of a dependency, and its kind."""

    def __init__(self, function: Callable[..., Any], arguments: Collection[str], owner: str) -> None:
        body = _body(function)
        self.function = function
        self.is_generator = inspect.isgeneratorfunction(body)
        self.is_async_generator = inspect.isasyncgenfunction(body)
        self.is_async = self.is_async_generator or is_async(function)
        sources = DependencySources(arguments, owner, is_async=self.is_async)
        self.signature = Signature.of(function, source_of=sources)


class DependencyPlan:
    """The providers that a function needs, by the keys of their dependencies."""

    def __init__(self, function: Callable[..., Any], signature: Signature, replaced: Functions) -> None:
        self._function = function
        self._signature = signature
        self._replaced = replaced
        self.shape = inspect.signature(function)
        injected = {parameter.name for parameter in signature.injected}
        parameters = self.shape.parameters.values()
        self._arguments = {one.name for one in parameters if one.kind not in _VARIADIC} - injected
        self.providers: dict[Hashable, Provider] = {}
        self._add_all(signature, ())

    def _add_all(self, signature: Signature, path: tuple[Hashable, ...]) -> None:
        for parameter in signature.injected:
            if isinstance(parameter.source, PendingSource):
                self._add(parameter.source.dependency, path)

    def _add(self, dependency: Dependency, path: tuple[Hashable, ...]) -> None:
        key, function = dependency.key, dependency.function
        if key in path:
            names = " -> ".join(getattr(one, "__name__", repr(one)) for one in (*path, key))
            raise DefinitionError(f"{self._signature.name}() cannot be served: its dependencies are a cycle, {names}")
        if key in self.providers:
            return
        assert function is not None
        provider = Provider(self._replaced.get(key, function), self._arguments, self._signature.name)
        self._add_all(provider.signature, (*path, key))
        self.providers[key] = provider

    def with_replaced(self, replaced: Functions) -> DependencyPlan:
        """Return the plan for a server on which functions replace dependencies."""
        return DependencyPlan(self._function, self._signature, replaced) if replaced else self

    def starter(self, start: Callable[..., Any], *, in_place: bool) -> Callable[..., Any]:
        """Return a function that makes the dependencies, and calls `start` with them in the place of each `Pending`."""

        async def run(*args: Any, **kwargs: Any) -> Any:
            bound = self.shape.bind(*args, **kwargs)
            bound.apply_defaults()
            call = next(value.call for value in bound.arguments.values() if type(value) is Pending)
            if call.dependencies is not None:
                await call.clean_up()
            made = DependencyRun(call, self.with_replaced(call.server.replacements), bound.arguments)
            call.dependencies = made.close
            return await made.run(start, bound, in_place=in_place)

        return run


class DependencyRun:
    """The values of the dependencies of one call of a function, and what is to be cleaned up."""

    def __init__(self, call: Call, plan: DependencyPlan, arguments: Mapping[str, Any]) -> None:
        self._call = call
        self._providers = plan.providers
        self._arguments = dict(arguments)
        self._values: dict[Hashable, Any] = {}
        self._entered: list[Manager] = []
        self._is_closed = False
        self._error: BaseException | None = None
        self._blocking: asyncio.Future[Any] | None = None
        """The author's function, if it runs in a thread: its values are in use until it ends, even if cancelled."""

    async def run(self, start: Callable[..., Any], bound: inspect.BoundArguments, *, in_place: bool) -> Any:
        """Make the dependencies, and return the value of the function."""
        try:
            for name, value in self._arguments.items():
                bound.arguments[name] = await self._resolved(value)
            value = start(*bound.args, **bound.kwargs)
            if self._entered and not in_place:
                value = self._blocking = asyncio.ensure_future(value.result())
                value = asyncio.shield(value)
            return await resolved(value)
        except BaseException as error:
            if self._entered:  # else nothing would clear the cycle of references that the error makes
                self._error = error
            raise

    async def _resolved(self, value: Any) -> Any:
        if type(value) is Pending:
            return await self._value(value.dependency)
        return self._arguments[value.name] if type(value) is NamedArgument else value

    async def _value(self, dependency: Dependency) -> Any:
        key = dependency.key
        if dependency.use_cache and key in self._values:
            return self._values[key]
        provider = self._providers[key]
        args, kwargs = provider.signature.bind_values((), self._call)
        given = [await self._resolved(value) for value in args]
        named = {name: await self._resolved(value) for name, value in kwargs.items()}
        value = await self._make(provider, given, named)
        if dependency.use_cache:
            self._values[key] = value
        return value

    async def _make(self, provider: Provider, args: list[Any], kwargs: dict[str, Any]) -> Any:
        function = provider.function
        if provider.is_async_generator:
            return await self._enter_async(function(*args, **kwargs))
        if provider.is_generator:
            return await offload(self._enter_blocking, function(*args, **kwargs))
        if provider.is_async:
            return await resolved(function(*args, **kwargs))
        return await resolved(await offload(function, *args, **kwargs))

    async def _enter_async(self, made: Any) -> Any:
        manager = asynccontextmanager(lambda: made)() if inspect.isasyncgen(made) else made
        value = await manager.__aenter__()
        self._entered.append(manager)
        return value

    def _enter_blocking(self, made: Any) -> Any:
        manager = contextmanager(lambda: made)() if inspect.isgenerator(made) else made
        value = manager.__enter__()
        self._entered.append(manager)
        # The request may have been cancelled while this thread entered. Who removes the manager leaves it.
        if self._is_closed:
            with suppress(ValueError):
                self._entered.remove(manager)
                self._leave_blocking(manager)
        return value

    def _leave_blocking(self, manager: AbstractContextManager[Any], *raised: Any) -> None:
        try:
            manager.__exit__(*(raised or _NOTHING_RAISED))
        except Exception as failed:
            self._report(failed)

    async def _leave(self, manager: Manager, raised: Any) -> None:
        if not isinstance(manager, AbstractAsyncContextManager):
            # A cancellation must not withdraw a clean-up that waits for a thread.
            await asyncio.shield(asyncio.ensure_future(offload(self._leave_blocking, manager, *raised)))
            return
        try:
            await manager.__aexit__(*raised)
        except Exception as failed:
            self._report(failed)

    def _report(self, failed: BaseException) -> None:
        self._call.server.report(failed, self._call, {"place": "the clean-up of a dependency"})

    async def close(self) -> None:
        """Clean up in reverse order; an error of a clean-up is reported, because the response is sent already.

        Raises:
            CancelledError: the task was cancelled meanwhile, because its loop ends; all is cleaned up nevertheless.
        """
        self._is_closed = True
        if not self._entered or self._call.loop is None or not is_running_here(self._call.loop):
            return
        cancelled = None
        for step in self._closing():
            try:
                await step
            except asyncio.CancelledError as error:
                cancelled = error
        if cancelled is not None:
            raise cancelled

    def _closing(self) -> Iterator[Awaitable[object]]:
        if self._blocking is not None:
            self._blocking.add_done_callback(retrieve_exception)
            yield asyncio.wait([self._blocking])
        error, self._error = self._error, None
        raised = _NOTHING_RAISED if error is None else (type(error), error, error.__traceback__)
        while self._entered:
            yield self._leave(self._entered.pop(), raised)


def _body(function: Any) -> Any:
    """Return the function that runs when an object is called; decorators such as `asynccontextmanager` are removed."""
    is_direct = isinstance(function, type | functools.partial) or inspect.isroutine(function)
    return inspect.unwrap(function if is_direct else type(function).__call__)
