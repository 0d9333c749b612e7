"""Text of others as it may be shown to a person, in a terminal or on a page.

Control characters move the cursor or colour the screen, bidirectional controls change the order of what is read, and
invisible characters hide what a model or a program still sees. They are shown as escapes, such as `\\x1b` or `\\u202e`.
"""

from __future__ import annotations

import re
import unicodedata
from unicodedata import normalize
from urllib.parse import quote, urlsplit

_HIDDEN = (
    "\x00-\x08\x0b-\x1f\x7f-\x9f"  # C0 without tab and line feed, DEL, C1
    "\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f"
    "\u200b-\u200f\u2028-\u202e\u2060-\u206f"  # zero width, line separators, bidirectional controls
    "\u3164\ufe00-\ufe0d\ufeff\uffa0\ufff0-\ufffb\ufffe\uffff"
    "\ud800-\udfff\U0001bca0-\U0001bca3\U0001d173-\U0001d17a"
    "\U000e0000-\U000e0fff"  # tags and variation selectors
)
# One variation selector chooses how an emoji looks. A row of them spells a hidden text.
_SELECTORS = "(?<=[\ufe0e\ufe0f])[\ufe0e\ufe0f]"
_UNSAFE = re.compile(f"[{_HIDDEN}]|{_SELECTORS}")
_UNSAFE_IN_LINE = re.compile(f"[\n\t{_HIDDEN}]|{_SELECTORS}")
_DOTS = re.compile("[.\u3002\uff0e\uff61]")
_DEVIATING = re.compile("[\xdf\u03c2]")
"""Letters that browsers look up as they are (IDNA 2008), and that Python's codec replaces (IDNA 2003)."""
_NOT_ASCII = re.compile(r"[^\x21-\x7e]+")
_ALIKE = (frozenset({"CJK", "HIRAGANA", "KATAKANA"}), frozenset({"CJK", "HANGUL"}), frozenset({"CJK", "BOPOMOFO"}))
"""Scripts that are written together."""


def printable(text: str) -> str:
    """Return a text of several lines with everything escaped that is not seen as it is.

    Example:
        printable("\\x1b[2Jgone")  # "\\\\x1b[2Jgone"
    """
    return _UNSAFE.sub(_escape, text.replace("\r\n", "\n"))


def printable_line(text: str) -> str:
    """Return a text as one line; line ends and tabs are escaped too."""
    return _UNSAFE_IN_LINE.sub(_escape, text)


def printable_json(text: str) -> str:
    """Return a JSON document that means the same, with such characters as escapes of JSON."""
    return _UNSAFE.sub(_escape_json, text)


def _escape(found: re.Match[str]) -> str:
    return found[0].encode("unicode_escape", "surrogatepass").decode("ascii")


def _escape_json(found: re.Match[str]) -> str:
    units = found[0].encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at]:02x}{units[at + 1]:02x}" for at in range(0, len(units), 2))


def printable_url(url: str) -> str:
    """Return a URL in ASCII: its host as programs look it up, the rest percent-encoded."""
    authority, host = _authority(url), _host(url)
    if host is None or authority not in url:
        return _percent(url)
    before, _, after = url.partition(authority)
    user, _, rest = authority.rpartition(host)
    return _percent(before + user) + _ascii_host(host) + _percent(rest + after)


def url_warnings(url: str) -> list[str]:
    """Return what a person should know before they open a URL or approve of it; nothing if it is plain.

    Example:
        url_warnings("https://xn--pple-43d.com/")
    """
    host = _host(url)
    if host is None:
        return ["This is no URL of a host."]
    found = []
    if "@" in _authority(url):
        found.append(f"What stands before the @ is no host; the host is {_ascii_host(host)}.")
    read = _read_host(host)
    if not read.isascii() or "xn--" in host.lower():
        found.append(f"The host {_ascii_host(host)} is written with other letters than a to z: {printable_line(read)}")
    for label in read.split("."):
        scripts = _scripts(label)
        if len(scripts) > 1 and not any(scripts <= alike for alike in _ALIKE):
            found.append(f"The host mixes the scripts {', '.join(sorted(scripts))}: {printable_line(label)}")
    return found


def _authority(url: str) -> str:
    try:
        return urlsplit(url).netloc
    except ValueError:
        return ""


def _host(url: str) -> str | None:
    """Return the host of a URL as it is written there."""
    authority = _authority(url).rpartition("@")[2]
    if authority.startswith("["):
        return authority.partition("]")[0] + "]"
    return authority.partition(":")[0] or None


def _ascii_host(host: str) -> str:
    if host.isascii():
        return _percent(host)
    return ".".join(map(_ascii_label, _DOTS.split(host)))


def _ascii_label(label: str) -> str:
    try:
        if _DEVIATING.search(label):
            return f"xn--{normalize('NFKC', label.lower()).encode('punycode').decode('ascii')}"
        return label.encode("idna").decode("ascii")
    except UnicodeError:
        return _percent(label)


def _read_host(host: str) -> str:
    """Return a host as a person reads it."""
    labels = []
    for label in host.split("."):
        try:
            labels.append(label[4:].encode("ascii").decode("punycode") if label.lower().startswith("xn--") else label)
        except UnicodeError:
            labels.append(label)
    return ".".join(labels)


def _scripts(label: str) -> set[str]:
    return {re.split("[ -]", unicodedata.name(letter, "UNKNOWN"))[0] for letter in label if letter.isalpha()}


def _percent(text: str) -> str:
    return _NOT_ASCII.sub(lambda found: quote(found[0].encode("utf-8", "surrogatepass")), text)
