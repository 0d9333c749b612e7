"""URI templates of RFC 6570, levels 1 to 3: expansion of values to a URI, and matching of a URI to values.

A template is parsed once into literals and expressions. Expansion follows the table of RFC 6570, appendix A. For
matching, the query expressions are separated, because their parameters come in any order. The rest becomes slots. A
slot is a variable, the text before it, and the characters that its value cannot contain.

A URI may match in several ways, as for `{name}.{format}` and `{+path}/{revision}`. A regular expression would
backtrack, and a URI that does not match would take polynomial time. `_Matcher` computes all end positions of each
variable, from the last variable to the first. Then it reads the values from the first variable to the last. This takes
linear time, and an earlier variable gets as much text as possible.

A variable outside the query is never absent and, except in `{;name}`, never empty.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import NamedTuple
from urllib.parse import quote, unquote

from dragoman.errors import DefinitionError

_BRACED = re.compile(r"(\{[^{}]*\})")
_VARIABLE_NAME = re.compile(r"(?:\w|%[0-9A-Fa-f]{2})(?:\.?(?:\w|%[0-9A-Fa-f]{2}))*", re.ASCII)
_BROKEN_PERCENT = re.compile(r"%(?![0-9A-Fa-f]{2})")
_RESERVED_AND_UNRESERVED = r"!#$&'()*+,\-./0-9:;=?@A-Z\[\]_a-z~"
_NOT_IN_A_URI = re.compile(rf"[^%{_RESERVED_AND_UNRESERVED}]+")
_NOT_IN_A_LITERAL = re.compile(rf"(?:{_BROKEN_PERCENT.pattern}|[^%{_RESERVED_AND_UNRESERVED}])+")


class UriTemplate:
    """A URI with variables in it.

    Example:
        template = UriTemplate("file:///{project}/{+path}{?line}")
        template.expand({"project": "a b", "path": "src/x.py"})     # "file:///a%20b/src/x.py"
        template.match("file:///a%20b/src/x.py?line=3")
        # {"project": "a b", "path": "src/x.py", "line": "3"}

    Values are decoded: `%2F` in the URI becomes `/` in the value. Check a value before you use it as a file name.
    """

    __slots__ = ("_matcher", "_pieces", "_query", "required", "template", "variables")

    def __init__(self, template: str) -> None:
        """Raise DefinitionError if the template is not of level 1 to 3 or cannot be matched."""
        self.template = template
        self._pieces = _parsed(template)
        _refuse_misplaced_query(template, self._pieces)
        self.variables = _unique_variables(template, self._pieces)
        self._query = _query(self._pieces)
        optional = () if self._query is None else self._query.names
        self.required = tuple(name for name in self.variables if name not in optional)
        """The variables that every URI of the template has: all but those of a query."""
        self._matcher = _Matcher(*_slots(self._pieces))

    def __repr__(self) -> str:
        return f"UriTemplate({self.template!r})"

    def expand(self, values: Mapping[str, str | int | float | bool | None]) -> str:
        """Return the URI; a variable that is missing or None is left out."""
        return "".join(piece if isinstance(piece, str) else _expanded(piece, values) for piece in self._pieces)

    def match(self, uri: str) -> dict[str, str] | None:
        """Return the values that expand to this URI, None if there are none."""
        try:
            rest = _NOT_IN_A_URI.sub(_percent_encoded, uri)
        except UnicodeEncodeError:
            return None
        if self._query is None:
            return _decoded(self._matcher.match(rest))
        cut = self._query.cut(rest)
        if cut is None:
            return None
        rest, parameters = cut
        values = self._matcher.match(rest)
        return None if values is None else _decoded(values | parameters)


class _Operator(NamedTuple):
    first: str
    separator: str
    keeps_reserved: bool = False
    is_named: bool = False
    is_query: bool = False


_OPERATORS = {
    "": _Operator("", ","),
    "+": _Operator("", ",", keeps_reserved=True),
    "#": _Operator("#", ",", keeps_reserved=True),
    ".": _Operator(".", "."),
    "/": _Operator("/", "/"),
    ";": _Operator(";", ";", is_named=True),
    "?": _Operator("?", "&", is_named=True, is_query=True),
    "&": _Operator("&", "&", is_named=True, is_query=True),
}


class _Expression(NamedTuple):
    source: str
    operator: _Operator
    names: tuple[str, ...]

    def leads(self) -> Iterator[tuple[str, str]]:
        """Yield each variable with the text that the expression writes before its value."""
        lead = self.operator.first
        for name in self.names:
            yield (lead + name if self.operator.is_named else lead), name
            lead = self.operator.separator


def _parsed(template: str) -> Sequence[str | _Expression]:
    pieces: list[str | _Expression] = []
    for source in filter(None, _BRACED.split(template)):
        if source[0] == "{" and source[-1] == "}":
            pieces.append(_parsed_expression(template, source))
        elif "{" in source or "}" in source:
            raise _refusal(template, source, "has an unbalanced brace; pair it, or write it as %7B or %7D")
        else:
            pieces.append(_NOT_IN_A_LITERAL.sub(_percent_encoded, source))
    return pieces


def _parsed_expression(template: str, source: str) -> _Expression:
    body = source[1:-1]
    if body.startswith(("=", ",", "!", "@", "|")):
        raise _refusal(template, source, f"uses the reserved operator {body[0]!r}; use one of + # . / ; ? & or none")
    symbol = body[0] if body.startswith(("+", "#", ".", "/", ";", "?", "&")) else ""
    names = tuple(body.removeprefix(symbol).split(","))
    if names == ("",):
        raise _refusal(template, source, "names no variable; write a name in the braces, or remove them")
    for name in names:
        if "*" in name or ":" in name:
            remedy = "remove the * or :length and give the variable one string"
            raise _refusal(template, source, f"has a modifier of level 4, which is not supported; {remedy}")
        if not _VARIABLE_NAME.fullmatch(name):
            remedy = "use ASCII letters, digits, _ and %XX, with single dots between"
            raise _refusal(template, source, f"has the bad variable name {name!r}; {remedy}")
    return _Expression(source, _OPERATORS[symbol], names)


def _unique_variables(template: str, pieces: Sequence[str | _Expression]) -> tuple[str, ...]:
    variables: dict[str, None] = {}
    for expression in _expressions(pieces):
        for name in expression.names:
            if name in variables:
                raise _refusal(template, expression.source, f"uses the variable {name!r} again; rename one of the two")
            variables[name] = None
    return tuple(variables)


def _refuse_misplaced_query(template: str, pieces: Sequence[str | _Expression]) -> None:
    written: set[str] = set()
    query_passed = False
    for piece in pieces:
        lead = _leading_text(piece)
        if isinstance(piece, _Expression) and piece.operator.is_query:
            if "#" in written:
                raise _refusal(template, piece.source, "puts a query after the fragment; move it before the #")
            if lead == "?" and (query_passed or "?" in written):
                raise _refusal(template, piece.source, "starts a second query; use {&...} there")
            query_passed = True
        elif query_passed and "#" not in written and not lead.startswith("#"):
            source = piece if isinstance(piece, str) else piece.source
            remedy = "after {?...} or {&...} put only {&...} or a fragment, and fixed parameters before it"
            raise _refusal(template, source, f"follows a query of any length and order; {remedy}")
        written.update(lead)


def _refusal(template: str, source: str, problem_and_remedy: str) -> DefinitionError:
    return DefinitionError(f"URI template {template!r}: {source!r} {problem_and_remedy}")


def _expressions(pieces: Sequence[str | _Expression]) -> list[_Expression]:
    return [piece for piece in pieces if isinstance(piece, _Expression)]


def _leading_text(piece: str | _Expression) -> str:
    return piece if isinstance(piece, str) else piece.operator.first


def _expanded(expression: _Expression, values: Mapping[str, str | int | float | bool | None]) -> str:
    operator = expression.operator
    parts = [
        _expanded_variable(operator, name, value)
        for name in expression.names
        if (value := values.get(name)) is not None
    ]
    return operator.first + operator.separator.join(parts) if parts else ""


def _expanded_variable(operator: _Operator, name: str, value: str | float) -> str:
    text = str(value).lower() if isinstance(value, bool) else str(value)
    encoded = _NOT_IN_A_LITERAL.sub(_percent_encoded, text) if operator.keeps_reserved else quote(text, safe="")
    if not operator.is_named:
        return encoded
    return f"{name}={encoded}" if encoded or operator.is_query else name


def _percent_encoded(found: re.Match[str]) -> str:
    return quote(found[0], safe="")


def _decoded(values: dict[str, str] | None) -> dict[str, str] | None:
    if values is None:
        return None
    for name, value in values.items():
        if "%" in value:
            if _BROKEN_PERCENT.search(value):
                return None
            try:
                values[name] = unquote(value, errors="strict")
            except UnicodeDecodeError:
                return None
    return values


class _Query(NamedTuple):
    """The query expressions of a template; they are adjacent."""

    names: frozenset[str]
    ignores_unknown: bool
    precedes_fragment: bool

    def cut(self, uri: str) -> tuple[str, dict[str, str]] | None:
        """Return the URI without the parameters of this query, and the parameters."""
        base, mark, fragment = uri.partition("#")
        if mark and not self.precedes_fragment:
            return None
        path, known = self._known_parameters(base)
        parameters = dict(known)
        return (path + mark + fragment, parameters) if len(parameters) == len(known) else None

    def _known_parameters(self, base: str) -> tuple[str, list[tuple[str, str]]]:
        if self.ignores_unknown:
            path, _, query = base.partition("?")
            every = [_name_and_value(pair) for pair in query.split("&")]
            return path, [parameter for parameter in every if parameter[0] in self.names]
        path, *pairs = base.split("&")
        known: list[tuple[str, str]] = []
        while pairs and (parameter := _name_and_value(pairs[-1]))[0] in self.names:
            known.append(parameter)
            pairs.pop()
        return "&".join([path, *pairs]), known


def _query(pieces: Sequence[str | _Expression]) -> _Query | None:
    query = [expression for expression in _expressions(pieces) if expression.operator.is_query]
    if not query:
        return None
    return _Query(
        frozenset(name for expression in query for name in expression.names),
        ignores_unknown=query[0].operator.first == "?",
        precedes_fragment="#" in "".join(map(_leading_text, pieces)),
    )


def _name_and_value(pair: str) -> tuple[str, str]:
    name, _, value = pair.partition("=")
    return name, value


class _VariableSlot(NamedTuple):
    """A variable, the text before it, and the characters that its value cannot contain."""

    before: str
    name: str
    excluded: str
    is_named: bool


def _slots(pieces: Sequence[str | _Expression]) -> tuple[Sequence[_VariableSlot], str]:
    slots: list[_VariableSlot] = []
    text = ""
    for piece, excluded in zip(pieces, _excluded(pieces), strict=True):
        if isinstance(piece, str):
            text += piece
        elif not piece.operator.is_query:
            for lead, name in piece.leads():
                slots.append(_VariableSlot(text + lead, name, excluded, piece.operator.is_named))
                text = ""
    return slots, text


def _excluded(pieces: Sequence[str | _Expression]) -> Iterator[str]:
    """Yield, for each piece, the separators that its values cannot contain."""
    last_written = {mark: index for index, piece in enumerate(pieces) for mark in "?#" if mark in _leading_text(piece)}
    delimiters = "/?#"
    for index, piece in enumerate(pieces):
        if isinstance(piece, _Expression) and piece.operator.keeps_reserved:
            yield "".join(mark for mark, last in last_written.items() if last > index)
        else:
            yield delimiters + _value_separator(piece)
        query, fragment = _leading_text(piece).rfind("?"), _leading_text(piece).rfind("#")
        if query != fragment:
            delimiters = "/?#&" if query > fragment else "/?#"


def _value_separator(piece: str | _Expression) -> str:
    if isinstance(piece, str) or piece.operator.separator not in ",;":
        return ""
    return piece.operator.separator if piece.operator.is_named or len(piece.names) > 1 else ""


class _Matcher:
    """Finds the values of the variables outside the query."""

    def __init__(self, slots: Sequence[_VariableSlot], tail: str) -> None:
        self._head = slots[0].before if slots else ""
        self._tail = tail
        self._slots = [slot if number else slot._replace(before="") for number, slot in enumerate(slots)]

    def match(self, text: str) -> dict[str, str] | None:
        middle = text.removeprefix(self._head).removesuffix(self._tail)
        if self._head + middle + self._tail != text:
            return None
        positions = _Positions(middle)
        fits = 1
        stops: list[int] = []
        for slot in reversed(self._slots):
            stops.append(fits & ~positions.inside_encoded_characters)
            fits = positions.before(slot.before, positions.starts(slot, stops[-1]))
        return self._read_values(middle, stops[::-1]) if fits >> len(middle) else None

    def _read_values(self, text: str, stops: Sequence[int]) -> dict[str, str]:
        values: dict[str, str] = {}
        position = 0
        for slot, slot_stops in zip(self._slots, stops, strict=True):
            start = position + len(slot.before)
            if slot.is_named and text.startswith("=", start):
                start += 1
            position = _last_stop(text, slot, slot_stops, start)
            values[slot.name] = text[start:position]
        return values


class _Positions:
    """Sets of positions in a text. A set is an integer, in which bit `len(text) - position` stands for a position.

    An addition carries from low bits to high bits, which stand for positions further left. So one addition finds, from
    the ends of a value, all positions at which the value may start.
    """

    def __init__(self, text: str) -> None:
        self._text = text.encode()
        self._all = (2 << len(text)) - 2
        self._holding: dict[str, int] = {}
        percent = self._where("%")
        continuation = percent & (self._where("89ABab") << 1)
        self.inside_encoded_characters = percent >> 1 | percent >> 2 | continuation

    def before(self, literal: str, fits: int) -> int:
        """Return the start positions of this literal for which it ends at one of the given positions."""
        for character in reversed(literal):
            fits = (fits << 1) & self._where(character)
        return fits

    def starts(self, slot: _VariableSlot, stops: int) -> int:
        """Return the start positions of a value of this slot for which it ends at one of the given positions."""
        allowed = self._all ^ self._where(slot.excluded)
        last_characters = (stops << 1) & allowed
        starts = (allowed & ~(allowed + last_characters)) | last_characters
        if not slot.is_named:
            return starts
        equals_sign = self._where("=")
        return (((starts | stops) << 1) & equals_sign) | (stops & ~equals_sign)

    def _where(self, characters: str) -> int:
        if characters not in self._holding:
            self._holding[characters] = int(self._text.translate(_as_digits(characters)) + b"0", 2)
        return self._holding[characters]


@cache
def _as_digits(characters: str) -> bytes:
    return bytes(ord("1") if chr(byte) in characters else ord("0") for byte in range(256))


def _last_stop(text: str, slot: _VariableSlot, stops: int, start: int) -> int:
    found = (text.find(character, start) for character in slot.excluded)
    barrier = min((position for position in found if position != -1), default=len(text))
    stops >>= len(text) - barrier
    return barrier - (stops & -stops).bit_length() + 1
