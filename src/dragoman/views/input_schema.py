"""`InputReshaper`: the input schema that clients see for a tool under a view.

A client's arguments x become the arguments f(x) of the tool: names change, and values are added. The shown schema T(S)
accepts x if and only if the tool's schema S accepts f(x). The keywords that combine schemas (`allOf`, `not`, `if`, ...)
keep that property if their parts have it, so only the keywords about members are rewritten, at every place that applies
to the arguments themselves. The schemas of the values stay as they are. Their references to the definitions of the
document stay too; a reference to any other place leads to a copy of the tool's own schema.

The value of a computed argument is not known here, so it counts as one that fits. A schema whose keywords cannot be
rewritten exactly is a finding.

Rejected: replacing all references before reshaping. Recursive schemas have no such form.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import unquote

from dragoman.schema.compile import compile_schema
from dragoman.schema.peer_schemas import PeerSchema
from dragoman.schema.walk import ANCHORS, IN_PLACE, References, mapping, names_of, objects, subschemas, with_subschemas
from dragoman.types import Json
from dragoman.views.arguments import ArgumentNames
from dragoman.views.findings import Unsupported

NEVER: Json = {"not": {}}
"""The schema that no value fits."""
MAX_EXPANSIONS = 200
_DEFINITIONS = ("$defs", "definitions")
_EXAMPLES = ("examples", "default")
_DYNAMIC = ("$dynamicRef", "$recursiveRef")
_UNEVALUATED = "unevaluatedProperties"


def argument_names(schema: Json) -> list[str]:
    """Return the names of all arguments that a schema mentions, also in its combined parts."""
    names: dict[str, None] = {}
    for part in _in_place(schema):
        names |= dict.fromkeys(mapping(part, "properties"))
        names |= dict.fromkeys(names_of(part, "required"))
        for keyword in ("dependentRequired", "dependentSchemas", "dependencies"):
            names |= dict.fromkeys(mapping(part, keyword))
            names |= {name: None for needs in mapping(part, keyword).values() for name in _texts(needs)}
    return list(names)


def takes_further_arguments(schema: Json) -> bool:
    """Tell whether a schema says something about arguments that it does not name, and does not refuse them."""
    keywords = ("additionalProperties", _UNEVALUATED)
    return any(
        bool(mapping(part, "patternProperties")) or any(part.get(name, False) is not False for name in keywords)
        for part in _in_place(schema)
    )


def _in_place(schema: Json) -> Iterator[Json]:
    """Yield the schemas of a document that apply to the arguments themselves."""
    references, seen = References(schema), set()
    unvisited: list[Any] = [schema]
    while unvisited:
        part = unvisited.pop(0)
        if not isinstance(part, dict) or id(part) in seen:
            continue
        seen.add(id(part))
        yield part
        unvisited.append(references.target(part.get("$ref")))
        unvisited += [each for _, _, each in subschemas(part, IN_PLACE)]


def _texts(value: Any) -> list[str]:
    return [text for text in value if isinstance(text, str)] if isinstance(value, list) else []


class SchemaDocument:
    """The input schema of a tool, whose parts can be moved and compared with values."""

    def __init__(self, root: Json) -> None:
        self.root = root
        self.references = References(root)
        self.copy_name = "tool"
        while any(self.copy_name in mapping(root, holder) for holder in _DEFINITIONS):
            self.copy_name += "_"
        for part in objects(root):
            if any(keyword in part for keyword in _DYNAMIC) or (part is not root and isinstance(part.get("$id"), str)):
                raise Unsupported("its input schema has a $dynamicRef or a nested $id, which a view cannot follow")

    def moved(self, part: Any, *_: Any) -> Any:
        """Return a subschema that may stand at another place of a document with the same definitions."""
        if not isinstance(part, dict):
            return part
        moved = with_subschemas(part, self.moved)
        if isinstance(reference := part.get("$ref"), str):
            fragment = reference.partition("#")[2]
            if self.references.target(reference) is None or (fragment and not fragment.startswith("/")):
                raise Unsupported(f"its input schema has the reference {reference!r}, which a view cannot follow")
            is_definition = fragment.startswith(tuple(f"/{name}/" for name in _DEFINITIONS))
            moved["$ref"] = f"#{fragment}" if is_definition else f"#/$defs/{self.copy_name}{fragment}"
        return moved

    def with_definitions(self, schema: Json) -> Json:
        """Return a schema with the definitions that it needs, and those that these need."""
        dialect = {key: self.root[key] for key in ("$schema",) if key in self.root}
        needed: dict[str, Json] = {}
        unvisited: list[Any] = [schema]
        while unvisited:
            for part in objects(unvisited.pop()):
                holder, name = _definition_of(part.get("$ref"))
                source = self._copy() if name == self.copy_name else mapping(self.root, holder).get(name)
                if source is not None and name not in needed.setdefault(holder, {}):
                    needed[holder][name] = self.moved(source)
                    unvisited.append(needed[holder][name])
        return {**dialect, **schema, **needed}

    def _copy(self) -> Json:
        return {key: value for key, value in self.root.items() if key not in (*_DEFINITIONS, "$schema", "$id")}

    def refusal(self, part: Any, value: Any) -> str | None:
        """Return why a value does not fit a subschema; None if it fits."""
        schema = self.with_definitions({"allOf": [self.moved(part)]})
        return compiled(schema)(value)


def compiled(schema: Json) -> Callable[[Any], str | None]:
    """Return a function that tells why a value does not fit a schema; it returns None if the value fits."""
    try:
        peer = PeerSchema(schema, compile_schema(schema, any_draft=True))
    except ValueError as error:
        raise Unsupported(f"its schema is not a valid JSON Schema: {error}") from None

    def refusal(value: Any) -> str | None:
        violations = peer.violations(value)
        if violations is None:
            return "the schema is too complex to check the value"
        return "; ".join(map(str, violations)) or None

    return refusal


def _definition_of(reference: Any) -> tuple[str, str]:
    """Return the keyword and the name of the definition that a reference leads into; empty texts if none."""
    if not isinstance(reference, str) or not reference.startswith("#/"):
        return "", ""
    _, holder, name, *_ = [*unquote(reference).split("/"), ""]
    return (holder, name.replace("~1", "/").replace("~0", "~")) if holder in _DEFINITIONS else ("", "")


class InputReshaper:
    """Reshapes the input schema of one tool; `findings` are what does not match."""

    def __init__(self, document: SchemaDocument, names: ArgumentNames) -> None:
        self._document = document
        self._names = names
        self._expansions = 0
        self.findings: list[str] = []

    def reshaped(self, schema: Any, *, is_certain: bool) -> Any:
        """Return what a schema that applies to the tool's arguments demands of those of a client.

        `is_certain` tells whether the arguments must fit the schema, because no `anyOf`, `not` or `if` is around it.
        """
        if not isinstance(schema, dict):
            return schema
        if "$ref" in schema and "draft-0" in str(self._document.root.get("$schema")):
            schema = {"$ref": schema["$ref"]}  # the older drafts ignore what stands beside a reference
        part = _Rewritten(is_certain=is_certain)
        for keyword, value in schema.items():
            rewrite = _REWRITTEN.get(keyword)
            if rewrite is not None:
                rewrite(self, part, schema, keyword, value)
            elif keyword not in (*_DEFINITIONS, *_EXAMPLES, "$id", *ANCHORS):
                part.result[keyword] = self._document.moved({keyword: value})[keyword]
        self._check_values(part, schema)
        return part.schema()

    def _reference(self, part: _Rewritten, schema: Json, _: str, value: Any) -> None:  # noqa: ARG002
        target = self._document.references.target(value)
        self._expansions += 1
        if target is None or self._expansions > MAX_EXPANSIONS:
            raise Unsupported(f"its input schema has the reference {value!r}, which a view cannot follow")
        part.conditions.append(self.reshaped(target, is_certain=part.is_certain))

    def _branches(self, part: _Rewritten, _: Json, keyword: str, value: Any) -> None:
        is_certain = part.is_certain and keyword == "allOf"
        part.result[keyword] = [self.reshaped(branch, is_certain=is_certain) for branch in value]

    def _branch(self, part: _Rewritten, _: Json, keyword: str, value: Any) -> None:
        part.result[keyword] = self.reshaped(value, is_certain=False)

    def _properties(self, part: _Rewritten, _: Json, keyword: str, value: Any) -> None:
        shown = self._names.shown
        part.result[keyword] = {
            shown[name]: self._document.moved(each) for name, each in value.items() if name in shown
        }

    def _required(self, part: _Rewritten, _: Json, __: str, value: Any) -> None:
        for name in _texts(value):
            if name in self._names.hidden:
                self._refuse(part, f"the tool requires the argument {name!r}, which the view hides without a value")
            elif name not in self._names.always_present:
                part.require(self._names.shown_name(name))

    def _dependencies(self, part: _Rewritten, _: Json, keyword: str, value: Any) -> None:
        names = self._names
        result: Json = {}
        for trigger, needs in value.items():
            if trigger in names.hidden:
                continue
            demand = self._demand(needs) if isinstance(needs, list) else self.reshaped(needs, is_certain=False)
            if trigger in names.always_present:
                part.conditions.append(demand)
            elif isinstance(needs, list) and not demand.keys() - {"required"}:
                result[names.shown_name(trigger)] = demand.get("required", [])
            elif keyword == "dependentRequired":
                part.conditions.append({"dependentSchemas": {names.shown_name(trigger): demand}})
            else:
                result[names.shown_name(trigger)] = demand
        if result:
            part.result[keyword] = result

    def _demand(self, needs: list[Any]) -> Json:
        """Return the schema for arguments of a client whose counterparts have all of these names."""
        if self._names.hidden.intersection(_texts(needs)):
            return NEVER
        needed = [name for name in _texts(needs) if name not in self._names.always_present]
        return {"required": [self._names.shown_name(name) for name in needed]} if needed else {}

    def _count(self, part: _Rewritten, _: Json, keyword: str, value: Any) -> None:
        names = self._names
        if names.defaults:
            raise Unsupported(f"its input schema has {keyword}, so no argument can get a default: use fixed= instead")
        count = value - len(names.fixed) - len(names.computed)
        if (keyword == "minProperties" and count > 0) or (keyword == "maxProperties" and count >= 0):
            part.result[keyword] = count
        elif keyword == "maxProperties":
            self._refuse(part, f"the tool takes at most {value} arguments, and the view sets more")

    def _property_names(self, part: _Rewritten, _: Json, keyword: str, value: Any) -> None:
        document, names = self._document, self._names
        for name in sorted(names.always_present):
            if (reason := document.refusal(value, name)) is not None:
                self._refuse(part, f"the tool does not take an argument of the name {name!r}: {reason}")
        for name, shown in names.shown.items():
            fits, shown_fits = document.refusal(value, name) is None, document.refusal(value, shown) is None
            if name != shown and fits is not shown_fits:
                raise Unsupported(
                    f"its input schema restricts the names of arguments, and {shown!r} does not fit; use another name"
                )
        part.result[keyword] = document.moved(value)

    def _patterns(self, part: _Rewritten, _: Json, keyword: str, value: Any) -> None:
        for pattern in value:
            for name, shown in self._names.shown.items():
                if name != shown and _matches(pattern, name) != _matches(pattern, shown):
                    raise Unsupported(
                        f"its input schema has arguments by the pattern {pattern!r}, which matches only one of {name!r}"
                        f" and {shown!r}; use another name"
                    )
        part.result[keyword] = self._document.moved({keyword: value})[keyword]

    def _unevaluated(self, part: _Rewritten, schema: Json, keyword: str, value: Any) -> None:
        if not self._names.always_present <= mapping(schema, "properties").keys():
            raise Unsupported(
                f"its input schema has {keyword} beside arguments of its parts, so a view can set no values"
            )
        part.result[keyword] = self._document.moved(value)

    def _whole(self, part: _Rewritten, schema: Json, keyword: str, value: Any) -> None:  # noqa: ARG002
        raise Unsupported(f"its input schema lists whole sets of arguments by {keyword}, which a view cannot reshape")

    def _check_values(self, part: _Rewritten, schema: Json) -> None:
        """Compare fixed and default values with what a schema says about these arguments."""
        names = self._names
        for name in sorted(names.always_present):
            applying = list(_applying(schema, name))
            if applying and name in names.computed and not part.is_certain:
                raise Unsupported(f"its input schema has conditions on {name!r}, so its value cannot be computed")
            values = names.fixed if name in names.fixed else names.defaults
            reasons = [self._document.refusal(each, values[name]) for each in applying if name in values]
            reason = next((reason for reason in reasons if reason is not None), None)
            if reason is None:
                continue
            if part.is_certain:
                how = "fixed" if name in names.fixed else "default"
                self.findings.append(f"the {how} value of {name!r} does not fit: {reason}")
            elif name in names.fixed:
                part.conditions.append(NEVER)
            else:
                part.require(names.shown_name(name))

    def _refuse(self, part: _Rewritten, problem: str) -> None:
        if part.is_certain:
            self.findings.append(problem)
        part.conditions.append(NEVER)


class _Rewritten:
    """A subschema that is being rewritten."""

    def __init__(self, *, is_certain: bool) -> None:
        self.is_certain = is_certain
        self.result: Json = {}
        self.conditions: list[Any] = []
        """Further schemas that the arguments must fit."""
        self._required: list[str] = []

    def require(self, name: str) -> None:
        """Demand an argument of the client."""
        if name not in self._required:
            self._required.append(name)

    def schema(self) -> Json:
        """Return the rewritten subschema."""
        result = {**self.result, "required": self._required} if self._required else self.result
        conditions = [condition for condition in self.conditions if condition not in ({}, True)]
        if conditions:
            result = {**result, "allOf": [*result.get("allOf", ()), *conditions]}
        return result


def _applying(schema: Json, name: str) -> Iterator[Any]:
    """Yield the subschemas for the value of one argument."""
    properties, patterns = mapping(schema, "properties"), mapping(schema, "patternProperties")
    matching = [each for pattern, each in patterns.items() if _matches(pattern, name)]
    yield from matching
    if name in properties:
        yield properties[name]
    elif not matching and "additionalProperties" in schema:
        yield schema["additionalProperties"]


def _matches(pattern: str, name: str) -> bool:
    return compiled({"pattern": pattern})(name) is None


_REWRITTEN: dict[str, Callable[[InputReshaper, _Rewritten, Json, str, Any], None]] = {
    "$ref": InputReshaper._reference,
    "allOf": InputReshaper._branches,
    "anyOf": InputReshaper._branches,
    "oneOf": InputReshaper._branches,
    "not": InputReshaper._branch,
    "if": InputReshaper._branch,
    "then": InputReshaper._branch,
    "else": InputReshaper._branch,
    "properties": InputReshaper._properties,
    "required": InputReshaper._required,
    "dependentRequired": InputReshaper._dependencies,
    "dependentSchemas": InputReshaper._dependencies,
    "dependencies": InputReshaper._dependencies,
    "minProperties": InputReshaper._count,
    "maxProperties": InputReshaper._count,
    "propertyNames": InputReshaper._property_names,
    "patternProperties": InputReshaper._patterns,
    "unevaluatedProperties": InputReshaper._unevaluated,
    "enum": InputReshaper._whole,
    "const": InputReshaper._whole,
}
"""How the keywords about the members of arguments are rewritten; all others apply to the values of arguments."""
