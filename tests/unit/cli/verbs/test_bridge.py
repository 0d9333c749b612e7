"""`dragoman bridge`, as a person uses it at a shell."""

from scenarios.command_line import dragoman


def test_a_command_needs_no_bridge():
    shown = dragoman("bridge", "python server.py")
    assert shown.code == 2
    assert "neither a URL nor a cassette" in shown.err


def test_a_broken_cassette_is_named(tmp_path):
    broken = tmp_path / "broken.jsonl"
    broken.write_text("{}")
    shown = dragoman("bridge", broken)
    assert shown.code == 1
    assert "no cassette" in shown.err
