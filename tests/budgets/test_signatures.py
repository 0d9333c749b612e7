"""No public signature says `Any` where a type can be said.

JSON has no closer type in Python than `dict[str, Any]`: a mapping of strings to anything, and its alias `Json`, count
as types, and so does what a coroutine is sent. Whatever else says `Any` is in the list of exceptions, with the reason.
The list may only shrink.
"""

import importlib
import inspect
import pkgutil
import re
from typing import Any, Union, get_args, get_origin

import pytest

import dragoman
from budgets.surface import signatures
from dragoman.server.define.prompts import PromptOptions
from dragoman.server.define.resources import ResourceOptions
from dragoman.server.define.tools import ToolOptions

ANY = re.compile(r"\bAny\b")
TYPES_WITH_ANY = re.compile(r"(?:dict|Mapping|MutableMapping)\[str, Any\]|Coroutine\[Any, Any,")
BY_AUTHOR = "an author's class overrides it with parameters and a result of its own"
ATTRIBUTES = "the options are the attributes of the class, and an author's class has further ones"
MACHINERY = "machinery of the server: the outcome is a value, or a coroutine that gives it"
KEPT = "without a type, whatever JSON the handlers kept"
READ_BY_EXTENSION = "whatever the extension reads of an entry"
MOST_EXCEPTIONS = 47
"""Lowered when an exception goes."""
EXCEPTIONS = {
    "dragoman.server.Context.server_context": "whatever the application gave to the server",
    "dragoman.server.BlockingContext.server_context": "whatever the application gave to the server",
    "dragoman.server.Context.lifespan": "whatever the lifespan of the application opens",
    "dragoman.server.BlockingContext.lifespan": "whatever the lifespan of the application opens",
    "dragoman.server.Depends": "`user: User = Depends(f)` must pass, whatever kind of function `f` is",
    "dragoman.server.Context.state": "whatever JSON the handler gave as its state",
    "dragoman.server.BlockingContext.state": "whatever JSON the handler gave as its state",
    "dragoman.server.HandlerState.get": KEPT,
    "dragoman.server.HandlerState.update": KEPT,
    "dragoman.server.BlockingHandlerState.get": KEPT,
    "dragoman.server.BlockingHandlerState.update": KEPT,
    "dragoman.server.Tool.call": BY_AUTHOR,
    "dragoman.server.Prompt.render": BY_AUTHOR,
    "dragoman.server.Resource.read": BY_AUTHOR,
    "dragoman.server.ResourceTemplate.read": BY_AUTHOR,
    "dragoman.server.Tool.__init__": ATTRIBUTES,
    "dragoman.server.Prompt.__init__": ATTRIBUTES,
    "dragoman.server.Resource.__init__": ATTRIBUTES,
    "dragoman.server.ResourceTemplate.__init__": ATTRIBUTES,
    "dragoman.server.Tool.define": ATTRIBUTES,
    "dragoman.server.Prompt.define": ATTRIBUTES,
    "dragoman.server.Resource.define": ATTRIBUTES,
    "dragoman.server.ResourceTemplate.define": ATTRIBUTES,
    "dragoman.server.Tool.begin": MACHINERY,
    "dragoman.server.Prompt.begin": MACHINERY,
    "dragoman.server.Resource.begin": MACHINERY,
    "dragoman.server.ResourceTemplate.begin": MACHINERY,
    "dragoman.server.ToolResult": "`structured` is whatever JSON the tool's schema has",
    "dragoman.server.Method.decode_params": "of the type that the row has for them",
    "dragoman.server.ServerExtension.define_tool": "a tool with any parameters and any result",
    "dragoman.client.ClientExtension.read_tool": READ_BY_EXTENSION,
    "dragoman.client.ClientExtension.read_resource": READ_BY_EXTENSION,
    **{
        f"dragoman.client.{face}{kind}.extension": READ_BY_EXTENSION
        for face in ("", "Async")
        for kind in ("BoundTool", "BoundPrompt", "BoundResource", "BoundResourceTemplate", "GroupTool")
    },
    "dragoman.client.LogMessage": "`data` is whatever JSON the server logs",
    "dragoman.client.CallResult.of": "a result is of any type until `result_type` is known",
    "dragoman.chat.AnyLlm.__init__": "whatever else the provider's library takes",
    "dragoman.errors.UrlElicitationRequired.elicitations": "objects or dicts, as they were given",
    "dragoman.testing.WirePeer.start": "any id, also one that is none, for tests of a server",
}


def says_any(annotation: object) -> bool:
    text = annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)
    return ANY.search(TYPES_WITH_ANY.sub("", text)) is not None


def found() -> dict[str, list[str]]:
    places: dict[str, list[str]] = {}
    for name, signature in signatures():
        annotations = {parameter.name: parameter.annotation for parameter in signature.parameters.values()}
        annotations["return"] = signature.return_annotation
        if wrong := [place for place, annotation in annotations.items() if says_any(annotation)]:
            places.setdefault(name, []).extend(wrong)
    return places


def test_no_public_signature_says_any_where_a_type_can_be_said():
    assert {name: places for name, places in found().items() if name not in EXCEPTIONS} == {}


def test_the_list_of_exceptions_only_shrinks():
    assert len(EXCEPTIONS) <= MOST_EXCEPTIONS


def test_no_exception_is_listed_that_is_none_any_more():
    assert EXCEPTIONS.keys() - found().keys() == set()


def test_no_alias_is_any_by_another_name():
    """An alias such as `str | Any` would hide from the test above."""
    hidden = []
    for module in pkgutil.walk_packages(dragoman.__path__, "dragoman."):
        for name, value in vars(importlib.import_module(module.name)).items():
            if value is not Any and get_origin(value) is Union and Any in get_args(value):
                hidden.append(f"{module.name}.{name}")
    assert hidden == []


def test_every_parameter_of_a_public_signature_has_a_type():
    for name, signature in signatures():
        parameters = list(signature.parameters.values())
        bare = [one.name for one in parameters if one.annotation is one.empty and one.name not in ("self", "cls")]
        assert not bare, f"{name}: {bare}"


@pytest.mark.parametrize(
    ("decorator", "options"),
    [("tool", ToolOptions), ("prompt", PromptOptions), ("resource", ResourceOptions)],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_help_lists_the_options_of_a_decorator(decorator, options):
    for owner in (dragoman, dragoman.Server):
        parameters = inspect.signature(getattr(owner, decorator)).parameters.values()
        assert {one.name for one in parameters if one.kind is one.KEYWORD_ONLY} == set(options.__annotations__)
        further = [one.name for one in parameters if one.kind is one.VAR_KEYWORD]
        assert further == (["further"] if decorator == "tool" else [])  # the options of extensions
