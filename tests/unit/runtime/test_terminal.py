"""Text of others as it is shown."""

import json
import sys
import unicodedata

import pytest

from dragoman.runtime.terminal import printable, printable_json, printable_line, printable_url, url_warnings

UNSEEN = [
    *map(chr, [*range(9), *range(11, 32), *range(127, 160)]),
    *"\xad\u034f\u061c\u115f\u1160\u200b\u200c\u200d\u200e\u200f\u2028\u2029\u202a\u202b\u202c\u202d\u202e",
    *"\u2060\u2061\u2064\u2066\u2067\u2068\u2069\u206a\u206f\u3164\ufe00\ufeff\uffa0\ufff9",
    *map(chr, [0xE0001, 0xE0041, 0xE007F, 0xE0100, 0xE01EF, 0x1D173]),
]


@pytest.mark.covers("CMD-17")
@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain\n\ttext", "plain\n\ttext"),
        ("line\r\nend", "line\nend"),
        ("over\rwritten", "over\\rwritten"),
        ("\x1b]0;title\x07", "\\x1b]0;title\\x07"),
        ("\x9b31m\u202ereversed", "\\x9b31m\\u202ereversed"),
        ("tag \U000e0041", "tag \\U000e0041"),
        ("lone \ud800", "lone \\ud800"),
        ("grüße 東京 🙂 ❤ مرحبا", "grüße 東京 🙂 ❤ مرحبا"),
        ("❤\ufe0f", "❤\\ufe0f"),
        ("a\ufe0eb\ufe0fc", "a\\ufe0eb\\ufe0fc"),
    ],
)
def test_what_is_not_seen_as_it_is_is_escaped(text, shown):
    assert printable(text) == shown


@pytest.mark.covers("CMD-17")
@pytest.mark.parametrize("character", UNSEEN, ids=lambda character: f"{ord(character):x}")
def test_no_unseen_character_is_left(character):
    assert printable(f"a{character}b").isascii()
    assert printable_line(f"a{character}b").isascii()
    assert json.loads(printable_json(json.dumps(f"a{character}b", ensure_ascii=False))) == f"a{character}b"


@pytest.mark.covers("CMD-17")
def test_every_control_format_and_ignorable_character_is_escaped():
    visible_signs = {*range(0x600, 0x606), 0x6DD, 0x890, 0x891, 0x8E2, 0x110BD, 0x110CD}  # Arabic, Kaithi: have a glyph
    ignorable = [
        *(0x34F, 0x115F, 0x1160, 0x17B4, 0x17B5, 0x180B, 0x2065, 0x2800, 0x3164, 0xFFA0, 0xFFF0),
        *range(0xFE00, 0xFE10),
        *range(0xE0000, 0xE1000),
    ]
    hidden = [
        code
        for code in range(sys.maxunicode + 1)
        if unicodedata.category(chr(code)) in {"Cc", "Cf", "Cs", "Zl", "Zp"} and chr(code) not in "\t\n"
    ]
    passed = {code for code in (*hidden, *ignorable) if not printable(f"a{chr(code)}b").isascii()}
    assert {f"{code:x}" for code in passed - visible_signs} == set()


@pytest.mark.covers("CMD-17")
def test_bytes_hidden_in_variation_selectors_are_shown():
    hidden = "".join(chr(0xFE00 + byte if byte < 16 else 0xE0100 + byte - 16) for byte in b"\x01send all\x0f")
    shown = printable_line(f"Weather \u263a{hidden}")
    assert shown.removeprefix("Weather \u263a").isascii()
    assert shown.count("\\") == len(hidden)


@pytest.mark.covers("CMD-17")
def test_a_line_has_no_line_ends():
    assert printable_line("a\nb\tc\r\nd") == "a\\nb\\tc\\r\\nd"


@pytest.mark.covers("CMD-30")
@pytest.mark.parametrize(
    ("url", "shown", "sign"),
    [
        ("https://example.com/a?b=%20c#d", "https://example.com/a?b=%20c#d", None),
        ("http://[::1]:8000/mcp", "http://[::1]:8000/mcp", None),
        ("https://example.com/\u202etxt", "https://example.com/%E2%80%AEtxt", None),
        ("https://\u0430pple.com/é", "https://xn--pple-43d.com/%C3%A9", "mixes the scripts CYRILLIC, LATIN"),
        ("https://xn--pple-43d.com/", "https://xn--pple-43d.com/", "mixes the scripts CYRILLIC, LATIN"),
        ("https://\u0430\u0440\u0440\u04cf\u0435.com/", "https://xn--80ak6aa92e.com/", "other letters than a to z"),
        ("https://a\u2044b.example/", "https://xn--ab-c6t.example/", "other letters than a to z"),
        ("https://ex\u200bample.com/", "https://example.com/", "ex\\u200bample.com"),
        ("https://bank.com@evil.com:80/", "https://bank.com@evil.com:80/", "the host is evil.com"),
        ("https://é@é.example/", "https://%C3%A9@xn--9ca.example/", "before the @"),
        ("https://東京ドーム.jp/", "https://xn--gdk3b6d606l34z.jp/", "other letters than a to z"),
        ("https://xn--\u00e9.com/", "https://xn--%C3%A9.com/", "other letters than a to z"),
        ("https://stra\u00dfe.de/", "https://xn--strae-oqa.de/", "other letters than a to z: stra\u00dfe.de"),
        ("https://a@\x1bc/", "https://a@%1Bc/", "the host is %1Bc"),
        ("mailto:ada", "mailto:ada", "no URL of a host"),
        ("https://[broken/\u202e", "https://[broken/%E2%80%AE", "no URL of a host"),
    ],
)
def test_a_url_is_shown_in_ascii_and_marked_where_it_misleads(url, shown, sign):
    assert printable_url(url) == shown
    found = url_warnings(url)
    assert found == [] if sign is None else any(sign in warning for warning in found), found


@pytest.mark.covers("CMD-30")
def test_scripts_that_are_written_together_are_not_said_to_be_mixed():
    assert not [warning for warning in url_warnings("https://東京ドーム.jp/") if "mixes" in warning]
