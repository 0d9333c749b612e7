"""Signed tokens that clients hold and send back: session ids and request states.

A token is base64url(tag + payload). The tag is HMAC-SHA256 over the purpose and the payload. A token is signed and not
encrypted: its holder can read it. The first key of a ring seals, and every key opens, so keys can be rotated. The
caller gives the time and the random nonce, because this module reads no clock.

`KeyRing.encrypt` is for values that a store keeps. It encrypts, then authenticates: the value is combined by XOR with
the output of SHAKE-256 over a key and the nonce, and HMAC-SHA256 covers the purpose, the nonce and the result. The
standard library has no cipher. Rejected: a dependency on `cryptography`, which would be the largest one of a server
that encrypts nothing else.
"""

from __future__ import annotations

import hashlib
import hmac
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Iterable
from typing import Any

import msgspec
from msgspec import Struct

from dragoman import types
from dragoman.protocol.eras import Caller
from dragoman.protocol.jsonrpc import encode
from dragoman.protocol.methods import declares
from dragoman.protocol.versions import find_version

_TAG_BYTES = 32
NONCE_BYTES = 16
_CLOCK_SKEW = 60
_MIN_KEY_BYTES = 16


class KeyRing:
    """A list of keys: the first seals tokens, all of them open tokens.

    Example:
        ring = KeyRing(new_key, old_key)
        ring.open("greeting", ring.seal("greeting", b"hello"))

    Raises:
        ValueError: there is no key, or a key has less than 16 bytes.
    """

    def __init__(self, *keys: bytes) -> None:
        if not keys or any(len(key) < _MIN_KEY_BYTES for key in keys):
            raise ValueError(f"A key ring needs at least one key, and every key at least {_MIN_KEY_BYTES} bytes")
        self._keys = [_Key(key) for key in keys]

    def seal(self, purpose: str, payload: bytes) -> str:
        """Return the payload as a token that opens only for the same purpose."""
        token = self._keys[0].tag(purpose, payload) + payload
        return urlsafe_b64encode(token).rstrip(b"=").decode("ascii")

    def open(self, purpose: str, token: str) -> bytes | None:
        """Return the payload of a token that a key of this ring sealed for the purpose, else None."""
        sealed = _from_base64(token)
        if sealed is None:
            return None
        tag, payload = sealed[:_TAG_BYTES], sealed[_TAG_BYTES:]
        genuine = any(hmac.compare_digest(tag, key.tag(purpose, payload)) for key in self._keys)
        return payload if genuine else None

    def digest(self, purpose: str, value: bytes) -> str:
        """Return a digest of the value that only a holder of the first key can compute."""
        return self._keys[0].tag(purpose, value).hex()

    def encrypt(self, purpose: str, value: bytes, nonce: bytes) -> bytes:
        """Return the value encrypted and authenticated; the nonce is random, used once, and has `NONCE_BYTES` bytes."""
        key = self._keys[0]
        hidden = nonce + key.masked(nonce, value)
        return key.tag(f"encrypted {purpose}", hidden) + hidden

    def decrypt(self, purpose: str, data: bytes) -> bytes | None:
        """Return the value that a key of this ring encrypted for the purpose, else None."""
        tag, hidden = data[:_TAG_BYTES], data[_TAG_BYTES:]
        for key in self._keys:
            if hmac.compare_digest(tag, key.tag(f"encrypted {purpose}", hidden)):
                return key.masked(hidden[:NONCE_BYTES], hidden[NONCE_BYTES:])
        return None


class _Key:
    """A key of a ring, with the key of its stream."""

    __slots__ = ("_key", "_stream_key")

    def __init__(self, key: bytes) -> None:
        self._key = key
        # The key of the stream differs from the key of the tag, so that neither says anything about the other.
        self._stream_key = hmac.digest(key, b"dragoman stream key", "sha256")

    def tag(self, purpose: str, payload: bytes) -> bytes:
        """Return the tag of a payload for a purpose."""
        label = purpose.encode("utf-8", "surrogatepass")
        return hmac.digest(self._key, len(label).to_bytes(4, "big") + label + payload, "sha256")

    def masked(self, nonce: bytes, value: bytes) -> bytes:
        """Return the value combined by XOR with a stream that only the holder of the key can make."""
        stream = hashlib.shake_256(self._stream_key + nonce).digest(len(value))
        return (int.from_bytes(value, "big") ^ int.from_bytes(stream, "big")).to_bytes(len(value), "big")


def _from_base64(text: str) -> bytes | None:
    try:
        sealed = urlsafe_b64decode(text.encode("ascii") + b"=" * (-len(text) % 4))
    except ValueError:
        return None
    # Only the canonical spelling is accepted; with another spelling, a client could use a revoked id.
    return sealed if urlsafe_b64encode(sealed).rstrip(b"=") == text.encode("ascii") else None


def digest(text: str | None) -> bytes:
    """Return a short digest of a principal or an origin, to which a token is bound; empty for None."""
    return b"" if text is None else hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()[:12]


