"""What a server says when it begins to serve HTTP."""

import io

import pytest

from dragoman import Server
from dragoman.server.routes.announcement import announce, announced_facts


def who(request):
    return "alice"


@pytest.mark.parametrize(
    ("options", "address", "facts"),
    [
        ({}, ("127.0.0.1", 80), {"workers": "1", "auth": "none"}),
        ({"workers": 4, "auth": who}, ("0.0.0.0", 80), {"workers": "4", "auth": "who"}),
        ({}, ("0.0.0.0", 80), {"auth": "none: everybody who reaches the address may call"}),
        ({"auth": [who, who]}, ("0.0.0.0", 80), {"auth": "2 issuers"}),
        ({"health": True}, ("::1", 80), {"health": "/healthz /readyz"}),
    ],
)
def test_the_facts_name_workers_auth_and_health(options, address, facts):
    found = announced_facts(Server("a").dispatcher, options, address)
    assert facts.items() <= found.items()
    assert found["versions"] == "2024-11-05 to 2026-07-28"


def test_a_server_for_development_says_so():
    assert (
        announced_facts(Server("a", debug=True).dispatcher, {}, ("127.0.0.1", 1))["debug"] == "clients see exceptions"
    )


def test_the_page_of_a_server_is_named_if_it_has_one():
    described = Server("a", website_url="https://example.com/docs")
    assert announced_facts(described.dispatcher, {}, ("127.0.0.1", 1))["docs"] == "https://example.com/docs"
    assert "docs" not in announced_facts(Server("a").dispatcher, {}, ("127.0.0.1", 1))


def test_a_line_has_the_address_and_no_control_characters(capsys):
    announce(Server("a\x1b[2J").dispatcher, {"path": "tools"}, ("::1", 8000, 0, 0))
    said = capsys.readouterr().err
    assert said.startswith("dragoman: serving a\\x1b[2J 0 at http://[::1]:8000/tools (")
    assert (said.count("\n"), "\x1b" in said) == (1, False)


@pytest.mark.parametrize("stderr", [None, io.StringIO()])
def test_a_program_without_stderr_serves_all_the_same(monkeypatch, stderr):
    if stderr is not None:
        stderr.close()
    monkeypatch.setattr("sys.stderr", stderr)
    assert announce(Server("a").dispatcher, {}, ("127.0.0.1", 1)) is None
