"""Terminal text: escapes that make text from a peer safe to show, and lines that a user types.

Text from a peer may contain characters that mislead a user. Control characters move the cursor or colour the screen,
bidirectional controls change the order of reading, and invisible characters hide text that a model or a program still
reads. The functions `printable*` replace them with escapes, such as `\\x1b` or `\\u202e`. Variation selectors are
escaped even after an emoji, where they choose its looks: each of them can stand for one hidden bit or byte. Web pages
use the same functions.

`read_line` leaves the terminal in its line mode, and the event loop watches the terminal, so that a task that waits for
a line can be interrupted or cancelled.
"""

from __future__ import annotations

import asyncio
import os
import re
import sys
import unicodedata
from contextlib import suppress
from typing import Any
from unicodedata import normalize
from urllib.parse import quote, urlsplit

from dragoman.runtime.offload import offload

MAX_LINE_BYTES = 65_536
_HIDDEN = (
    "\x00-\x08\x0b-\x1f\x7f-\x9f"  # C0 without tab and line feed, DEL, C1
    "\xad\u034f\u061c\u070f\u115f\u1160\u17b4\u17b5\u180b-\u180f"
    "\u200b-\u200f\u2028-\u202e\u2060-\u206f"  # zero width, line separators, bidirectional controls
    "\u2800"  # the blank braille cell: looks like a space, but no program treats it as one
    "\u3164\ufdd0-\ufdef\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\ufffe\uffff"  # fillers, variation selectors
    "\ud800-\udfff\U00013430-\U0001343f\U00016fe4\U0001bca0-\U0001bca3\U0001d159\U0001d173-\U0001d17a"
    "\U000e0000-\U000e0fff"  # tags, further variation selectors
)
_UNSAFE = re.compile(f"[{_HIDDEN}]")
_UNSAFE_IN_LINE = re.compile(f"[\n\t{_HIDDEN}]")
_DOTS = re.compile("[.\u3002\uff0e\uff61]")
_KEPT_BY_BROWSERS = re.compile("[\xdf\u03c2]")
"""Letters that browsers resolve unchanged (IDNA 2008) and that Python's codec replaces (IDNA 2003)."""
_NOT_ASCII = re.compile(r"[^\x21-\x7e]+")
_JOINT_SCRIPTS = (
    frozenset({"CJK", "HIRAGANA", "KATAKANA"}),
    frozenset({"CJK", "HANGUL"}),
    frozenset({"CJK", "BOPOMOFO"}),
)
"""Sets of scripts that one word may mix."""


def printable(text: str) -> str:
    """Return a text of several lines with misleading characters escaped.

    Example:
        printable("\\x1b[2Jgone")  # "\\\\x1b[2Jgone"
    """
    return _UNSAFE.sub(_escape, text.replace("\r\n", "\n"))


def printable_line(text: str) -> str:
    """Return a text as one line: line ends and tabs are escaped too."""
    return _UNSAFE_IN_LINE.sub(_escape, text)


def printable_json(text: str) -> str:
    """Return a JSON text of the same value, with misleading characters as JSON escapes."""
    return _UNSAFE.sub(_escape_json, text)


def _escape(found: re.Match[str]) -> str:
    return found[0].encode("unicode_escape", "surrogatepass").decode("ascii")


def _escape_json(found: re.Match[str]) -> str:
    units = found[0].encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at]:02x}{units[at + 1]:02x}" for at in range(0, len(units), 2))


def printable_url(url: str) -> str:
    """Return a URL in ASCII: the host in the form that is resolved, the rest percent-encoded."""
    authority, host = _authority(url), _host(url)
    if host is None or authority not in url:
        return _percent(url)
    before, _, after = url.partition(authority)
    user, _, rest = authority.rpartition(host)
    return _percent(before + user) + _ascii_host(host) + _percent(rest + after)


def url_warnings(url: str) -> list[str]:
    """Return warnings for a user who has to open or approve a URL; an empty list for a plain URL.

    Example:
        url_warnings("https://xn--pple-43d.com/")
    """
    host = _host(url)
    if host is None:
        return ["This is no URL of a host."]
    found = []
    if "@" in _authority(url):
        found.append(f"What stands before the @ is no host; the host is {_ascii_host(host)}.")
    shown = _decoded_host(host)
    if not shown.isascii() or "xn--" in host.lower():
        found.append(f"The host {_ascii_host(host)} is written with other letters than a to z: {printable_line(shown)}")
    for label in shown.split("."):
        scripts = _scripts(label)
        if len(scripts) > 1 and not any(scripts <= usual for usual in _JOINT_SCRIPTS):
            found.append(f"The host mixes the scripts {', '.join(sorted(scripts))}: {printable_line(label)}")
    return found


def _authority(url: str) -> str:
    try:
        return urlsplit(url).netloc
    except ValueError:
        return ""


def _host(url: str) -> str | None:
    """Return the host as the URL spells it."""
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
        if _KEPT_BY_BROWSERS.search(label):
            return f"xn--{normalize('NFKC', label.lower()).encode('punycode').decode('ascii')}"
        return label.encode("idna").decode("ascii")
    except UnicodeError:
        return _percent(label)


def _decoded_host(host: str) -> str:
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


def is_terminal(stream: Any) -> bool:
    """Tell whether a stream is a terminal."""
    try:
        return bool(stream.isatty())
    except (AttributeError, ValueError):
        return False


def discard_input() -> None:
    """Drop text that was typed before a question is asked, because it is no answer to the question."""
    if not is_terminal(sys.stdin):
        return
    try:
        import termios
    except ImportError:
        import msvcrt

        while msvcrt.kbhit():  # type: ignore[attr-defined]
            msvcrt.getwch()  # type: ignore[attr-defined]
        return
    with suppress(termios.error, OSError):
        termios.tcflush(sys.stdin.fileno(), termios.TCIFLUSH)


async def read_line() -> str:
    """Return the next line with its line end, or "" at the end of the input; only one task may wait for a line."""
    loop, ready = asyncio.get_running_loop(), asyncio.Event()
    descriptor = sys.stdin.fileno()
    try:
        loop.add_reader(descriptor, ready.set)
    except NotImplementedError:
        return await offload(sys.stdin.readline)
    try:
        await ready.wait()
        return os.read(descriptor, MAX_LINE_BYTES).decode("utf-8", "replace")
    finally:
        loop.remove_reader(descriptor)
