"""Calls of functions: functions of authors, blocking twins of async methods, and errors for unknown options.

`invoke` calls an async function of an author in the event loop. A plain function may block, so `invoke` calls it in a
thread, unless the caller knows that the function is quick. Both kinds may return an awaitable: a plain function often
returns the coroutine of an async function. `is_async` looks at the function itself and not at a wrapped function: a
plain wrapper may run an async function to its end, which is not possible in the loop. `is_async` is defined in
`config`, because `config` may not import this package.

A forgotten `await` of a method of `awaited_by_caller` is reported at the line of the caller. Python itself reports it
where the coroutine is freed, which is often a line of this package.

A blocking twin has the name, the parameters and the documentation of an async method. The twin calls `_drive` of its
object to run the method.

`at_caller` removes the frames of this package from the traceback of a definition's error. The author then reads their
own line and the message, instead of the frames in between.

This module does not import asyncio, because a server needs asyncio only when it serves.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Collection, Coroutine, Generator, Iterable, Mapping
from inspect import isawaitable
from types import TracebackType
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar, cast

from dragoman.config import is_async
from dragoman.errors import DefinitionError, UnknownOption

if TYPE_CHECKING:
    from types import FrameType

Function = TypeVar("Function", bound=Callable[..., Any])
Kind = TypeVar("Kind", bound=type[Any])
Owner = TypeVar("Owner")
_OWN_FRAMES = ("dragoman", "asyncio", "contextlib")
"""The packages whose frames tell an author nothing about a definition."""
P = ParamSpec("P")
R = TypeVar("R")
_OF_COROUTINES = ("send", "throw", "close")


async def invoke(function: Callable[..., Any], /, *args: Any, in_place: bool = False) -> Any:
    """Call a function of an author, in a thread unless it is async, and return its result; an awaitable is awaited.

    `in_place` calls a plain function in the loop, for a function that is quick or must see the caller's context.

    Raises:
        Exception: whatever the function raises.
    """
    return await resolved(starter(function, in_place=in_place or is_async(function))(*args))


def starter(function: Callable[..., Any], *, in_place: bool) -> Callable[..., Any]:
    """Return the function itself, or a function that returns its `ThreadCall`; pass the result to `resolved`."""
    return function if in_place else functools.partial(ThreadCall, function)


async def resolved(value: Any) -> Any:
    """Return a value, or that of a `ThreadCall`; while the value is awaitable, await it."""
    if type(value) is ThreadCall:
        value = value.result()
    while isawaitable(value):
        value = await value
    return value


class ThreadCall:
    """A call that a thread is to make; `result` begins it, and may be called once.

    Example:
        value = await ThreadCall(requests.get, "https://example.com", timeout=10).result()
    """

    __slots__ = ("_args", "_function", "_kwargs")

    def __init__(self, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> None:
        self._function = function
        self._args = args
        self._kwargs = kwargs

    def result(self) -> Coroutine[Any, Any, Any]:
        """Return the coroutine that makes the call, and returns its value."""
        from dragoman.runtime.offload import offload

        return offload(self._function, *self._args, **self._kwargs)


def blocking(method: Callable[Concatenate[Owner, P], Coroutine[Any, Any, R]]) -> Callable[Concatenate[Any, P], R]:
    """Return the blocking twin of an async method.

    Example:
        class BlockingContext:
            elicit = blocking(Context.elicit)
    """

    @functools.wraps(method)
    def run(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> R:
        return self._drive(method, *args, **kwargs)  # type: ignore[no-any-return]

    return run


class CallerCoroutine:
    """A coroutine that warns at the line of its caller if nobody awaits it.

    Example:
        CallerCoroutine("ctx.elicit", coroutine, sys._getframe(1))
    """

    __slots__ = ("_coroutine", "_is_awaited", "_name", "_place")

    def __init__(self, name: str, coroutine: Coroutine[Any, Any, Any], caller: FrameType) -> None:
        self._name = name
        self._coroutine = coroutine
        self._is_awaited = False
        self._place = (caller.f_code.co_filename, caller.f_lineno, caller.f_globals)

    def __repr__(self) -> str:
        return f"<{self._name}(...), {'awaited' if self._is_awaited else 'which was not awaited'}>"

    def __await__(self) -> Generator[Any, Any, Any]:
        self._is_awaited = True
        return self._coroutine.__await__()

    def __getattr__(self, name: str) -> Any:
        if name in _OF_COROUTINES or name.startswith(("cr_", "__")):  # tasks and debuggers use these
            self._is_awaited = self._is_awaited or name in _OF_COROUTINES
            return getattr(self._coroutine, name)
        raise AttributeError(f"{self._name}(...) has no {name!r} before it is awaited: write `await {self._name}(...)`")

    def __del__(self) -> None:
        if self._is_awaited:
            return
        import warnings

        self._coroutine.close()
        file, line, variables = self._place
        warnings.warn_explicit(
            f"{self._name}(...) was never awaited, so it did nothing: write `await {self._name}(...)`",
            RuntimeWarning,
            file,
            line,
            variables.get("__name__"),
            variables.setdefault("__warningregistry__", {}),
        )


Coroutine.register(CallerCoroutine)


def awaited_by_caller(
    owner: str,
) -> Callable[[Callable[P, Coroutine[Any, Any, R]]], Callable[P, Coroutine[Any, Any, R]]]:
    """Return a decorator for async methods: a forgotten `await` is reported at the line of the caller.

    Example:
        @awaited_by_caller("ctx")
        async def elicit(self, message: str) -> str: ...
    """

    def decorate(method: Callable[P, Coroutine[Any, Any, R]]) -> Callable[P, Coroutine[Any, Any, R]]:
        name = f"{owner}.{method.__name__}"

        @functools.wraps(method)
        def call(*args: P.args, **kwargs: P.kwargs) -> Coroutine[Any, Any, R]:
            return cast("Coroutine[Any, Any, R]", CallerCoroutine(name, method(*args, **kwargs), sys._getframe(1)))

        return call

    return decorate


def coroutine_of(method: Callable[..., Coroutine[Any, Any, R]], /, *args: Any, **kwargs: Any) -> Coroutine[Any, Any, R]:
    """Call an async method for its blocking twin, and return the coroutine.

    Raises:
        TypeError: the arguments do not fit; the error names the blocking twin.
    """
    try:
        return method(*args, **kwargs)
    except TypeError as error:  # only wrong arguments: the body of the coroutine function has not run yet
        raise TypeError(str(error).replace("Async", "", 1)) from None


def did_you_mean(name: str, known: Collection[str]) -> str:
    """Return "; did you mean ...?" with the known name that is most similar to `name`, or an empty string."""
    from difflib import get_close_matches

    close = get_close_matches(name, known, 1) or sorted(each for each in known if name and each.startswith(name))
    return f"; did you mean {close[0]!r}?" if close else ""


def refuse_unknown(
    owner: str, options: Iterable[str], known: Collection[str], remedies: Mapping[str, str] | None = None
) -> None:
    """Check the names of options; `remedies` says what to write instead of options that other packages have.

    Raises:
        UnknownOption: an option is unknown.
    """
    for name in options:
        if name not in known:
            remedy = (remedies or {}).get(name)
            hint = f": {remedy}" if remedy else did_you_mean(name, known)
            raise UnknownOption(f"{owner} has no option {name!r}{hint}")


def explaining(owner: str, remedies: Mapping[str, str]) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Return a decorator for functions whose errors name the remedy for an option that they do not have.

    Example:
        @explaining("disable()", {"tags": "use exclude_tags= of run() or asgi()"})
        def disable(self, definition): ...
    """

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        code = function.__code__
        known = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]

        @functools.wraps(function)
        def run(*args: P.args, **kwargs: P.kwargs) -> R:
            refuse_unknown(owner, kwargs, known, remedies)
            return function(*args, **kwargs)

        return run

    return decorate


