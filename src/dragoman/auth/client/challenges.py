"""What a `WWW-Authenticate` header asks for (RFC 9110 section 11.6.1, RFC 6750, RFC 9449, RFC 9728)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from msgspec import Struct

from dragoman.auth.redaction import Secrets

_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_TOKEN68 = re.compile(r"[A-Za-z0-9._~+/-]+=*(?=[ \t]*(?:,|$))")
_BLANKS = re.compile(r"[ \t]*")
_COMMAS = re.compile(r"[ \t,]*")
_QUOTED = re.compile(r'"((?:[^"\\]|\\.)*)"', re.DOTALL)
_BROKEN = re.compile(_TOKEN.pattern + r"[ \t]*=")
LONGEST = 16_384
INSUFFICIENT_SCOPE, INVALID_TOKEN = "insufficient_scope", "invalid_token"
USE_NONCE = "use_dpop_nonce"
_PLAIN = frozenset({"accept", "content-type", "mcp-protocol-version", "mcp-method", "mcp-name", "user-agent"})
"""Headers of a request that hold no secret."""


class Challenge(Struct, frozen=True):
    """One challenge of several: its scheme in lower case, and its parameters by lower-case names."""

    scheme: str
    parameters: dict[str, str] = {}

    @property
    def scope(self) -> str | None:
        """The scopes that the request needs."""
        return " ".join(self.parameters.get("scope", "").split()) or None

    @property
    def error(self) -> str | None:
        """Why the request was refused."""
        return self.parameters.get("error")

    @property
    def description(self) -> str | None:
        """The same in a sentence."""
        return self.parameters.get("error_description")

    @property
    def resource_metadata(self) -> str | None:
        """Where the server says who gives out its tokens."""
        return self.parameters.get("resource_metadata")


def parse(header: str) -> list[Challenge]:
    """Return the challenges of a header; what cannot be read ends the list."""
    found: list[Challenge] = []
    text = header[:LONGEST]
    at = _end(_COMMAS, text, 0)
    while at < len(text):
        scheme = _TOKEN.match(text, at)
        if scheme is None:
            break
        after = _end(_BLANKS, text, scheme.end())
        parameters, at = _parameters(text, after) if after > scheme.end() else ({}, after)
        found.append(Challenge(scheme.group().lower(), parameters))
        following = _end(_COMMAS, text, at)
        if following == at:
            break
        at = following
    return found


def _parameters(text: str, at: int) -> tuple[dict[str, str], int]:
    """Read parameters up to the next scheme, and return where that begins."""
    parameters: dict[str, str] = {}
    plain = _TOKEN68.match(text, at)
    if plain is not None and _parameter(text, at) is None:
        return parameters, plain.end()
    while (read := _parameter(text, at)) is not None:
        name, value, end = read
        parameters.setdefault(name, value)
        at = _end(_COMMAS, text, end)
        if at == end:
            break
    return parameters, len(text) if _BROKEN.match(text, at) else _before_commas(text, at)


def _before_commas(text: str, at: int) -> int:
    while at > 0 and text[at - 1] in " \t,":
        at -= 1
    return at


def _parameter(text: str, at: int) -> tuple[str, str, int] | None:
    name = _TOKEN.match(text, at)
    if name is None:
        return None
    equals = _end(_BLANKS, text, name.end())
    if text[equals : equals + 1] != "=":
        return None
    start = _end(_BLANKS, text, equals + 1)
    quoted = _QUOTED.match(text, start)
    if quoted is not None:
        return name.group().lower(), re.sub(r"\\(.)", r"\1", quoted.group(1), flags=re.DOTALL), quoted.end()
    value = _TOKEN.match(text, start)
    return None if value is None else (name.group().lower(), value.group(), value.end())


def _end(pattern: re.Pattern[str], text: str, at: int) -> int:
    found = pattern.match(text, at)
    return at if found is None else found.end()


def asked(headers: Mapping[str, str]) -> Challenge | None:
    """Return the challenge of a response that this client can meet: of Bearer and DPoP, the one that says more."""
    known = [one for one in _all(headers) if one.scheme in ("bearer", "dpop")]
    return max(known, key=lambda one: (len(one.parameters), one.scheme == "dpop"), default=None)


def explained(status: int, headers: Mapping[str, str], sent: Mapping[str, str]) -> str:
    """Return what a refusal says in its challenge, and what to do: to follow the name of the server in an error.

    `sent` are the headers of the request. What the server says is left out if it repeats one of them.
    """
    challenge = asked(headers) or Challenge("")
    secrets = Secrets()
    for name, value in sent.items():
        if name.lower() not in _PLAIN:
            secrets.add(value.partition(" ")[2] or value)
    said = f": {secrets.quoted(challenge.description).rstrip('.')}" if challenge.description else ""
    if challenge.error == INSUFFICIENT_SCOPE:
        scope = f"; get a token with the scopes {secrets.quoted(challenge.scope)}" if challenge.scope else ""
        return f"refuses the token because it lacks scopes (status {status}){said}{scope}"
    if challenge.error is not None:
        remedy = "; get a new token, meant for this server" if challenge.error == INVALID_TOKEN else ""
        return f"refuses the credentials (status {status}, {secrets.quoted(challenge.error)}){said}{remedy}"
    if any(name.lower() == "authorization" for name in sent):
        return f"refuses the credentials that were sent (status {status}){said}; is what auth= or headers= gives right?"
    return f"wants credentials (status {status}){said}; give auth= or headers="


def nonce_wanted(headers: Mapping[str, str]) -> bool:
    """Tell whether a server refuses a proof only because it lacks the nonce that comes with the refusal."""
    return any(one.scheme == "dpop" and one.error == USE_NONCE for one in _all(headers))


def schemes(headers: Mapping[str, str]) -> set[str]:
    """Return the schemes that a response offers."""
    return {one.scheme for one in _all(headers)}


def _all(headers: Mapping[str, str]) -> list[Challenge]:
    return [challenge for value in values(headers, "www-authenticate") for challenge in parse(value)]


def values(headers: Mapping[str, str], name: str) -> Iterable[str]:
    """Return every value of a header, whatever the case of its name."""
    every = getattr(headers, "getall", None)
    if every is not None:
        return list(every(name, ()))
    return [value for key, value in headers.items() if key.lower() == name]
