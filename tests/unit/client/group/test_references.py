"""References in configuration files: what they stand for, and what is no reference."""

import json
from pathlib import Path

import pytest

from dragoman import ConfigError
from dragoman.client.group.config import load
from dragoman.client.group.references import ConfigSource
from unit.client.group.test_entry import error_of, usable


@pytest.mark.covers("LCF-04")
@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("${SET}", "value"),
        ("${env:SET}", "value"),
        ("a${SET}b${SET}", "avalueb" + "value"),
        ("${SET:-other}", "value"),
        ("${UNSET:-other}", "other"),
        ("${env:UNSET:-other}", "other"),
        ("${EMPTY:-other}", "other"),
        ("${EMPTY}", ""),
        ("${UNSET:-}", ""),
        ("${UNSET:-https://example.com:80/a?b=c}", "https://example.com:80/a?b=c"),
        ("${UNSET:-${SET}}", "value"),
        ("${UNSET:-${ALSO_UNSET:-x}}", "x"),
        ("$SET", "$SET"),
        ("$SET ${SET} $", "$SET value $"),
        ("${}", "${}"),
        ("${not a name}", "${not a name}"),
        ("${config:x}", "${config:x}"),
        ("${LOOKS_LIKE_ONE}", "${SET}"),
        ("~/x", "~/x"),
    ],
)
def test_references_are_replaced_and_nothing_else_is(monkeypatch, text, meant):
    monkeypatch.setenv("SET", "value")
    monkeypatch.setenv("EMPTY", "")
    monkeypatch.setenv("LOOKS_LIKE_ONE", "${SET}")
    found = usable({"command": "run", "args": [text], "env": {"A": text}})
    assert (found.target["args"], found.target["env"]) == ([meant], {"A": meant})


def test_references_are_replaced_in_every_field(monkeypatch, tmp_path):
    monkeypatch.setenv("X", "value")
    command = usable({"command": "${X}", "args": ["${X}"], "env": {"A": "${X}"}, "cwd": "${X}"}).target
    assert command["command"] == command["args"][0] == command["env"]["A"] == "value"
    assert command["cwd"] == str(tmp_path / "value")
    url = usable({"url": "https://${X}/", "headers": {"A": "Bearer ${X}"}}).target
    assert url == {"url": "https://value/", "headers": {"A": "Bearer value"}}


@pytest.mark.covers("LCF-10")
@pytest.mark.parametrize(
    ("raw", "field"),
    [
        ({"command": "${UNSET}"}, "command"),
        ({"command": "run", "args": ["a", "${env:UNSET}"]}, "args[1]"),
        ({"command": "run", "env": {"KEY": "${UNSET}"}}, "env.KEY"),
        ({"command": "run", "cwd": "${UNSET}"}, "cwd"),
        ({"command": "run", "env_file": "${UNSET}"}, "env_file"),
        ({"serverUrl": "https://${UNSET}"}, "serverUrl"),
        ({"url": "https://example.com", "headers": {"Authorization": "Bearer ${UNSET}"}}, "headers.Authorization"),
        ({"type": "pigeon", "loft": {"floor": ["${UNSET}"]}}, "loft.floor[0]"),
    ],
)
def test_an_unset_variable_is_an_error_of_that_server_with_file_and_field(tmp_path, raw, field):
    path = tmp_path / "mcp.json"
    path.write_text(json.dumps({"mcpServers": {"one": raw, "two": {"command": "run"}}}))
    one, two = load(path)
    assert two.error is None
    assert one.error is not None
    assert (one.error.file, one.error.server, one.error.field) == (str(path), "one", field)
    assert str(one.error).startswith(f"{path}, server 'one', {field}: the environment variable UNSET is not set")


def test_ruby_in_yaml_is_not_run_and_the_error_says_what_to_write():
    text = "Bearer <%= ENV['TOKEN'] %>"
    with pytest.raises(ConfigError, match=r"write \$\{VAR\}") as caught:
        ConfigSource(Path("mcps.yml")).expand({"A": text}, "one", "headers")
    assert caught.value.field == "headers.A"
    assert ConfigSource(Path("mcp.json")).expand(text, "one", "url") == text


def test_the_folder_of_the_file_and_the_home_have_names(tmp_path):
    path = tmp_path / ".vscode" / "mcp.json"
    path.parent.mkdir()
    path.write_text('{"servers": {"a": {"command": "${workspaceFolder}/run", "args": ["${userHome}"]}}}')
    [found] = load(path)
    assert (found.target["command"], found.target["args"]) == (f"{tmp_path}/run", [str(tmp_path / "home")])


INPUTS = [{"id": "key", "type": "promptString", "description": "The key"}, {"id": "place", "default": "Oslo"}]


@pytest.mark.covers("LCF-11")
@pytest.mark.parametrize(
    ("given", "key"), [({"key": "k"}, "k"), (lambda asked: asked.get("description", asked["id"]), "The key")]
)
def test_inputs_are_given_by_id_or_by_a_function(given, key):
    document = {"servers": {"a": {"command": "run", "env": {"KEY": "${input:key}"}}}, "inputs": INPUTS}
    [found] = load(document, inputs=given)
    assert found.target["env"] == {"KEY": key}


def test_an_input_has_a_default_or_is_missed_by_name():
    assert usable({"command": "${input:place}"}, inputs=INPUTS).target["command"] == "Oslo"
    error = error_of({"command": "run", "args": ["${input:key}"]}, inputs=INPUTS)
    assert error.field == "args[0]"
    assert "inputs={'key': ...}" in str(error)
