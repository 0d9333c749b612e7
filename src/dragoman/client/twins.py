"""The blocking twins of clients and chats, and of objects that belong to them, such as tools and tasks.

The blocking twin of a class `AsyncTask` is the class `Task`, which declares each method in one line. `blocking` (in
`runtime/callables.py`) returns what the async method returns. `blocking_twin` and `blocking_twins` turn the objects
that the async method returns into their blocking twins. `blocking_self` returns the object that the method was called
on. `forwarded` and `forwarded_self` call methods that need no event loop.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Coroutine
from inspect import signature
from typing import TYPE_CHECKING, Any, Concatenate, Generic, ParamSpec, Protocol, Self, TypeVar

from dragoman.runtime.callables import coroutine_of

if TYPE_CHECKING:
    from dragoman.client.blocking import Client
    from dragoman.client.client import AsyncClient

T = TypeVar("T")
R = TypeVar("R")
B = TypeVar("B")
Owner = TypeVar("Owner")
Run = TypeVar("Run", bound=Callable[..., Any])
P = ParamSpec("P")


class BelongsToClient(Protocol):
    """An object that belongs to an asynchronous client."""

    _client: AsyncClient

    def _bound_to(self, client: AsyncClient) -> Self: ...


Twin = TypeVar("Twin")
Bound = TypeVar("Bound", bound=BelongsToClient)


class BlockingTwin(Generic[Twin]):
    """The blocking twin of an asynchronous object; its `blocking` methods drive those of the object."""

    def __init__(self, client: Client, twin: Twin) -> None:
        self._driver = client
        self._twin = twin

    @property
    def asynchronous(self) -> Twin:
        """The asynchronous twin, for code on the event loop of the blocking clients."""
        return self._twin

    def _drive(self, method: Callable[..., Coroutine[Any, Any, T]], /, *args: Any, **kwargs: Any) -> T:
        return self._driver._run(coroutine_of(method, self.asynchronous, *args, **kwargs))

    def _client_of(self, _: object) -> Client:
        return self._driver


class BoundTwin(BlockingTwin[Bound]):
    """The blocking twin of an object that can move to another client, as it does after a fork."""

    @property
    def asynchronous(self) -> Bound:
        """The asynchronous twin, for code on the event loop of the blocking clients."""
        client = self._driver.asynchronous
        if self._twin._client is not client:
            self._twin = self._twin._bound_to(client)
        return self._twin


def blocking_twin(
    method: Callable[Concatenate[Owner, P], Coroutine[Any, Any, R]], kind: Callable[[Any, R], B]
) -> Callable[Concatenate[Any, P], B]:
    """Return the blocking twin of an async method that returns an object; the twin returns the twin of the object.

    Example:
        class Client:
            tool = blocking_twin(AsyncClient.tool, BoundTool)

    The owner's `_client_of` returns the client that the twin of the object belongs to.
    """

    def run(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> B:
        result = self._drive(method, *args, **kwargs)
        return kind(self._client_of(result), result)

    return _described(run, method)


def blocking_twins(
    method: Callable[Concatenate[Owner, P], Coroutine[Any, Any, list[R]]], kind: Callable[[Any, R], B]
) -> Callable[Concatenate[Any, P], list[B]]:
    """Return the blocking twin of an async method that returns a list, as `blocking_twin` does for one object."""

    def run(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> list[B]:
        return [kind(self._client_of(result), result) for result in self._drive(method, *args, **kwargs)]

    return _described(run, method)


def blocking_self(
    method: Callable[Concatenate[Any, P], Coroutine[Any, Any, Any]],
) -> Callable[Concatenate[Owner, P], Owner]:
    """Return the blocking twin of an async method that returns its own object.

    Example:
        class Client:
            start = blocking_self(AsyncClient.start)
    """

    def run(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> Any:
        self._drive(method, *args, **kwargs)
        return self

    return _described(run, method)


def _described(run: Run, method: Callable[..., Any]) -> Run:
    """Give a function the name, documentation and signature of an async method, and the names of blocking twins."""
    functools.update_wrapper(run, method)
    del run.__wrapped__  # type: ignore[attr-defined]  # it does not return what the method returns
    shown = signature(method)
    parameters = [each.replace(annotation=_blocking_name(each.annotation)) for each in shown.parameters.values()]
    returns = _blocking_name(shown.return_annotation)
    run.__signature__ = shown.replace(parameters=parameters, return_annotation=returns)  # type: ignore[attr-defined]
    return run


def _blocking_name(annotation: Any) -> Any:
    return annotation.replace("Async", "") if isinstance(annotation, str) else annotation


def forwarded(method: Callable[Concatenate[Any, P], R]) -> Callable[Concatenate[Any, P], R]:
    """Return a method that calls a method of the asynchronous twin, which needs no event loop.

    Example:
        class Chat:
            approve = forwarded(AsyncChat.approve)
    """

    @functools.wraps(method)
    def run(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> R:
        return method(self._twin, *args, **kwargs)

    return run


def forwarded_self(method: Callable[Concatenate[Any, P], Any]) -> Callable[Concatenate[Owner, P], Owner]:
    """Return a method that calls a method of the asynchronous twin, and returns the object that it was called on."""

    def run(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> Any:
        method(self._twin, *args, **kwargs)
        return self

    return _described(run, method)
