"""`Resource` and `ResourceTemplate`: resources at a fixed URI or at the URIs of a template, and their results."""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Callable
from typing import Any, ClassVar, Unpack

import msgspec
from msgspec import Raw

from dragoman import types
from dragoman.errors import DefinitionError, ResourceNotFound, RpcError
from dragoman.protocol.jsonrpc import encode
from dragoman.runtime.callables import at_caller, refuse_unknown
from dragoman.schema.python.shapes import encode_json
from dragoman.schema.python.signature import ArgumentsRejected
from dragoman.server.define.completion import Completable, Completer, Completers
from dragoman.server.define.definition import (
    Definition,
    DefinitionOptions,
    Listed,
    P,
    Parameters,
    R,
    Returned,
    lists_options,
    snake_case,
)
from dragoman.server.request.call import Call
from dragoman.server.request.questions import InputRequired
from dragoman.server.wire_objects import optional_wire_object, wire_object

_DRIVE = r"[A-Za-z]:/"
_SCHEME = r"(?s)[A-Za-z][A-Za-z0-9+.-]*:.+"


# This function has no docstring, because the docstring would become the description of each resource that uses it.
def _read_nothing(**_: Any) -> None:
    return


class _Readable(Definition[Parameters, Returned]):
    """The base class of `Resource` and `ResourceTemplate`."""

    mime_type: str | None = None
    annotations: types.Annotations | types.Json | None = None

    _method: ClassVar[str] = "read"
    further_options: ClassVar[set[str]] = set()

    def __init__(self, **options: Any) -> None:
        if type(self).read is _Readable.read:
            self._set(options)
            self.inline = True
            self._adopt(_read_nothing, type(self).__name__, None)
        else:
            super().__init__(**options)

    def _default_name(self, source: str) -> str:
        uri: str = getattr(self, "uri", "") or getattr(self, "uri_template", "")
        return uri if source == "<lambda>" else super()._default_name(source)

    def read(self, *_: Any, **__: Any) -> Any:
        """Return the contents of the resource; a subclass overrides this, and otherwise the resource is empty."""

    def _described(self, kind: Callable[..., Listed], **fields: Any) -> Listed:
        annotations = optional_wire_object(self.annotations, types.Annotations, f"The annotations of {self.name!r}")
        return super()._described(kind, mime_type=self.mime_type, annotations=annotations, **fields)

    def result(self, call: Call, value: object) -> object:
        """Return the result for the function's value, or the value itself if it is `InputRequired`."""
        if isinstance(value, InputRequired):
            return value
        result = resource_result(value, call.request.params.uri, self.mime_type)
        if self.visible is not None and result.cache_scope is None:
            result.cache_scope = "private"
        return result if self.meta is None else _with_meta(result, self.meta)


class Resource(_Readable[Parameters, Returned]):
    """A resource at a fixed URI: a class with a `read` method, or an object that a decorator made from a function.

    Example:
        class Config(Resource):
            uri = "config://app"
            mime_type = "application/json"

            def read(self) -> dict: ...

        server = Server("app", resources=[Config])

    Raises:
        DefinitionError: the URI is not absolute, or the function takes parameters.
    """

    uri: str = ""
    size: int | None = None

    def _compile(self) -> None:
        if not re.fullmatch(_SCHEME, self.uri):
            raise DefinitionError(
                f"The resource {self.name!r} needs an absolute URI such as config://app, not {self.uri!r}"
            )
        self._refuse_parameters()
        self.definition = self._described(types.Resource, uri=self.uri, size=self.size)

    def _refuse_parameters(self) -> None:
        if self.signature.parameters:
            names = ", ".join(parameter.name for parameter in self.signature.parameters)
            raise DefinitionError(
                f"The resource {self.uri!r} has a fixed URI, so nothing can be given to {names}; write them into the"
                f" URI as {{{self.signature.parameters[0].name}}}, or remove them"
            )

    def complete(self, argument: str) -> Callable[[Completer], Completer]:
        """Raise DefinitionError: a fixed URI has no variable to complete.

        The method exists because `@resource` returns a Resource or a ResourceTemplate.

        Raises:
            DefinitionError: always.
        """
        raise DefinitionError(f"The resource {self.uri!r} has no variable {argument!r} to complete: its URI is fixed")


class ResourceTemplate(Completable, _Readable[Parameters, Returned]):
    """Resources whose URIs match an RFC 6570 template; the variables are the parameters of the function.

    Example:
        class Profile(ResourceTemplate):
            uri_template = "users://{user_id}/profile"

            def read(self, user_id: int) -> dict: ...

        server = Server("app", resource_templates=[Profile])

    A variable never holds a path that leaves its folder. A URI does not match if a variable has a `..` segment, an
    absolute path, a backslash or NUL. A slash matches only in a query, in `{+name}` and in `{#name}`. With
    `unsafe_paths = True` all of these match.

    Raises:
        DefinitionError: the template is not supported, or its variables are not the function's parameters.
    """

    uri_template: str = ""
    unsafe_paths: bool = False
    _flags: ClassVar[tuple[str, ...]] = (*Definition._flags, "unsafe_paths")

    def _compile(self) -> None:
        from dragoman.protocol.uritemplate import UriTemplate  # servers without templates do not import it

        self.template = UriTemplate(self.uri_template)
        self.completers = Completers(f"template {self.uri_template!r}", self.template.variables)
        self._compare_variables()
        self._many_segments = {
            name
            for expression in re.findall(r"\{([+#?&][^}]*)\}", self.uri_template)
            for name in expression[1:].split(",")
        }
        self.definition = self._described(types.ResourceTemplate, uri_template=self.uri_template)

    def _compare_variables(self) -> None:
        variables = set(self.template.variables)
        required = {parameter.name for parameter in self.signature.parameters if parameter.required}
        taken = {parameter.name for parameter in self.signature.parameters}
        if not required <= variables or not (variables <= taken or self.signature.takes_any):
            raise DefinitionError(
                f"The variables of {self.uri_template!r} are {sorted(variables)}, but its function takes"
                f" {sorted(taken)}; name them alike"
            )

    def match(self, uri: str) -> Raw | None:
        """Return the variables of a URI as encoded arguments, or None if the URI does not match the template."""
        variables = self.template.match(uri)
        if variables is None or not (self.unsafe_paths or all(self._is_safe(*item) for item in variables.items())):
            return None
        return Raw(encode(variables))

    def _is_safe(self, name: str, value: str) -> bool:
        if "\0" in value or "\\" in value:
            return False
        if name not in self._many_segments:
            return "/" not in value and value not in {"..", "."}
        return not value.startswith("/") and not re.match(_DRIVE, value) and ".." not in value.split("/")

    def _refusal(self, call: Call, rejected: ArgumentsRejected) -> RpcError:
        # A variable does not fit the type of its parameter, so there is no resource at this URI.
        return ResourceNotFound(call.request.params.uri, str(rejected))


