"""`Masks`: replaces secrets in HTTP heads and messages before they are written to a session file.

A secret is found by its name: a header such as `authorization`, or a member of a JSON object such as `access_token`.
JSON that stands in a string of other JSON is masked too, and so are parameters of URLs and forms. Two kinds are found
by their form: `Bearer` with a token, and JSON Web Tokens. The id of a session becomes a digest, so that a reader can
tell two sessions apart.

The masks work on bytes and not on decoded JSON. A message that is no JSON is masked too, and a message without secrets
stays as it was sent.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping

MASKED = b"***"
KNOWN_CHARACTERS = 6
"""A known secret that is shorter would be found in many words that are none."""
SESSION_HEADER = "mcp-session-id"
HEADERS = frozenset(
    {"authorization", "proxy-authorization", "cookie", "set-cookie", "x-api-key", "api-key", "x-auth-token"}
)
"""Headers whose values are masked."""
MEMBERS = frozenset(
    {
        *("access_token", "refresh_token", "id_token", "client_secret", "client_assertion", "assertion", "device_code"),
        *("code_verifier", "password", "passwd", "secret", "api_key", "apikey", "private_key", "authorization"),
        *("accessToken", "refreshToken", "clientSecret", "apiKey", "privateKey"),
    }
)
"""Members of JSON objects and parameters of URLs whose values are masked."""
_PARAMETERS = ("code=", "state=", "token=", "session_id=", "sessionid=")
_BY_FORM = re.compile(
    rb"(?i:(bearer\s+))[A-Za-z0-9._~+/=-]{8,}|()\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]*"
)
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
        further = {name.lower() for name in names}
        self._headers = HEADERS | further
        any_name = "|".join(sorted(map(re.escape, MEMBERS | further)))
        self._signs = [name.lower().encode() for name in {*MEMBERS, *further, *_PARAMETERS}]
        # In JSON that stands in a string, every quote has one backslash or more. A message that was cut may end within
        # a secret.
        member = rf'(?i:(\\*"(?:{any_name})\\*"\s*:\s*))(?:"(?:[^"\\]|\\.)*(?:"|\\?\Z)|(\\+")(?:(?!\2).)*(?:\2|\Z))'
        self._member = re.compile(member.encode(), re.DOTALL)
        # In the HTTP of 2024-11-05 the id of a session is a parameter of the URL to which the client posts.
        self._parameter = re.compile(rf'(?i:([?&;]|^)({any_name}|code|state|token|session_?id)=)[^&#"\\\s]+'.encode())

    def message(self, data: bytes) -> bytes:
        """Return a message, or any text, with its secrets masked."""
        # To find a text is far faster than to match an expression, and most messages have no secret.
        for value in self._values:
            data = data.replace(value, MASKED)
        lowered = data.lower()
        if any(sign in lowered for sign in self._signs):
            data = self._member.sub(_masked_member, data)
            data = self._parameter.sub(rb"\1\2=" + MASKED, data)
        if b"bearer" in lowered or b"eyj" in lowered:
            data = _BY_FORM.sub(rb"\1" + MASKED, data)
        return data

    def lines(self, text: str) -> str:
        """Return lines of text with their secrets masked, such as what a program writes to stderr."""
        lines = text.encode("utf-8", "replace").splitlines(keepends=True)
        return _WORD.sub(r"\1***", b"".join(map(self.message, lines)).decode())

    def url(self, url: str) -> str:
        """Return a URL with its secrets masked."""
        bare = re.sub(r"//[^/@]*@", "//***@", url)
        return self.message(bare.encode("utf-8", "replace")).decode()

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
        if name in self._headers:
            scheme, space, _ = value.partition(" ")
            return f"{scheme} ***" if space and name.endswith("authorization") else "***"
        return self.message(value.encode("utf-8", "replace")).decode()


def _masked_member(found: re.Match[bytes]) -> bytes:
    quote = found[2] or b'"'
    return found[1] + quote + MASKED + quote
