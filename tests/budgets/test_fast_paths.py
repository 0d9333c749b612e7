"""Speed lives in named places: what is done for it alone stands in `FAST_PATHS`, and nowhere else.

Four things make code fast and hard to trust: names that asyncio keeps to itself, coroutines that are driven by hand,
JSON that is put together from bytes, and a second path for what a plain path does. The first three are found in the
syntax; the last cannot be, so its entries are only held to name what exists. Each entry names the test that compares
it with the plain path on many inputs.
"""

import ast
import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from budgets.source import ROOT, SOURCE, tree

PRIVATE, DRIVEN, SPLICED, SECOND = "private asyncio", "driven by hand", "spliced bytes", "a second path"


class FastPath(NamedTuple):
    """Something that is done for speed."""

    file: str
    kind: str
    names: tuple[str, ...]
    """The functions and classes in which it is done; empty for the module itself."""
    instead_of: str
    for_whom: str
    """The user who would wait otherwise."""
    compared_by: str


_IN_PLACE = "properties/test_server_shortcuts.py::test_an_inline_handler_says_what_one_in_a_thread_says"
_HTTP = "properties/test_http_carriers.py::test_every_carrier_of_http_answers_alike"

FAST_PATHS = (
    FastPath(
        "server/request/driving.py",
        DRIVEN,
        ("_run_in_place",),
        instead_of="a thread that waits for the loop",
        for_whom="callers of an inline tool that reports progress or logs",
        compared_by=_IN_PLACE,
    ),
    FastPath(
        "transports/http/http1.py",
        SECOND,
        ("Http1Connection",),
        instead_of="uvicorn's ASGI connection",
        for_whom="clients of a server that many others call over HTTP at the same time",
        compared_by=_HTTP,
    ),
)
MOST_FAST_PATHS = 6

# Attributes by which tasks and futures do their work, but for those that classes of ours have too.
_INSIDE = {name for name in (*dir(asyncio.Task), *dir(asyncio.Future)) if name.startswith("_") and name[1] != "_"} - {
    "_callbacks",
    "_exception",
    "_loop",
    "_result",
    "_state",
}
_JSON = frozenset(b'{}[]",:')


