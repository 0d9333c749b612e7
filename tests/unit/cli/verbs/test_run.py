"""The words of `dragoman run`."""

import pytest

from dragoman.cli.verbs.run import parse
from dragoman.errors import ConfigError

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
    assert (parsed.target, parsed.http, parsed.is_dev, parsed.log_format) == ("a.py", http, is_dev, log_format)


@pytest.mark.parametrize(
    ("words", "fault"),
    [
        ("", "The file is missing"),
        ("--reload", "The file is missing"),
        ("a.py b.py", "Give one file, not a.py and b.py"),
        ("--what a.py", "There is no option '--what'"),
        ("--wrokers=2 a.py", r"There is no option '--wrokers=2'; did you mean '--workers'\?"),
        ("--port 1 a.py", "--port is for HTTP: add --http"),
        ("--no-health a.py", "--no-health is for HTTP"),
        ("--http --port x a.py", "--port must be a number, not 'x'"),
        ("--http a.py --host", "--host needs a value"),
        ("--http a.py --workers=", "--workers needs a value"),
        ("--include-tags a,,b a.py", "--include-tags must be tags with commas between them"),
        ("--log-format xml a.py", "--log-format must be text or json, not 'xml'"),
    ],
)
def test_wrong_words_are_refused_by_their_fault(words, fault):
    with pytest.raises(ConfigError, match=fault):
        parse(words.split())
