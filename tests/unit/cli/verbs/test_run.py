"""The words of `dragoman run`."""

import pytest

from dragoman.cli.verbs.run import parse

HTTP = {"health": True, "access_log": False}


@pytest.mark.parametrize(
    ("words", "http", "is_dev", "log_format"),
    [
        ("a.py", None, False, None),
        ("--dev a.py", None, True, None),
        ("a.py --reload --log-format json", None, True, "json"),
        ("--http a.py", HTTP, False, None),
        ("--http --dev a.py", HTTP | {"access_log": True}, True, None),
        ("--http --access-log --log-format=text a.py", HTTP | {"access_log": True}, False, "text"),
        ("--http --no-health --port=1 --host h a.py", HTTP | {"health": False, "port": 1, "host": "h"}, False, None),
    ],
)
def test_words_become_options(words, http, is_dev, log_format):
    parsed = parse(words.split())
    assert parsed is not None
    assert (parsed.target, parsed.http, parsed.is_dev, parsed.log_format) == ("a.py", http, is_dev, log_format)


@pytest.mark.parametrize(
    "words",
    ["", "a.py b.py", "--what", "--port 1 a.py", "--http --port x a.py", "--http a.py --host", "--log-format xml a.py"],
)
def test_wrong_words_are_refused(words):
    assert parse(words.split()) is None