def resource_result(value: Any, uri: str, mime_type: str | None) -> types.ReadResourceResult:
    """Return the result for the value of a `read` function: contents, a result, or a dict like a result."""
    if isinstance(value, types.ReadResourceResult):
        return msgspec.structs.replace(value, contents=[_contents(contents) for contents in value.contents])
    given = value.get("contents") if isinstance(value, dict) else None
    if isinstance(given, list) and all(map(_is_contents, given)):
        return wire_object(value, types.ReadResourceResult, "The result of a resource")
    return types.ReadResourceResult(resource_contents(value, uri, mime_type))


def _with_meta(result: types.ReadResourceResult, meta: types.Json) -> types.ReadResourceResult:
    contents = [msgspec.structs.replace(one, meta={**meta, **(one.meta or {})}) for one in result.contents]
    return msgspec.structs.replace(result, contents=contents)


def resource_contents(value: Any, uri: str, mime_type: str | None) -> list[types.ResourceContents]:
    """Return the contents for the value of a `read` function.

    Text becomes text contents, and bytes become a blob. Contents, dicts like contents, and lists with contents stay as
    they are. Any other value is encoded as JSON text.

    Raises:
        TypeError: JSON has no form for the value.
        ValidationError: the value has a NaN or an infinity.
    """
    if value is None:
        return []
    if _is_contents(value):
        return [_contents(value)]
    if isinstance(value, list | tuple) and any(map(_is_contents, value)):
        return [contents for item in value for contents in resource_contents(item, uri, mime_type)]
    if isinstance(value, str):
        return [types.ResourceContents(uri, mime_type or "text/plain", text=value)]
    if isinstance(value, bytes | bytearray | memoryview):
        blob = b64encode(value).decode("ascii")
        return [types.ResourceContents(uri, mime_type or "application/octet-stream", blob=blob)]
    text = encode_json(value).decode()
    return [types.ResourceContents(uri, mime_type or "application/json", text=text)]


def _contents(value: Any) -> types.ResourceContents:
    return wire_object(value, types.ResourceContents, "The contents of a resource")


_CONTENTS_KEYS = {"uri", "mimeType", "mime_type", "text", "blob", "_meta", "meta"}


def _is_contents(value: Any) -> bool:
    """Tell whether a value is the contents of a resource: an object, or a dict with a URI, and text or a blob."""
    if not isinstance(value, dict):
        return isinstance(value, types.ResourceContents)
    return "uri" in value and len(value.keys() & {"text", "blob"}) == 1 and value.keys() <= _CONTENTS_KEYS


class ResourceOptions(DefinitionOptions, total=False):
    """The options of a resource or template that is made from a function."""

    mime_type: str | None
    """The MIME type of the contents."""
    annotations: types.Annotations | types.Json | None
    """Hints for clients, such as the audience and the priority of the resource."""
    size: int | None
    """The number of bytes; only for a fixed URI."""
    unsafe_paths: bool
    """Let variables of a template hold paths that leave their folder."""


@at_caller
@lists_options(ResourceOptions, Resource, ResourceTemplate)
def resource(
    uri: str, **options: Unpack[ResourceOptions]
) -> Callable[[Callable[P, R]], Resource[P, R] | ResourceTemplate[P, R]]:
    """Make a resource from a function, or a resource template if the URI has variables; any server can register it.

    Example:
        @resource("users://{user_id}/profile")
        def profile(user_id: int) -> dict:
            return {"id": user_id}

    `size` is the number of bytes, only for a fixed URI. `unsafe_paths` lets variables of a template hold paths that
    leave their folder.

    Raises:
        DefinitionError: the URI or the function's parameters cannot be served.
    """
    if not isinstance(uri, str):
        raise _without_uri(uri)
    refuse_unknown("resource()", options, {*ResourceOptions.__annotations__, *Resource.further_options})
    if "{" in uri:
        options.pop("size", None)
        return lambda function: ResourceTemplate.define(function, uri_template=uri, **options)
    options.pop("unsafe_paths", None)
    return lambda function: Resource.define(function, uri=uri, **options)


def _without_uri(given: Any) -> DefinitionError:
    name = snake_case(getattr(given, "__name__", "app"))
    shown = f"{given.__name__}()" if callable(given) and hasattr(given, "__name__") else repr(given)
    return DefinitionError(
        f'A resource needs its URI, and {shown} was given: write @resource("config://{name}") above the function'
    )


__all__ = ["Resource", "ResourceTemplate", "resource"]