def at_caller(function: Function) -> Function:
    """Let the errors of a definition point at the line of the caller, without frames of this package.

    Example:
        return at_caller(lambda function: Tool.define(function, **options))
    """

    @functools.wraps(function)
    def run(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except (DefinitionError, UnknownOption) as error:
            _keep_outer_frames(error)
            raise  # without an operand, so that this frame does not join the traceback

    @functools.wraps(function)
    async def run_async(*args: Any, **kwargs: Any) -> Any:
        try:
            return await function(*args, **kwargs)
        except (DefinitionError, UnknownOption) as error:
            _keep_outer_frames(error)
            raise

    return run_async if is_async(function) else run  # type: ignore[return-value]


def _keep_outer_frames(error: BaseException) -> None:
    error.__suppress_context__ = True
    error.__traceback__ = outside_package(error.__traceback__)


def raise_at_caller(names: str) -> Callable[[Kind], Kind]:
    """Return a class decorator that applies `at_caller` to some methods, and to the setters of some properties.

    Example:
        @raise_at_caller("tool page_size")
        class Server: ...
    """

    def decorate(kind: Kind) -> Kind:
        for name in names.split():
            member: Any = vars(kind)[name]
            if isinstance(member, property):
                setattr(kind, name, member.setter(at_caller(member.fset)))  # type: ignore[arg-type, type-var]
            elif isinstance(member, staticmethod | classmethod):
                setattr(kind, name, type(member)(at_caller(member.__func__)))
            else:
                setattr(kind, name, at_caller(member))
        return kind

    return decorate


def outside_package(traceback: TracebackType | None) -> TracebackType | None:
    """Return a traceback without the frames of this package, and of the event loop that it runs."""
    if traceback is None:
        return None
    inner = outside_package(traceback.tb_next)
    if traceback.tb_frame.f_globals.get("__name__", "").partition(".")[0] in _OWN_FRAMES:
        return inner
    return TracebackType(inner, traceback.tb_frame, traceback.tb_lasti, traceback.tb_lineno)
