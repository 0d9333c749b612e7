"""`dragoman bridge`, as a person uses it at a shell."""

import pytest

from scenarios.command_line import dragoman


@pytest.mark.parametrize(
    ("words", "fault"),
    [
        (["python server.py"], "neither a URL nor a cassette"),
        (["broken.jsonl"], "is not a cassette"),
        (["--", "python", "server.py"], "a command after -- needs --http"),
        (["--http", ":8000"], "--http needs a URL, or a command after --"),
        (["server.py", "--http", ":8000"], "--http needs a URL, or a command after --"),
        (["--http", "here", "--", "python", "server.py"], "must be written as HOST:PORT or :PORT"),
    ],
)
def test_wrong_usage_names_the_fault(tmp_path, words, fault):
    (tmp_path / "broken.jsonl").write_text("{}")
    refused = dragoman("bridge", *words, cwd=tmp_path)
    assert (refused.code, fault in refused.err) == (2, True)