_CAPABILITIES: tuple[tuple[str, ...], ...] = (
    ("sampling",),
    ("sampling", "context"),
    ("sampling", "tools"),
    ("elicitation",),
    ("elicitation", "form"),
    ("elicitation", "url"),
    ("roots",),
    ("roots", "list_changed"),
)
_KINDS: dict[str, Any] = {
    "sampling": types.SamplingCapability,
    "elicitation": types.ElicitationCapability,
    "roots": types.RootsCapability,
}
_MAX_NAME_LENGTH = 256
_MAX_VERSION_LENGTH = 64
_MAX_PAYLOAD_BYTES = 1_480
"""The largest payload of a session id; with its tag and in base64 the id has at most 2,048 bytes."""


class _SessionFields(Struct, array_like=True):
    version: str
    issued_at: int
    capabilities: int
    principal: bytes
    nonce: bytes
    name: str | None = None
    client_version: str | None = None
    origin: bytes = b""
    extensions: bytes = b""
    """JSON, because MessagePack has no integers beyond 64 bits."""


class OpenedSession(Struct, frozen=True):
    """The content of a session id."""

    caller: Caller
    expires_at: int
    """The last second, since the epoch, in which the id is valid."""
    origin: bytes = b""
    """The digest of the web origin that began the session; empty if there was none."""


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(_SessionFields)
_settings = msgspec.json.Decoder(dict[str, types.Json])


class SessionTokens:
    """Session ids that contain the session, so that every process with the key ring can serve it.

    An id holds the protocol version, the name and version of the client (cut to 256 and 64 characters), the client
    capabilities that servers use, the time of issue, and digests of the principal and of the web origin. It also holds
    those extensions that both sides have, as far as there is room; settings that are too large become empty. An id is
    valid only for the same server, path and principal, and for `max_age` seconds. It has at most 2,048 bytes.

    Example:
        tokens = SessionTokens(ring, server="weather", path="/mcp")
        id = tokens.seal(caller, principal=None, now=now, nonce=nonce)
        tokens.open(id, principal=None, now=now)  # OpenedSession(caller, ...)
    """

    def __init__(self, ring: KeyRing, *, server: str, path: str, max_age: int = 86_400) -> None:
        self._ring = ring
        self._purpose = f"session {len(server)} {server} {path}"
        self.max_age = max_age

    def seal(
        self,
        caller: Caller,
        *,
        principal: str | None,
        now: float,
        nonce: bytes,
        origin: bytes = b"",
        extensions: Iterable[str] = (),
    ) -> str:
        """Return a new session id; the random `nonce` makes the id unique, `extensions` are those of the server."""
        info = caller.info
        session = _SessionFields(
            caller.version.name,
            int(now),
            _flags(caller.capabilities),
            digest(principal),
            nonce,
            _cut(info.name, _MAX_NAME_LENGTH) if info else None,
            _cut(info.version, _MAX_VERSION_LENGTH) if info else None,
            origin,
        )
        declared = {id: settings for id in extensions if (settings := caller.extension(id)) is not None}
        if declared:
            session.extensions = _fitting(declared, _MAX_PAYLOAD_BYTES - len(_encoder.encode(session)))
        return self._ring.seal(self._purpose, _encoder.encode(session))

    def open(self, token: str, *, principal: str | None, now: float) -> OpenedSession | None:
        """Return the content of an id; None if it is forged, expired, or bound to another server or principal."""
        payload = self._ring.open(self._purpose, token)
        try:
            session = None if payload is None else _decoder.decode(payload)
        except (ValueError, RecursionError):  # another release with the same key may have sealed other fields
            session = None
        if session is None:
            return None
        version = find_version(session.version)
        fresh = -_CLOCK_SKEW <= now - session.issued_at <= self.max_age
        if version is None or not fresh or not hmac.compare_digest(session.principal, digest(principal)):
            return None
        name, client_version = session.name, session.client_version
        info = None if name is None or client_version is None else types.Implementation(name, client_version)
        caller = Caller(version, _capabilities(session.capabilities), info)
        if session.extensions:
            caller.capabilities.extensions = _settings.decode(session.extensions)
        return OpenedSession(caller, session.issued_at + self.max_age, session.origin)


def _cut(text: str, length: int) -> str:
    return text[:length].encode("utf-8", "replace").decode()


def _fitting(declared: dict[str, types.Json], room: int) -> bytes:
    """Encode settings of extensions; settings that do not fit become empty, and an id that does not fit is left out."""
    carried: dict[str, types.Json] = {}
    for id, settings in declared.items():
        for form in (settings, {}):
            if len(encode({**carried, id: form})) <= room:
                carried[id] = form
                break
    return encode(carried) if carried else b""


def _flags(capabilities: types.ClientCapabilities) -> int:
    return sum(1 << bit for bit, path in enumerate(_CAPABILITIES) if declares(capabilities, path))


def _capabilities(flags: int) -> types.ClientCapabilities:
    declared: dict[str, types.Json] = {}
    for bit, (name, *inner) in enumerate(_CAPABILITIES):
        if flags >> bit & 1:
            declared.setdefault(name, {}).update({key: True if key == "list_changed" else {} for key in inner})
    return types.ClientCapabilities(**{name: _KINDS[name](**inner) for name, inner in declared.items()})
