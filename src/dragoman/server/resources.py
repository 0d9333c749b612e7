"""Resources: what a client may read, at a fixed URI or at any that follows a template."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from types import CoroutineType
from typing import Any, ClassVar

from msgspec import Raw

from dragoman import types
from dragoman.errors import DefinitionError, ResourceNotFound
from dragoman.protocol.jsonrpc import encode
from dragoman.protocol.uritemplate import UriTemplate
from dragoman.server.call import Call
from dragoman.server.completion import Completer, Completers
from dragoman.server.definition import Definition, P, Parameters, R, Returned, settled_value, snake_case
from dragoman.server.questions import InputRequired
from dragoman.server.results import resource_result, wire_object
from dragoman.server.signature import ArgumentsRejected

_DRIVE = re.compile(r"[A-Za-z]:/")
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:.+", re.DOTALL)


# No docstring: it would be the description of every resource without a reader.
def _nothing(**_: Any) -> None:
    return


class _Readable(Definition[Parameters, Returned]):
    """What fixed and templated resources share."""

    mime_type: str | None = None
    annotations: types.Annotations | types.Json | None = None

    _method: ClassVar[str] = "read"

    def __init__(self, **options: Any) -> None:
        if type(self).read is _Readable.read:
            self._set(options)
            self.inline = True
            self._adopt(_nothing, type(self).__name__, None)
        else:
            super().__init__(**options)

    def read(self, *_: Any, **__: Any) -> Any:
        """What the resource holds; a class defines it, and without it the resource is empty."""

    def _listed_annotations(self) -> types.Annotations | None:
        found = wire_object(self.annotations, types.Annotations, f"The annotations of {self.name!r}")
        return found if isinstance(found, types.Annotations) else None

    def run(self, call: Call, uri: str, variables: Raw) -> Any:
        """Read the resource; the outcome is a result, or a coroutine that gives it."""
        outcome = self.invoke(call, variables)
        return self._settle(outcome, uri) if isinstance(outcome, CoroutineType) else self._result(outcome, uri)

    async def _settle(self, outcome: CoroutineType[Any, Any, Any], uri: str) -> Any:
        return self._result(await settled_value(outcome), uri)

    def _result(self, value: Any, uri: str) -> Any:
        return value if isinstance(value, InputRequired) else resource_result(value, uri, self.mime_type)


_NO_VARIABLES = Raw(b"{}")


class Resource(_Readable[Parameters, Returned]):
    """A resource at a fixed URI: a class with a `read` method, or what the decorators make of a function.

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
        if not _SCHEME.fullmatch(self.uri):
            raise DefinitionError(
                f"The resource {self.name!r} needs an absolute URI such as config://app, not {self.uri!r}"
            )
        self._refuse_parameters()
        self.definition = types.Resource(
            name=self.name,
            title=self.title,
            description=self.description,
            icons=self._listed_icons(),
            meta=self.meta,
            uri=self.uri,
            mime_type=self.mime_type,
            annotations=self._listed_annotations(),
            size=self.size,
        )

    def _refuse_parameters(self) -> None:
        if self.signature.parameters:
            names = ", ".join(parameter.name for parameter in self.signature.parameters)
            raise DefinitionError(
                f"The resource {self.uri!r} has a fixed URI, so nothing can be given to {names}; write them into the"
                f" URI as {{{self.signature.parameters[0].name}}}, or remove them"
            )

    def complete(self, variable: str) -> Callable[[Completer], Completer]:
        """Refuse to complete a variable, as a fixed URI has none; a resource may be of either kind.

        Raises:
            DefinitionError: always.
        """
        raise DefinitionError(f"The resource {self.uri!r} has no variable {variable!r} to complete: its URI is fixed")

    def read_at(self, call: Call, uri: str) -> Any:
        """Read the resource."""
        return self.run(call, uri, _NO_VARIABLES)


