"""What is public: the names of the package and of its public packages, and the signatures behind them."""

import importlib
import inspect
from collections.abc import Iterator
from typing import get_overloads

from msgspec import Struct

PACKAGES = (
    "dragoman",
    "dragoman.server",
    "dragoman.server.middleware",
    "dragoman.client",
    "dragoman.chat",
    "dragoman.apps",
    "dragoman.auth",
    "dragoman.skills",
    "dragoman.stores",
    "dragoman.testing",
    "dragoman.views",
    "dragoman.types",
    "dragoman.errors",
)


def exported() -> dict[str, object]:
    """Return every public object by the first name under which it is exported."""
    found: dict[str, object] = {}
    seen: set[int] = set()
    for package in PACKAGES[1:]:
        module = importlib.import_module(package)
        for name in getattr(module, "__all__", None) or _own_names(module):
            value = getattr(module, name)
            if id(value) not in seen:
                seen.add(id(value))
                found[f"{package}.{name}"] = value
    return found


def _own_names(module: object) -> list[str]:
    return [
        name
        for name, value in vars(module).items()
        if isinstance(value, type) and value.__module__ == module.__name__ and not name.startswith("_")
    ]


def classes() -> dict[str, type]:
    """Return every public class by its name."""
    return {name: value for name, value in exported().items() if isinstance(value, type)}


def signatures() -> Iterator[tuple[str, inspect.Signature]]:
    """Yield every public signature: overloads instead of what implements them, properties, and blocking twins."""
    for name, value in exported().items():
        if isinstance(value, type):
            if issubclass(value, Struct) and not name.startswith("dragoman.types."):
                yield name, _fields(value)
            for member, attribute in _members(value):
                for function in _functions(attribute):
                    yield f"{name}.{member}", inspect.signature(function)
        elif inspect.isfunction(value):
            for function in _functions(value):
                yield name, inspect.signature(function)


def _fields(kind: type[Struct]) -> inspect.Signature:
    """Return what makes a Struct, as it is written: not every name of it is known when it runs."""
    written = {name: text for owner in kind.__mro__ for name, text in vars(owner).get("__annotations__", {}).items()}
    return inspect.Signature(
        [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation=text)
            for name, text in written.items()
            if name in kind.__struct_fields__
        ]
    )


def _members(kind: type) -> Iterator[tuple[str, object]]:
    seen: set[str] = set()
    for owner in kind.__mro__:
        if not owner.__module__.startswith("dragoman."):
            continue
        is_protocol = getattr(owner, "_is_protocol", False)
        for name, attribute in vars(owner).items():
            if is_protocol and name == "__init__":
                continue
            if name not in seen and (not name.startswith("_") or name in ("__init__", "__call__")):
                seen.add(name)
                yield name, attribute


def _functions(attribute: object) -> list[object]:
    if isinstance(attribute, property):
        return [function for function in (attribute.fget, attribute.fset) if function is not None]
    if isinstance(attribute, classmethod | staticmethod):
        attribute = attribute.__func__
    if not inspect.isfunction(attribute):
        return []
    plain = inspect.unwrap(attribute)
    return list(get_overloads(plain)) or [plain]
