"""Configuration files: where they are, where the servers stand in them, and what is no configuration."""

import copy
import json
import pickle
import string
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman import ConfigError, DragomanError
from dragoman.client.group.config import FILES, is_configuration, load, plain_json
from unit.client.group.test_entry import SECRET, usable


def write(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


# Where the servers stand.


@pytest.mark.covers("LCF-03")
@pytest.mark.parametrize("key", ["mcpServers", "servers", "mcp_servers"])
def test_servers_are_found_under_the_key_of_every_host(key):
    assert usable({"command": "run"}, key=key).target["command"] == "run"


def test_servers_are_found_in_the_settings_of_vs_code():
    assert [one.name for one in load({"mcp": {"servers": {"a": {"command": "x"}}}, "editor.fontSize": 3})] == ["a"]


def test_servers_are_found_without_any_key_around_them():
    assert [one.name for one in load({"a": {"command": "x"}, "b": {"httpUrl": "https://example.com"}})] == ["a", "b"]


def test_servers_under_several_keys_are_all_found():
    document = {"mcpServers": {"a": {"command": "x"}}, "servers": {"b": {"command": "y"}, "a": {"command": "z"}}}
    assert {one.name: one.target["command"] for one in load(document)} == {"a": "x", "b": "y"}


@pytest.mark.covers("LCF-06")
@pytest.mark.parametrize("document", [{}, {"mcpServers": {}}, {"mcpServers": None}])
def test_no_servers_is_an_empty_list(document):
    assert load(document) == []


def test_a_document_without_any_of_the_keys_is_an_error_that_names_them():
    with pytest.raises(ConfigError, match="mcpServers, servers, mcp_servers"):
        load({"mcpservers": {"a": {"command": "x"}}})


def test_servers_that_are_no_object_are_an_error_that_names_the_key():
    with pytest.raises(ConfigError) as caught:
        load({"mcpServers": [{"command": "x"}]})
    assert caught.value.field == "mcpServers"


# Files.


@pytest.mark.covers("LCF-05")
def test_json_may_have_comments_trailing_commas_and_a_byte_order_mark(tmp_path):
    path = tmp_path / "mcp.json"
    text = """{
      // the servers
      "mcpServers": {
        "a": {"command": "run", /* what follows */ "args": ["http://x", "/* no */", "a,]", "\\\\", "\\"//",],},
      },
    }"""
    path.write_bytes(b"\xef\xbb\xbf" + text.encode())
    [found] = load(path)
    assert found.target["args"] == ["http://x", "/* no */", "a,]", "\\", '"//']
    assert found.file == str(path)


def test_an_error_of_json_names_file_line_and_column_in_spite_of_comments(tmp_path):
    path = write(tmp_path / "mcp.json", '{\n/* two\nlines */ "a": 1, "b": [2 3],\n}')
    with pytest.raises(ConfigError, match="line 3, column 26") as caught:
        load(path)
    assert caught.value.file == str(path)


@pytest.mark.parametrize("text", ["[]", '"x"', "3", "[" * 100_000, "{", '{"a": "', "/* no end", "{'a': 1}"])
def test_what_is_no_configuration_is_an_error_that_names_the_file(tmp_path, text):
    path = write(tmp_path / "mcp.json", text)
    with pytest.raises(ConfigError) as caught:
        load(path)
    assert caught.value.file == str(path)


@pytest.mark.parametrize("text", ["", "  \n", "// nothing yet", "null"])
def test_an_empty_file_has_no_servers(tmp_path, text):
    assert load(write(tmp_path / "mcp.json", text)) == []


def test_a_named_file_that_cannot_be_read_is_an_error_that_says_why(tmp_path):
    with pytest.raises(ConfigError, match="No such file"):
        load(tmp_path / "missing.json")
    (tmp_path / "latin.json").write_bytes(b'{"mcpServers": {"\xe9": {}}}')
    with pytest.raises(ConfigError, match="UTF-8"):
        load(tmp_path / "latin.json")


def test_toml_is_read(tmp_path):
    path = tmp_path / "config.toml"
    [found] = load(write(path, '[mcp_servers.a]\ncommand = "run"\nargs = ["x"]\nenv = { A = "1" }\n'))
    assert (found.target["command"], found.target["env"]) == ("run", {"A": "1"})
    with pytest.raises(ConfigError, match="not valid TOML"):
        load(write(path, "[mcp_servers"))


YAML = """
mcp_servers:
  filesystem:
    transport_type: :stdio
    command: npx
    args:
      - "@acme/files"
      - ${HOME}
    env: {}
    with_prefix: true
    request_timeout: 2500
  api:
    transport_type: sse
    url: "https://api.example.com/mcp/sse"
    headers:
      Authorization: "Bearer ${API_TOKEN:-none}"
"""


@pytest.mark.covers("LCF-03", "LCF-05")
@pytest.mark.parametrize("suffix", [".yml", ".yaml", ".YML"])
def test_yaml_is_read(tmp_path, monkeypatch, suffix):
    pytest.importorskip("yaml")
    monkeypatch.setenv("HOME", "/home/jo")
    files, api = load(write(tmp_path / f"mcps{suffix}", YAML))
    assert (files.error, api.error) == (None, None)
    assert files.target["args"] == ["@acme/files", "/home/jo"]
    assert (files.prefix, files.options) == ("filesystem", {"timeout": 2.5})
    assert api.target["headers"] == {"Authorization": "Bearer none"}


@pytest.mark.parametrize("text", [f"a: [{SECRET}", f"a: {SECRET}: b", f"{SECRET}: !!python/object:x {{}}", "\x00"])
def test_an_error_of_yaml_quotes_nothing(tmp_path, text):
    pytest.importorskip("yaml")
    with pytest.raises(ConfigError, match="not valid YAML") as caught:
        load(write(tmp_path / "mcps.yml", text))
    assert SECRET not in str(caught.value)


def test_without_the_package_for_yaml_the_error_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "yaml", None)
    path = write(tmp_path / "mcps.yml", YAML)
    with pytest.raises(ConfigError, match=r"pip install dragoman\[yaml\]"):
        load(path)