def found_in(node: ast.AST, definition: str = "") -> Iterator[tuple[str, str]]:
    """Return what is done for speed in a piece of syntax, and the outermost definition that does it."""
    for part in ast.iter_child_nodes(node):
        is_definition = isinstance(part, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        name = part.name if is_definition and not definition else definition
        kind = _kind_of(part)
        if kind is not None:
            yield kind, name
        if not _only_delegates(part):
            yield from found_in(part, name)


def _only_delegates(node: ast.AST) -> bool:
    """Tell whether this is a method `__await__` that returns that of another object: Python drives the coroutine."""
    if not isinstance(node, ast.FunctionDef) or node.name != "__await__":
        return False
    match node.body[-1]:
        case ast.Return(value=ast.Call(func=ast.Attribute(attr="__await__"))):
            return True
        case _:
            return False


def _kind_of(node: ast.AST) -> str | None:
    """Return what a piece of syntax does for speed, if anything."""
    match node:
        case ast.Attribute(attr=name, value=owner) if _is_private(name) and (
            name in _INSIDE or _first_name(owner) == "asyncio"
        ):
            return PRIVATE
        case ast.Constant(value=str(name)) if name in _INSIDE:
            return PRIVATE
        case ast.Import(names=names) if any(alias.name == "_asyncio" for alias in names):
            return PRIVATE
        case ast.ImportFrom(module=str(module), names=names) if module.split(".")[0] in ("asyncio", "_asyncio") and (
            module.startswith("_") or any(alias.name.startswith("_") for alias in names)
        ):
            return PRIVATE
        case ast.ClassDef(bases=bases) if {"Coroutine", "Generator"} & {_last_name(base) for base in bases}:
            return DRIVEN
        case ast.Call(func=ast.Attribute(attr="__await__" | "throw")):
            return DRIVEN
        case ast.Call(func=ast.Attribute(attr="send"), args=[ast.Constant(value=None)]):
            return DRIVEN
        case ast.BinOp(op=ast.Add() | ast.Mod(), left=left, right=right) if _is_json(left) or _is_json(right):
            return SPLICED
        case ast.Call(func=ast.Attribute(attr="join" | "removesuffix" | "removeprefix", value=whole), args=given) if (
            any(_is_json(one) for one in (whole, *given))
        ):
            return SPLICED
        case ast.Subscript(value=ast.Call(func=function), slice=ast.Slice()) if "encode" in _last_name(function):
            return None if isinstance(function, ast.Attribute) and _is_text(function.value) else SPLICED
        case ast.Slice() if any(_is_json(part) for part in ast.walk(node)):
            return SPLICED
        case _:
            return None


def _is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__")


def _first_name(node: ast.expr) -> str:
    while isinstance(node, ast.Attribute):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""


def _last_name(node: ast.expr) -> str:
    if isinstance(node, ast.Subscript):
        node = node.value
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def _is_text(node: ast.expr) -> bool:
    """Tell whether this is text that is turned into bytes, and no encoder."""
    return not (isinstance(node, ast.Name) and node.id in ("jsonrpc", "json", "msgspec", "_encoder"))


def _is_json(node: ast.AST) -> bool:
    """Tell whether this is a piece of JSON in bytes: it has quotes or brackets, or is a comma or a colon."""
    if not isinstance(node, ast.Constant) or not isinstance(node.value, bytes):
        return False
    marks = _JSON & set(node.value)
    return bool(marks - set(b",:")) or (bool(marks) and set(node.value) <= _JSON)


def uses() -> Iterator[tuple[str, str, str]]:
    """Return each file, kind and definition of `src` in which something is done for speed that the syntax shows."""
    for path in sorted(SOURCE.rglob("*.py")):
        found = found_in(tree(path))
        yield from ((path.relative_to(SOURCE).as_posix(), kind, name) for kind, name in found)


def definitions(path: Path) -> set[str]:
    """Return the functions and classes of a file or of the files of a folder, and the methods of these."""
    if path.is_dir():
        return {name for file in path.glob("*.py") for name in definitions(file)}
    found = set()
    for node in tree(path).body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            found.add(node.name)
            found |= {f"{node.name}.{one.name}" for one in node.body if isinstance(one, ast.FunctionDef)}
    return found


def test_what_is_done_for_speed_stands_in_the_list_and_what_stands_there_is_done():
    listed = {(path.file, path.kind, name) for path in FAST_PATHS if path.kind != SECOND for name in path.names}
    assert set(uses()) == listed


def test_there_are_at_most_six_fast_paths_each_in_one_file():
    assert len(FAST_PATHS) <= MOST_FAST_PATHS
    assert all((SOURCE / path.file).is_file() for path in FAST_PATHS)


@pytest.mark.parametrize("path", FAST_PATHS, ids=lambda path: f"{path.file}: {path.kind}")
def test_a_fast_path_exists_and_so_does_the_test_that_compares_it(path):
    assert set(path.names) - {""} <= definitions(SOURCE / path.file)
    file, _, name = path.compared_by.partition("::")
    assert name in definitions(ROOT / "tests" / file)


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        ("asyncio._get_running_loop()", PRIVATE),
        ("asyncio.tasks._current_tasks.get", PRIVATE),
        ("from asyncio.events import _get_running_loop", PRIVATE),
        ("import _asyncio", PRIVATE),
        ("task._must_cancel", PRIVATE),
        ("getattr(awaited, '_asyncio_future_blocking', False)", PRIVATE),
        ("work.send(None)", DRIVEN),
        ("work.throw(error)", DRIVEN),
        ("next(work.__await__(), None)", DRIVEN),
        ("class Begun(Generator[Any, None, None]): ...", DRIVEN),
        ("b'{\"result\":' + data + b'}'", SPLICED),
        ("b'{\"%s\":%s}' % (name, data)", SPLICED),
        ("b','.join(messages)", SPLICED),
        ("jsonrpc.encode(envelope)[:-1]", SPLICED),
        ("encode(name)[1:-1]", SPLICED),
        ("whole[: -len(b'null}')]", SPLICED),
        ("self._loop.create_task(work)", None),
        ("b'content-length: %d' % size", None),
        ("b''.join(parts)", None),
        ("sha256(name.encode()).hexdigest()[:8]", None),
        ("await stream.send(message)", None),
        ("def __await__(self): return self.work.__await__()", None),
        ("def __await__(self): return next(self.work.__await__())", DRIVEN),
    ],
)
def test_the_scan_knows_what_is_done_for_speed(code, kind):
    found = found_in(ast.parse(f"async def work():\n    {code}"))
    assert set(found) == ({(kind, "work")} if kind else set())
