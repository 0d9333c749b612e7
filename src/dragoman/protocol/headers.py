"""HTTP headers that mirror parts of a request (2026-07-28): clients build them, servers check them.

Proxies route by these headers without reading the body, so a server must reject a header that differs from the body.
`Mcp-Method` mirrors the method. `Mcp-Name` mirrors the name or URI in the parameters. A property of a tool's input
schema with the annotation `x-mcp-header` is mirrored as `Mcp-Param-<annotation>`; a `HeaderPlan` holds the annotations
of one schema. A value that a header cannot carry is sent in the Base64 sentinel encoding: `=?base64?...?=`.
"""

from __future__ import annotations

import re
from base64 import b64decode, b64encode
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any

import msgspec
from msgspec import Raw, Struct

from dragoman import types
from dragoman.errors import DefinitionError, HeaderMismatch, ValidationError
from dragoman.protocol.jsonrpc import Request, encode
from dragoman.protocol.methods import Method
from dragoman.schema.walk import subschemas
from dragoman.types import Json

PARAM_PREFIX = "mcp-param-"
ANNOTATION = "x-mcp-header"

_OWS = " \t"
_READABLE = r"[\t\x20-\x7e]*"
_HEADER_NAME = r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+"
_INTEGER = r"-?[0-9]{1,16}(?:\.0+)?"
_MAX_INTEGER = 2**53 - 1
_SENTINEL_START, _SENTINEL_END = "=?base64?", "?="
_SENTINEL = r"=\?base64\?(.*)\?="
_PERMIT_BASE64 = ("Mcp-Name", "Mcp-Param-")
_parts = msgspec.json.Decoder(dict[str, Raw])
_text = msgspec.json.Decoder(str)

Mirrored = str | int | bool


def encode_value(value: Mirrored) -> str:
    """Return a value as a header carries it.

    Raises:
        ValidationError: the value is an integer beyond 2**53 - 1, which some peers round, or has a lone surrogate.
    """
    if isinstance(value, int) and abs(value) > _MAX_INTEGER:
        raise ValidationError(f"A header carries integers up to {_MAX_INTEGER} (2**53 - 1), not larger ones")
    text = _spell(value)
    if _is_plain(text) and not (text.startswith(_SENTINEL_START) and text.endswith(_SENTINEL_END)):
        return text
    try:
        return f"{_SENTINEL_START}{b64encode(text.encode()).decode('ascii')}{_SENTINEL_END}"
    except UnicodeEncodeError as error:
        raise ValidationError(f"The value cannot be sent in a header: {error}") from None


def _is_plain(text: str) -> bool:
    return text.isascii() and text.isprintable() and text == text.strip(_OWS)


def _spell(value: Mirrored) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def decode_value(header: str, text: str) -> str:
    """Return the value of a header that permits the Base64 sentinel encoding.

    Raises:
        HeaderMismatch: the header has invalid characters, or its base64 is malformed.
    """
    text = _read_value(header, text)
    encoded = re.fullmatch(_SENTINEL, text)
    try:
        return text if encoded is None else b64decode(encoded[1], validate=True).decode()
    except ValueError:
        raise HeaderMismatch(f"The header {header} is not valid base64 of UTF-8") from None


def _read_value(header: str, text: str) -> str:
    text = text.strip(_OWS)
    if not re.fullmatch(_READABLE, text):
        raise HeaderMismatch(f"The header {header} has invalid characters; send printable ASCII")
    return text


class McpHeaders(Struct, frozen=True):
    """The headers of one HTTP request that the protocol reads."""

    protocol_version: str | None = None
    session_id: str | None = None
    last_event_id: str | None = None
    accept: str | None = None
    content_type: str | None = None
    method: str | None = None
    name: str | None = None
    params: Mapping[str, str] = {}
    """The `Mcp-Param-*` headers, by the rest of the name in lower case."""
    repeated: str | None = None
    """An `Mcp-*` header that was sent more than once."""


_FIELDS = {
    b"mcp-protocol-version": "protocol_version",
    b"mcp-session-id": "session_id",
    b"mcp-method": "method",
    b"mcp-name": "name",
    b"last-event-id": "last_event_id",
    b"accept": "accept",
    b"content-type": "content_type",
}


