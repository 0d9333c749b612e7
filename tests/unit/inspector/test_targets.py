"""Targets that the page names."""

import json

import pytest

from dragoman.errors import InspectorError
from dragoman.inspector.inspector import Inspector
from dragoman.inspector.targets import targets_of


def test_a_url_is_named_by_its_host_and_a_command_by_itself():
    [url] = targets_of("https://user:pass@api.example.com/mcp")
    assert (url.name, url.url) == ("api.example.com", "https://user:pass@api.example.com/mcp")
    [command] = targets_of("npx -y @acme/server")
    assert (command.name, command.target, command.url) == ("npx -y @acme/server", "npx -y @acme/server", None)


def test_a_script_is_found_by_its_path(tmp_path):
    path = tmp_path / "server.py"
    path.write_text("", encoding="utf-8")
    [script] = targets_of(str(path), "shop")
    assert (script.name, script.target) == ("shop", path)


def test_an_entry_a_configuration_and_a_file_have_servers(tmp_path):
    entry = {"command": "python", "args": ["server.py", "--port", "1"], "env": {"A": "b"}}
    [one] = targets_of(entry, "one", env={"C": "d"})
    assert (one.name, one.shown, one.options["env"]) == ("one", "python server.py --port 1", {"C": "d"})
    two = targets_of(
        {"mcpServers": {"a": entry, "b": {"url": "https://example.com", "headers": {"authorization": "x"}}}}
    )
    assert [(target.name, target.is_authorized) for target in two] == [("a", False), ("b", True)]
    file = tmp_path / "mcp.json"
    file.write_text(json.dumps({"servers": {"c": {"url": "https://example.com", "auth": "oauth"}}}), encoding="utf-8")
    [login] = targets_of(str(file))
    assert (login.source, login.login, "auth" in login.options) == (str(file), {}, False)


def test_headers_and_tokens_authorize():
    [by_token] = targets_of("https://example.com", token="abc")
    [by_header] = targets_of("https://example.com", headers={"Authorization": "Basic x"})
    [by_key] = targets_of("https://example.com", headers={"X-Key": "x"})
    assert [one.is_authorized for one in (by_token, by_header, by_key)] == [True, True, False]
    assert (by_token.options["auth"], by_key.options["headers"]) == ("abc", {"X-Key": "x"})


@pytest.mark.parametrize("given", ["", "  ", {"mcpServers": 3}, "http://[::1"])
def test_what_names_no_server_is_refused(given):
    with pytest.raises(InspectorError):
        targets_of(given)


def test_a_command_with_a_secret_runs_as_it_is_and_is_shown_masked():
    entries = targets_of({"command": "npx", "args": ["server", "--token", "abc"]}, "shop")
    command, entry = (one.target for one in Inspector().add([*targets_of("npx server --token abc"), *entries]))
    assert (command.target, command.name, command.shown) == ("npx server --token abc", *["npx server --token ***"] * 2)
    assert (entry.target["args"][-1], entry.shown) == ("abc", "npx server --token ***")
