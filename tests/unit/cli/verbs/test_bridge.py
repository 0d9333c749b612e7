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
    assert shown.code == 2
    assert "is not a cassette" in shown.err


def test_a_command_is_served_over_http_alone():
    shown = dragoman("bridge", "--", "python", "server.py")
    assert shown.code == 2
    assert "a command after -- needs --http" in shown.err


def test_what_http_serves_must_be_named():
    assert "--http needs a URL, or a command after --" in dragoman("bridge", "--http", ":8000").err
    assert "--http needs a URL, or a command after --" in dragoman("bridge", "server.py", "--http", ":8000").err


def test_an_address_without_a_port_is_refused():
    shown = dragoman("bridge", "--http", "here", "--", "python", "server.py")
    assert (shown.code, "must be written as HOST:PORT" in shown.err) == (2, True)