def read(lines: Iterable[tuple[bytes, bytes]]) -> McpHeaders:
    """Return the headers of a request from (name, value) pairs; names are lower-case, as in ASGI."""
    found: dict[str, Any] = {}
    params: dict[str, str] = {}
    for name, value in lines:
        field = _FIELDS.get(name)
        if field is None and not name.startswith(b"mcp-param-"):
            continue
        # Some HTTP servers pass the optional white space around a value (RFC 9110) as part of the value.
        text = value.decode("latin-1").strip(_OWS)
        target, key = (found, field) if field is not None else (params, name.decode("latin-1")[len(PARAM_PREFIX) :])
        if key not in target:
            target[key] = text
        elif name.startswith(b"mcp-"):
            found["repeated"] = name.decode("latin-1")
        elif name == b"accept":
            target[key] += ", " + text
    return McpHeaders(**found, params=params)


def version_mismatch(headers: McpHeaders, claimed: str) -> HeaderMismatch:
    """Return the error for headers that repeat an `Mcp-*` header, or name another version than the body."""
    if headers.repeated is not None:
        return HeaderMismatch(f"The header {headers.repeated} is repeated; send it once")
    return _mismatch("MCP-Protocol-Version", headers.protocol_version, claimed)


def check_request(headers: McpHeaders, message: Request, method: Method | None, params: types.Params | None) -> None:
    """Compare `Mcp-Method` and `Mcp-Name` with the body.

    `method` is None if it is unknown; `params` is None if the parameters do not fit the method.

    Raises:
        HeaderMismatch: a header is missing, superfluous, malformed or different.
    """
    if headers.method != message.method:
        raise _mismatch("Mcp-Method", headers.method, message.method)
    if method is None or method.name_from is None or (headers.name is None and method.name_optional):
        return
    expected: str | None = getattr(params, method.name_from, None)
    if expected is None:
        with suppress(KeyError, msgspec.DecodeError):
            expected = _text.decode(_parts.decode(message.params)[method.name_from])
    # If the parameters lack the name, their decoder refuses them later.
    if expected is not None:
        check_mirror("Mcp-Name", headers.name, expected)
    elif headers.name is not None:
        raise HeaderMismatch("The header Mcp-Name was sent, but the body has no name")


def _mismatch(header: str, sent: str | None, expected: str) -> HeaderMismatch:
    return HeaderMismatch(f"The header {header} must be {expected!r}, as in the body; it is {sent!r}")


def check_mirror(header: str, sent: str | None, expected: str) -> None:
    """Compare a header with the value that it mirrors.

    Raises:
        HeaderMismatch: the header is missing, malformed or different.
    """
    if sent is None:
        raise HeaderMismatch(f"The header {header} is missing; it mirrors {expected!r}")
    # MUST (2026-07-28): decode before comparing, "for headers that permit the Base64 sentinel encoding".
    value = decode_value(header, sent) if header.startswith(_PERMIT_BASE64) else _read_value(header, sent)
    if value != expected:
        raise HeaderMismatch(f"The header {header} does not match the body, which says {expected!r}")


def build(version: str, method: str, name: str | None = None) -> dict[str, str]:
    """Return the headers that a client sends with a request.

    Raises:
        ValidationError: a header cannot carry the method or the name.
    """
    if not _is_plain(method):
        raise ValidationError(f"The method {method!r} cannot be sent over HTTP; name it in printable ASCII")
    headers = {"MCP-Protocol-Version": version, "Mcp-Method": method}
    if name is not None:
        headers["Mcp-Name"] = encode_value(name)
    return headers


