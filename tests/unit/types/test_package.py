from __future__ import annotations

import inspect
import pkgutil
from importlib import import_module

import msgspec

from dragoman import types

PRIVATE = {
    "AnnotatedBlock",
    "AskedRequest",
    "Block",
    "Capabilities",
    "FieldSchema",
    "Named",
    "ResourceRequestParams",
    "Wire",
    "WithMeta",
}
"""Bases that only the package itself needs."""


def test_every_public_name_is_there() -> None:
    assert all(hasattr(types, name) for name in types.__all__)


def test_no_module_is_a_public_name() -> None:
    assert not [name for name in types.__all__ if inspect.ismodule(getattr(types, name)) or name.startswith("_")]


def test_every_struct_of_the_package_is_public() -> None:
    modules = [import_module(f"dragoman.types.{module.name}") for module in pkgutil.iter_modules(types.__path__)]
    structs = {
        name
        for module in modules
        for name, kind in vars(module).items()
        if inspect.isclass(kind) and issubclass(kind, msgspec.Struct) and kind.__module__ == module.__name__
    }
    assert structs - PRIVATE <= set(types.__all__)
    assert structs >= PRIVATE


def test_the_reserved_keys_of_meta_have_the_prefix_of_the_protocol() -> None:
    names = {name for name in types.__all__ if name.isupper()} - {"TRACEPARENT", "TRACESTATE", "BAGGAGE", "TRACE_KEYS"}
    assert len(names) == 6
    assert all(getattr(types, name).startswith("io.modelcontextprotocol/") for name in names)


def test_the_trace_context_has_the_keys_of_its_own_standard() -> None:
    assert types.TRACE_KEYS == (types.TRACEPARENT, types.TRACESTATE, types.BAGGAGE)
    assert types.TRACE_KEYS == ("traceparent", "tracestate", "baggage")
