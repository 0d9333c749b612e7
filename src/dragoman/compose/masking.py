"""`Masks`: replaces secrets in HTTP heads and messages before they are written to a session file.

A secret is recognized by its name: a header such as `authorization`, a member of a JSON object such as `access_token`,
or a parameter such as `token=`. The value may be a string, a number, a list or an object, and may stand in JSON inside
of a string. Other secrets are recognized by their form: `Bearer` with a token, JSON Web Tokens, private keys, and the
user in a URL. The id of a session becomes a digest, so that a reader can tell two sessions apart.

The masks work on text and not on decoded JSON: a message that is no JSON, or that was cut, is masked too, and a message
without secrets keeps its bytes. Each character is read a bounded number of times, whatever the message contains.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from functools import lru_cache

from dragoman.schema import walk

MASKED = "***"
KNOWN_CHARACTERS = 6
"""A known secret that is shorter would be found in many words that are none."""
SESSION_HEADER = "mcp-session-id"
HEADERS = frozenset({"cookie", "set-cookie", "dpop"})
"""Headers whose values are masked although their names don't end like the name of a secret."""
_SECRET_NAME = re.compile(
    r"(?:^|_)(?:token|secret|passw(?:or)?d|passphrase|authorization|assertion|device_code|code_verifier"
    r"|(?:api|private|secret|access|subscription)_?key)$"
)
_HARMLESS_NAME = re.compile(r"(?:^|_)(?:progress|page)_token$")
_STEMS = tuple(b"token secret passw passphrase authorization assertion device code key session state".split())
"""A message without one of these, and without escaped letters, has no member or parameter with the name of a secret."""
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
# JSON inside of a string has backslashes before each quote. A run of backslashes is only entered at its start, so that
# a long run is read once.
_NAME = re.compile(
    r'(?<!\\)(?P<escape>\\{0,64})"(?P<member>(?:[^"\\]|\\+u[0-9a-fA-F]{4}){1,100})\\{0,64}"\s{0,64}:\s{0,64}'
    r"|(?<![\w.-])(?P<word>[\w.-]{1,100})="
)
_QUERY_NAMES = frozenset({"code", "state", "session_id", "sessionid"})
"""Names of secrets in the query of a URL and in forms. Elsewhere they are ordinary words."""
_ESCAPED_LETTER = re.compile(r"\\+u([0-9a-fA-F]{4})")
_QUOTE = re.compile(r'(\\*)"')
_BRACKET_OR_QUOTE = re.compile(r'[{}\[\]]|(\\*)"')
_NUMBER = re.compile(r"-?\d[\d.eE+-]*")
_WORD_VALUE = re.compile(r"[^\s&#\"'\\]+")
_BY_FORM = re.compile(
    r"(?P<bearer>(?i:\bbearer)\s{1,64})[A-Za-z0-9._~+/=-]{8,}"
    r"|(?<![A-Za-z0-9_-])eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]*"
    r"|(?P<user>//)[^/?#@\s\"'\\<>]{1,256}(?=@)"
    r"|(?P<key>-----BEGIN [A-Z ]{0,40}PRIVATE KEY-----)(?:(?!-----)[^\"])*"
)
_FORM_SIGNS = (b"bearer", b"eyj", b"@", b"private key")
_ANNOTATIONS = ("title", "description", "format", "readOnly", "writeOnly", "deprecated", "contentEncoding")
_SCHEMA_KEYWORDS = frozenset({"type", *_ANNOTATIONS, *walk.REFERENCES, *walk.VARYING, *walk.LIMITS}).union(
    walk.NAMED, walk.LISTED, walk.SINGLE, walk.PLAIN, *walk.OF_TYPE.values()
)
_MAX_SCHEMA_CHARACTERS = 4096
"""A longer object under the name of a secret is masked. Without a bound, nested objects would be read at each level."""
_NAME_ENDS = r"[\w.-]{0,64}(?:token|secret|passw(?:or)?d|api[_-]?key|private[_-]?key|authorization)"
_WORD = re.compile(
    rf"(?i)(?<![\w.-])((?:{_NAME_ENDS}[=:][ \t]?|--?{_NAME_ENDS}[ \t]+)(?:(?:bearer|basic)[ \t]+)?)"
    r"""(?:"[^"\n]*"|'[^'\n]*'|[^\s&]+)"""
)
"""An option, a variable or a header in a command, such as `--api-key abc`, `API_KEY=abc` or `X-Api-Key: abc`."""