# Which file.


def one_server(name):
    return json.dumps({"servers": {name: {"command": "run"}}})


@pytest.mark.covers("LCF-09")
def test_without_a_path_the_first_file_of_the_known_places_is_read(tmp_path, monkeypatch):
    places = [*(tmp_path / name for name in FILES), tmp_path / "settings" / "dragoman" / "mcp.json"]
    assert FILES == (".mcp.json", "mcp.json", ".vscode/mcp.json", ".cursor/mcp.json")
    for number, place in reversed(list(enumerate(places))):
        write(place, one_server(f"place{number}"))
        assert [one.name for one in load()] == [f"place{number}"]
    write(tmp_path / "elsewhere.json", one_server("named"))
    monkeypatch.setenv("DRAGOMAN_CONFIG", str(tmp_path / "elsewhere.json"))
    assert [one.name for one in load()] == ["named"]


@pytest.mark.covers("LCF-06")
def test_without_any_file_there_are_no_servers_and_a_warning_says_where_was_looked(caplog):
    assert load() == []
    assert ".vscode/mcp.json" in caplog.text


def test_a_file_that_the_environment_names_must_be_there(monkeypatch):
    monkeypatch.setenv("DRAGOMAN_CONFIG", "missing.json")
    with pytest.raises(ConfigError):
        load()


# The error.


def test_an_error_tells_its_place_as_far_as_it_is_known_and_survives_copying():
    error = ConfigError("it is wrong", "mcp.json", "one", "env.A")
    assert str(error) == "mcp.json, server 'one', env.A: it is wrong"
    assert str(ConfigError("it is wrong")) == "it is wrong"
    assert isinstance(error, DragomanError)
    assert isinstance(error, ValueError)
    for same in (copy.copy(error), pickle.loads(pickle.dumps(error))):
        assert (str(same), same.file, same.server, same.field) == (str(error), "mcp.json", "one", "env.A")


# Comments and commas.

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(string.printable) | st.text('/*",]}\\ \n', max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text('ab/*,"}'), inner, max_size=4),
    max_leaves=12,
)
GAPS = st.sampled_from(["", " ", "\n", "\r\n", "/* , */", "// ]}\n", '/* " */', "/**/", '// "\n', "/*/ ,*/", "\t"])


def decorated(value, draw) -> str:
    """JSON with comments between any two tokens, and with trailing commas."""

    def gap() -> str:
        return draw(GAPS) + draw(GAPS)

    def joined(opening: str, items: list[str], closing: str) -> str:
        last = f",{gap()}" if items and draw(st.booleans()) else ""
        return opening + gap() + f",{gap()}".join(items) + last + closing

    if isinstance(value, dict):
        items = [f"{json.dumps(key)}{gap()}:{gap()}{decorated(part, draw)}{gap()}" for key, part in value.items()]
        return joined("{", items, "}")
    if isinstance(value, list):
        return joined("[", [decorated(part, draw) + gap() for part in value], "]")
    return json.dumps(value)


@settings(deadline=None)
@given(st.data())
def test_comments_and_trailing_commas_change_nothing(data):
    value = data.draw(VALUES)
    text = decorated(value, data.draw)
    plain = plain_json(text)
    assert json.loads(plain) == value
    assert len(plain) == len(text)
    assert [len(line) for line in plain.splitlines()] == [len(line) for line in text.splitlines()]


@given(VALUES, st.sampled_from([None, 2]))
def test_plain_json_stays_as_it_is(value, indent):
    text = json.dumps(value, indent=indent)
    assert plain_json(text) == text


@given(st.text('/*",]}[{:\\ \n1a'))
def test_any_text_is_taken_and_never_grows(text):
    assert len(plain_json(text)) == len(text)


@pytest.mark.parametrize(
    "text", ["[1,,]", "[1 2]", '{"a" 1}', "[1, /* ] ", '["a', "[1]/", '{"a": 1,, }', '["a // b', "/* /* */ */"]
)
def test_what_is_no_json_does_not_become_any(text):
    with pytest.raises(json.JSONDecodeError):
        json.loads(plain_json(text))


def test_a_comma_before_a_comment_and_an_item_stays():
    assert json.loads(plain_json('[1, /* a */ "x" /* b */ ]')) == [1, "x"]


# What is a configuration, and no target of one client.


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        ({"mcpServers": {}}, True),
        ({"mcp": {"servers": {}}}, True),
        ({"a": {"command": "x"}, "b": {"url": "https://example.com"}}, True),
        ({"command": "x"}, False),
        ({"type": "bus", "servers": ["nats://localhost"]}, False),
        ({}, False),
        ("mcp.json", True),
        (Path("settings.TOML"), True),
        ("mcp.py", False),
        ("notes-server --config notes.json", False),
        ("https://example.com/mcp.json", False),
        (["mcp.json"], False),
    ],
    ids=repr,
)
def test_a_configuration_is_told_from_the_target_of_one_client(target, expected):
    assert is_configuration(target) is expected


def test_the_path_of_a_configuration_may_have_spaces_if_there_is_such_a_file(tmp_path):
    path = tmp_path / "my servers.json"
    assert not is_configuration(str(path))
    path.write_text("{}")
    assert is_configuration(str(path))