class MirroredParam(Struct, frozen=True):
    """One annotated property: its header, its path in the arguments, and whether it is an integer."""

    header: str
    path: tuple[str, ...]
    integer: bool

    @property
    def key(self) -> str:
        """The header's name after `Mcp-Param-`, in lower case."""
        return self.header.lower()

    def find(self, arguments: Any) -> Mirrored | None:
        """Return the value in the arguments, None if it is absent or of a type that is not mirrored."""
        for name in self.path:
            arguments = arguments.get(name) if isinstance(arguments, Mapping) else None
        if self.integer and isinstance(arguments, float) and arguments.is_integer():
            return int(arguments)
        return arguments if isinstance(arguments, str | int | bool) else None

    def check(self, value: Mirrored | None, sent: str | None) -> None:
        """Compare the header with the value in the body.

        Raises:
            HeaderMismatch: the header is missing, superfluous, malformed or different.
        """
        name = f"Mcp-Param-{self.header}"
        if value is None:
            if sent is not None:
                raise HeaderMismatch(f"The header {name} was sent, but the body has nothing that it mirrors")
        elif self.integer and sent is not None and _same_integer(decode_value(name, sent), value):
            return
        else:
            check_mirror(name, sent, _spell(value))


def _same_integer(text: str, value: Mirrored) -> bool:
    """SHOULD (2026-07-28): "Integer params compared numerically (42.0 == 42)"."""
    return not isinstance(value, bool) and bool(re.fullmatch(_INTEGER, text)) and int(text.partition(".")[0]) == value


class HeaderPlan(Struct, frozen=True):
    """The annotated properties of one input schema."""

    params: tuple[MirroredParam, ...] = ()

    @classmethod
    def of(cls, input_schema: Mapping[str, Any]) -> HeaderPlan:
        """Compile the annotations of a schema.

        Raises:
            DefinitionError: an annotation is no HTTP token, occurs twice, is on a type that is not mirrored, or is not
                reachable from the root by `properties` alone; or the schema is nested too deeply.
        """
        params: dict[str, MirroredParam] = {}
        try:
            annotated = list(_annotated(input_schema, ()))
        except RecursionError:
            raise DefinitionError("The input schema is nested too deeply") from None
        for schema, path in annotated:
            if not path:
                raise DefinitionError(f"{ANNOTATION} {schema[ANNOTATION]!r} must be on what `properties` alone reach")
            param = _mirrored(schema, path)
            if params.setdefault(param.key, param) is not param:
                raise DefinitionError(f"{ANNOTATION} {param.header!r} is used twice; header names ignore case")
        return cls(tuple(params.values()))

    def build(self, arguments: Mapping[str, Any]) -> dict[str, str]:
        """Return the headers that a client sends with these arguments.

        Raises:
            ValidationError: JSON has no form for the arguments, or a header cannot carry a value.
        """
        if not self.params:
            return {}
        # Arguments may be Python objects such as UUIDs; the header mirrors the form that they have in the body.
        body = msgspec.json.decode(encode(dict(arguments)))
        values = ((param, param.find(body)) for param in self.params)
        return {f"Mcp-Param-{param.header}": encode_value(value) for param, value in values if value is not None}

    def check(self, arguments: Mapping[str, Any], headers: Mapping[str, str]) -> None:
        """Compare the headers that a client sent with the arguments.

        Raises:
            HeaderMismatch: a header is missing, superfluous, malformed or different.
        """
        for param in self.params:
            param.check(param.find(arguments), headers.get(param.key))


def _annotated(schema: Any, path: tuple[str, ...] | None) -> Iterator[tuple[Json, tuple[str, ...] | None]]:
    """Yield every annotated schema, with its path in the arguments if `properties` alone lead to it, else None."""
    if not isinstance(schema, dict):
        return
    if ANNOTATION in schema:
        yield schema, path
    for keyword, name, part in subschemas(schema):
        is_chain = keyword == "properties" and isinstance(name, str)
        yield from _annotated(part, (*path, str(name)) if path is not None and is_chain else None)


def _mirrored(schema: Mapping[str, Any], path: tuple[str, ...]) -> MirroredParam:
    name = schema[ANNOTATION]
    if not isinstance(name, str) or not re.fullmatch(_HEADER_NAME, name):
        raise DefinitionError(f"{ANNOTATION} of {'.'.join(path)} must be an HTTP token, not {name!r}")
    kind = schema.get("type")
    if kind not in ("string", "integer", "boolean"):
        raise DefinitionError(f"{ANNOTATION} of {'.'.join(path)} needs the type string, integer or boolean")
    return MirroredParam(name, path, kind == "integer")
