"""Challenges: the `WWW-Authenticate` headers of responses (RFC 9110 section 11.6.1, RFC 6750, RFC 9449, RFC 9728)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from msgspec import Struct

from dragoman.auth.redaction import Secrets

MAX_HEADER = 16_384
INSUFFICIENT_SCOPE, INVALID_TOKEN = "insufficient_scope", "invalid_token"
USE_DPOP_NONCE = "use_dpop_nonce"
_TOKEN = r"[!#$%&'*+.^_`|~0-9A-Za-z-]++"  # noqa: S105
_PARAMETER = re.compile(rf'[ \t,]+({_TOKEN})[ \t]*=[ \t]*(?:"((?:[^"\\]|\\.)*)"|({_TOKEN}))', re.DOTALL)
_SCHEME = re.compile(rf"(?:^[ \t,]*|[ \t,]+)({_TOKEN})(?![ \t]*=)(?:[ \t]+[A-Za-z0-9._~+/-]+=*(?=[ \t]*(?:,|$)))?")
"""A scheme, with a token68 that may follow it instead of parameters."""
_NOT_SECRET = frozenset({"accept", "content-type", "mcp-protocol-version", "mcp-method", "mcp-name", "user-agent"})
"""Headers of a request that hold no secret."""


class Challenge(Struct, frozen=True):
    """One challenge of a response: the scheme in lower case, and the parameters by lower-case names."""

    scheme: str
    parameters: dict[str, str] = {}

    @property
    def scope(self) -> str | None:
        """The scopes that the request needs."""
        return " ".join(self.parameters.get("scope", "").split()) or None

    @property
    def error(self) -> str | None:
        """The error code of the refusal."""
        return self.parameters.get("error")

    @property
    def description(self) -> str | None:
        """The description of the error."""
        return self.parameters.get("error_description")

    @property
    def resource_metadata(self) -> str | None:
        """The URL of the protected resource's metadata."""
        return self.parameters.get("resource_metadata")


def parse(header: str) -> list[Challenge]:
    """Return the challenges of a header, up to the first malformed one."""
    text = header[:MAX_HEADER]
    found: list[Challenge] = []
    at = 0
    while scheme := _SCHEME.match(text, at):
        at = scheme.end()
        parameters: dict[str, str] = {}
        while parameter := _PARAMETER.match(text, at):
            at = parameter.end()
            name, quoted, plain = parameter.groups()
            value = plain if quoted is None else re.sub(r"\\(.)", r"\1", quoted, flags=re.DOTALL)
            parameters.setdefault(name.lower(), value)
        found.append(Challenge(scheme[1].lower(), parameters))
    return found


def _challenges(headers: Mapping[str, str]) -> list[Challenge]:
    return [challenge for value in header_values(headers, "www-authenticate") for challenge in parse(value)]


def usable_challenge(headers: Mapping[str, str]) -> Challenge | None:
    """Return the Bearer or DPoP challenge of a response; if there are several, the one with the most parameters."""
    usable = [one for one in _challenges(headers) if one.scheme in ("bearer", "dpop")]
    return max(usable, key=lambda one: (len(one.parameters), one.scheme == "dpop"), default=None)


def needs_dpop_nonce(headers: Mapping[str, str]) -> bool:
    """Tell whether a server refuses a DPoP proof because it lacks a nonce; the refusal contains the nonce."""
    return any(one.scheme == "dpop" and one.error == USE_DPOP_NONCE for one in _challenges(headers))


def offered_schemes(headers: Mapping[str, str]) -> set[str]:
    """Return the schemes of all challenges of a response."""
    return {one.scheme for one in _challenges(headers)}


def reason_text(challenge: Challenge | None, secrets: Secrets) -> str:
    """Return the error of a challenge in parentheses, and its description, as far as the challenge has them."""
    error = f" ({secrets.quoted(challenge.error)})" if challenge is not None and challenge.error else ""
    described = challenge is not None and challenge.description
    return f"{error}: {secrets.quoted(described).rstrip('.')}" if described else error


def refusal_text(status: int, headers: Mapping[str, str], sent: Mapping[str, str]) -> str:
    """Return the text of a refusal's error, to follow the server's name: the reason in the challenge, and a remedy.

    `sent` are the headers of the request. A text of the server that repeats a secret of them is left out.
    """
    challenge = usable_challenge(headers) or Challenge("")
    secrets = Secrets()
    for name, value in sent.items():
        if name.lower() not in _NOT_SECRET:
            secrets.add(value.partition(" ")[2] or value)
    reason = f"with status {status}{reason_text(challenge, secrets)}"
    if challenge.error == INSUFFICIENT_SCOPE:
        scope = f"; get a token with the scopes {secrets.quoted(challenge.scope)}" if challenge.scope else ""
        return f"refuses the token because it lacks scopes, {reason}{scope}"
    if challenge.error is not None:
        remedy = "; get a new token, meant for this server" if challenge.error == INVALID_TOKEN else ""
        return f"refuses the credentials {reason}{remedy}"
    if any(name.lower() == "authorization" for name in sent):
        return f"refuses the credentials that were sent, {reason}; is what auth= or headers= gives right?"
    return f"wants credentials (status {status}){reason_text(challenge, secrets)}; give auth= or headers="


def header_values(headers: Mapping[str, str], name: str) -> Iterable[str]:
    """Return every value of a header; the case of its name does not matter."""
    getall = getattr(headers, "getall", None)
    if getall is not None:
        return list(getall(name, ()))
    return [value for key, value in headers.items() if key.lower() == name]