class Masks:
    """The masks of one session file; `names` are further headers, members and parameters, `values` are known secrets.

    Example:
        Masks().message(b'{"password":"x"}')    # b'{"password":"***"}'
    """

    def __init__(self, names: Iterable[str] = (), values: Iterable[str] = ()) -> None:
        self._values = [value.encode("utf-8", "replace") for value in values if len(value) >= KNOWN_CHARACTERS]
        self._names = frozenset(name.lower() for name in names)
        self._stems = (*_STEMS, *(name.encode() for name in self._names))

    def message(self, data: bytes) -> bytes:
        """Return a message, or any text, with its secrets masked."""
        for value in self._values:
            data = data.replace(value, MASKED.encode())
        # To search for a few words is far faster than to match an expression, and most messages have no secret.
        lowered = data.lower()
        has_names = b"\\u00" in lowered or any(stem in lowered for stem in self._stems)
        has_forms = any(sign in lowered for sign in _FORM_SIGNS)
        if not has_names and not has_forms:
            return data
        text = data.decode("utf-8", "surrogateescape")
        if has_names:
            text = self._without_named_secrets(text)
        if has_forms:
            text = _BY_FORM.sub(_masked_form, text)
        return text.encode("utf-8", "surrogateescape")

    def _without_named_secrets(self, text: str) -> str:
        parts: list[str] = []
        start = position = 0
        while (name := _NAME.search(text, position)) is not None:
            position = name.end()
            if name["member"] is None:
                end, masked = self._masked_parameter(text, name)
            else:
                end, masked = self._masked_member(text, name)
            if masked is not None:
                parts += (text[start : name.end()], masked)
                start = position = end
        return "".join([*parts, text[start:]])

    def _masked_member(self, text: str, name: re.Match[str]) -> tuple[int, str | None]:
        """Return where the value of a member ends, and its replacement; None if the member stays."""
        start, escape = name.end(), name["escape"]
        member = _ESCAPED_LETTER.sub(lambda letter: chr(int(letter[1], 16)), name["member"])
        if not self._is_secret(member):
            return start, None
        end = _value_end(text, start, len(escape))
        value = text[start:end]
        if not value or (value[0] in "{[" and _holds_no_secret(value, escape)):
            return start, None
        return end, f'{escape}"{MASKED}{escape}"'

    def _masked_parameter(self, text: str, name: re.Match[str]) -> tuple[int, str | None]:
        start, word = name.end(), name["word"]
        is_in_query = name.start() == 0 or text[name.start() - 1] in "?&;"
        if not self._is_secret(word) and not (is_in_query and word.lower() in _QUERY_NAMES):
            return start, None
        quote = _QUOTE.match(text, start)
        if quote is not None:
            return _string_end(text, quote.end(), len(quote[1])), f"{quote[0]}{MASKED}{quote[0]}"
        value = _WORD_VALUE.match(text, start)
        return (start, None) if value is None else (value.end(), MASKED)

    def _is_secret(self, name: str) -> bool:
        return name.lower() in self._names or _names_secret(name)

    def lines(self, text: str) -> str:
        """Return lines of text with their secrets masked, such as what a program writes to stderr."""
        lines = text.encode("utf-8", "replace").splitlines(keepends=True)
        return _WORD.sub(r"\1***", b"".join(map(self.message, lines)).decode())

    def url(self, url: str) -> str:
        """Return a URL with its secrets masked."""
        return self.message(url.encode("utf-8", "replace")).decode()

    def target(self, target: str) -> str:
        """Return a URL or a command with its secrets masked."""
        return _WORD.sub(r"\1***", self.url(target))

    def headers(self, headers: Mapping[str, str] | Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
        """Return headers with their secrets masked."""
        pairs = headers.items() if isinstance(headers, Mapping) else headers
        return [(str(name), self._header(name.lower(), value)) for name, value in pairs]  # aiohttp has its own text

    def _header(self, name: str, value: str) -> str:
        if name == SESSION_HEADER:
            return "sha256:" + hashlib.sha256(value.encode("utf-8", "replace")).hexdigest()[:12]
        if name in HEADERS or self._is_secret(name):
            scheme, space, _ = value.partition(" ")
            return f"{scheme} ***" if space and name.endswith("authorization") else MASKED
        return self.message(value.encode("utf-8", "replace")).decode()


@lru_cache(maxsize=1024)
def _names_secret(name: str) -> bool:
    """Tell whether a name, such as `clientSecret` or `X-Api-Key`, is that of a secret."""
    words = _HUMP.sub("_", name).replace("-", "_").replace(".", "_").lower()
    return _SECRET_NAME.search(words) is not None and _HARMLESS_NAME.search(words) is None


def _value_end(text: str, start: int, escape: int) -> int:
    """Return where a value ends whose quotes have `escape` backslashes; `start` if it is a boolean or null."""
    first = text[start : start + 1]
    if first and first in "{[":
        return _container_end(text, start, escape)
    if (quote := _QUOTE.match(text, start)) is not None:
        return _string_end(text, quote.end(), len(quote[1]))
    number = _NUMBER.match(text, start)
    return start if number is None else number.end()


def _string_end(text: str, start: int, escape: int) -> int:
    """Return the end of a string that has begun, whose quotes have `escape` backslashes; a cut string ends the text."""
    for quote in _QUOTE.finditer(text, start):
        further = len(quote[1]) - escape
        if further < 0:
            return quote.start()  # the string around the JSON ends
        # Each level of JSON doubles the backslashes: these are whole backslashes of the value, then the quote.
        if further % (2 * (escape + 1)) == 0:
            return quote.end()
    return len(text)


def _container_end(text: str, start: int, escape: int) -> int:
    """Return the end of a list or an object whose quotes have `escape` backslashes; a cut one ends the text."""
    depth, position = 0, start
    while (sign := _BRACKET_OR_QUOTE.search(text, position)) is not None:
        position = sign.end()
        if sign[1] is not None:
            if len(sign[1]) < escape:
                return sign.start()
            position = _string_end(text, position, len(sign[1]))
            continue
        depth += 1 if sign[0] in "{[" else -1
        if depth == 0:
            return position
    return len(text)


def _holds_no_secret(container: str, escape: str) -> bool:
    """Tell whether a list or an object is empty, or is the JSON Schema of a member and not a value."""
    if len(container) > _MAX_SCHEMA_CHARACTERS:
        return False
    try:
        value = json.loads(container.replace(f'{escape}"', '"'))
    except (ValueError, RecursionError):
        return False
    if not value:
        return True
    return isinstance(value, dict) and all(name in _SCHEMA_KEYWORDS or name.startswith("x-") for name in value)


def _masked_form(secret: re.Match[str]) -> str:
    return (secret["bearer"] or secret["user"] or secret["key"] or "") + MASKED