class ResourceTemplate(_Readable[Parameters, Returned]):
    """Resources whose URIs follow an RFC 6570 template: its variables are the function's parameters.

    Example:
        class Profile(ResourceTemplate):
            uri_template = "users://{user_id}/profile"

            def read(self, user_id: int) -> dict: ...

        server = Server("app", resource_templates=[Profile])

    A variable never holds a path that climbs out: `..` segments, absolute paths, backslashes and NUL are not found, and
    neither is a slash, except in a query and in `{+name}` and `{#name}`. `unsafe_paths = True` lets them through.

    Raises:
        DefinitionError: the template cannot be matched, or its variables are not the function's parameters.
    """

    uri_template: str = ""
    unsafe_paths: bool = False

    def _compile(self) -> None:
        self.template = UriTemplate(self.uri_template)
        self._completers = Completers()
        self._compare_variables()
        self._many_segments = {
            name
            for expression in re.findall(r"\{([+#?&][^}]*)\}", self.uri_template)
            for name in expression[1:].split(",")
        }
        self.definition = types.ResourceTemplate(
            name=self.name,
            title=self.title,
            description=self.description,
            icons=self._listed_icons(),
            meta=self.meta,
            uri_template=self.uri_template,
            mime_type=self.mime_type,
            annotations=self._listed_annotations(),
        )

    def _compare_variables(self) -> None:
        variables = set(self.template.variables)
        required = {parameter.name for parameter in self.signature.parameters if parameter.required}
        taken = {parameter.name for parameter in self.signature.parameters}
        if not required <= variables or not (variables <= taken or self.signature.takes_any):
            raise DefinitionError(
                f"The variables of {self.uri_template!r} are {sorted(variables)}, but its function takes"
                f" {sorted(taken)}; name them alike"
            )

    @property
    def completers(self) -> Completers:
        """The completions of the template's variables."""
        return self._completers

    def complete(self, variable: str) -> Callable[[Completer], Completer]:
        """Complete a variable of the template by the decorated function.

        Raises:
            DefinitionError: the template has no such variable.
        """
        return self._completers.decorator(variable, self.template.variables, f"template {self.uri_template!r}")

    def match(self, uri: str) -> Raw | None:
        """Return the variables of a URI as arguments, or None when it does not follow the template."""
        variables = self.template.match(uri)
        if variables is None or not (self.unsafe_paths or all(self._is_safe(*item) for item in variables.items())):
            return None
        return Raw(encode(variables))

    def _is_safe(self, name: str, value: str) -> bool:
        if "\0" in value or "\\" in value:
            return False
        if name not in self._many_segments:
            return "/" not in value and value not in {"..", "."}
        return not value.startswith("/") and not _DRIVE.match(value) and ".." not in value.split("/")

    def read_at(self, call: Call, uri: str, variables: Raw) -> Any:
        """Read the resource at a URI that matched.

        Raises:
            ResourceNotFound: a variable is of the wrong type for the function.
        """
        try:
            return self.run(call, uri, variables)
        except ArgumentsRejected:
            raise ResourceNotFound(uri) from None


def resource(
    uri: str,
    /,
    *,
    name: str | None = None,
    title: str | None = None,
    description: str | None = None,
    mime_type: str | None = None,
    annotations: types.Annotations | types.Json | None = None,
    size: int | None = None,
    meta: types.Json | None = None,
    icons: Iterable[types.Icon | types.Json] = (),
    inline: bool = False,
    unsafe_paths: bool = False,
) -> Callable[[Callable[P, R]], Resource[P, R] | ResourceTemplate[P, R]]:
    """Make a resource, or a template when the URI has variables, of a function, for any server.

    Example:
        @resource("users://{user_id}/profile")
        def profile(user_id: int) -> dict:
            return {"id": user_id}

    `size` is how many bytes it has, for a fixed URI alone. `unsafe_paths` lets variables of a template hold paths that
    climb out.

    Raises:
        DefinitionError: the URI or the function's parameters cannot be served.
    """
    if not isinstance(uri, str):
        raise _without_uri(uri)
    shared: dict[str, Any] = {
        "name": name,
        "title": title,
        "description": description,
        "mime_type": mime_type,
        "annotations": annotations,
        "meta": meta,
        "icons": icons,
        "inline": inline,
    }
    if "{" in uri:
        return lambda function: ResourceTemplate.define(function, uri_template=uri, unsafe_paths=unsafe_paths, **shared)
    return lambda function: Resource.define(function, uri=uri, size=size, **shared)


def _without_uri(given: Any) -> DefinitionError:
    name = snake_case(getattr(given, "__name__", "app"))
    return DefinitionError(
        f'A resource needs its URI, and {given!r} was given: write @resource("config://{name}") above the function'
    )


__all__ = ["Resource", "ResourceTemplate", "resource"]
