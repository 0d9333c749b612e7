"""`ToolArguments`: the arguments of one tool under one view: the schema that clients see, and the way to the tool."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec
from msgspec import UNSET, Raw

from dragoman.errors import ToolError, ValidationError
from dragoman.runtime.callables import did_you_mean, invoke
from dragoman.schema.coerce import coerce
from dragoman.schema.walk import mapping, shortened
from dragoman.types import Json
from dragoman.views.arguments import ArgumentNames, decode_arguments
from dragoman.views.constraints import conflict, customized
from dragoman.views.input_schema import (
    InputReshaper,
    SchemaDocument,
    argument_names,
    compiled,
    takes_further_arguments,
)
from dragoman.views.view import Argument

_MAX_LISTED = 200


class ToolArguments:
    """The arguments of a tool as a view shows them.

    Raises:
        Unsupported: the schema of the tool is invalid, or a view cannot reshape it exactly.
    """

    def __init__(self, tool: str, schema: Json, arguments: Mapping[str, Argument]) -> None:
        self._tool = tool
        """The name of the tool that clients see in errors."""
        self._inner_refusal = compiled(schema)
        document = SchemaDocument(schema)
        known = argument_names(schema)
        self.findings = [_unknown(name, known) for name in arguments if name not in known]
        arguments = {name: argument for name, argument in arguments.items() if name in known}
        self.names = ArgumentNames(known, arguments, is_open=takes_further_arguments(schema))
        for one, other in self.names.clashes:
            self.findings.append(f"the arguments {one!r} and {other!r} would have the same name")
        reshaper = InputReshaper(document, self.names)
        root = reshaper.reshaped(schema, is_certain=True)
        self.findings += reshaper.findings
        shown = self._closed(self._customized(root, arguments))
        self.schema = document.with_definitions({"type": "object", "properties": {}, **shown})
        """The input schema that clients see."""
        if not self.findings:
            self._check_constraints(document, arguments)
        self._refusal: Callable[[Any], str | None] = compiled(self.schema)

    def _customized(self, root: Json, arguments: Mapping[str, Argument]) -> Json:
        """Return the root with the descriptions, defaults and constraints of the view."""
        properties, further = dict(mapping(root, "properties")), {}
        for name, argument in arguments.items():
            shown = self.names.shown.get(name)
            if shown in properties:
                problem = conflict(properties[shown], argument.schema)
                self.findings += [f"no value fits the argument {name!r}: {problem}"] if problem else []
                properties[shown] = customized(properties[shown], argument)
            elif shown is not None and (part := customized({}, argument)):
                # A member of `properties` would be exempt from `additionalProperties`.
                further[shown] = part
        root = {**root, "properties": properties} if properties else root
        return {**root, "allOf": [*root.get("allOf", ()), {"properties": further}]} if further else root

    def _closed(self, root: Json) -> Json:
        """Return the root so that it refuses the arguments that clients may not send."""
        names, shown = self.names, set(self.names.shown.values())
        gone = sorted(set(names.gone) - shown)
        if root.get("additionalProperties") is False or not (names.is_closed or gone):
            return root
        if names.is_closed and root.get("properties", {}).keys() == shown:
            return {**root, "additionalProperties": False}
        demand: Json = {"enum": sorted(shown)} if names.is_closed else {"not": {"enum": gone}}
        if "propertyNames" in root:
            return {**root, "allOf": [*root.get("allOf", ()), {"propertyNames": demand}]}
        return {**root, "propertyNames": demand}

    def _check_constraints(self, document: SchemaDocument, arguments: Mapping[str, Argument]) -> None:
        """Compare defaults with the constraints of the view; the reshaper compared them with the tool's schema."""
        for name, argument in arguments.items():
            if argument.default is not UNSET and argument.schema is not None:
                reason = document.refusal(argument.schema, argument.default)
                if reason is not None:
                    self.findings.append(f"the default value of {name!r} does not fit its own schema: {reason}")

    async def inner(self, arguments: Raw | bytes | Mapping[str, object], context: object) -> Raw:
        """Return the arguments that the tool receives for those of a client.

        Raises:
            ToolError: the client sends an argument that it may not send, or a value that does not fit.
            ValidationError: a computed value does not fit the schema of the tool.
        """
        members, decoded = decode_arguments(arguments)
        self.names.check(self._tool, members)
        members = self.names.known(members)
        decoded = {name: decoded[name] for name in members}
        if self._refusal(decoded) is not None:
            repaired = coerce(decoded, self.schema)
            if (reason := self._refusal(repaired)) is not None:
                raise ToolError(f"Invalid arguments: {reason}")
            members |= {
                name: Raw(msgspec.json.encode(value)) for name, value in repaired.items() if value is not decoded[name]
            }
        computed = {name: await invoke(f, context, in_place=True) for name, f in self.names.computed.items()}
        inner = Raw(msgspec.json.encode(self.names.inner(members, computed)))
        if (reason := self._inner_refusal(msgspec.json.decode(inner))) is not None:
            # Not a ToolError: the reason may show a value that clients must not see.
            raise ValidationError(f"The view of {self._tool!r} makes arguments that the tool does not take: {reason}")
        return inner


def _unknown(name: str, known: list[str]) -> str:
    listed = shortened(", ".join(known) or "none", _MAX_LISTED)
    return f"the tool has no argument {name!r}{did_you_mean(name, known)}; it has {listed}"
