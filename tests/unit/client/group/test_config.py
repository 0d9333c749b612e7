"""Configuration files: every spelling, what references stand for, and errors that name the place and no secret."""

import copy
import json
import pickle
import string
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman import ConfigError, DragomanError
from dragoman.auth import ClientCredentials, OAuth
from dragoman.client.group.config import FILES, ServerEntry, load, read_variables
from dragoman.client.group.expansion import EntryPlace
from dragoman.client.group.jsonc import plain_json

SECRET = "hunter2-do-not-print"


@pytest.fixture(autouse=True)
def quiet_surroundings(monkeypatch, tmp_path):
    """A folder and an environment without any configuration."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "settings"))
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    for name in ("DRAGOMAN_CONFIG", "UNSET", "EMPTY"):
        monkeypatch.delenv(name, raising=False)


def entry(raw, key="mcpServers", **more) -> ServerEntry:
    [found] = load({key: {"one": raw}, **more})
    return found


def usable(raw, **more) -> ServerEntry:
    found = entry(raw, **more)
    assert found.error is None, found.error
    return found


def error_of(raw, **more) -> ConfigError:
    found = entry(raw, **more)
    assert found.error is not None
    return found.error


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


# How a server is reached.


@pytest.mark.covers("LMC-02")
@pytest.mark.parametrize("key", ["type", "transport", "transport_type", "transportType"])
@pytest.mark.parametrize(
    ("spelling", "kind"),
    [
        ("stdio", "stdio"),
        (":stdio", "stdio"),
        ("local", "stdio"),
        ("http", "http"),
        ("streamable", "http"),
        ("streamable_http", "http"),
        ("streamable-http", "http"),
        ("streamableHttp", "http"),
        ("Streamable-HTTP", "http"),
        ("sse", "sse"),
        ("SSE", "sse"),
    ],
)
def test_a_transport_is_known_by_all_its_spellings(key, spelling, kind):
    way = {"command": "run"} if kind == "stdio" else {"url": "https://example.com/mcp"}
    assert usable({key: spelling, **way}).target["type"] == kind


@pytest.mark.parametrize("key", ["url", "serverUrl", "httpUrl"])
def test_a_url_is_known_by_all_its_spellings(key):
    found = usable({key: "https://example.com/mcp", "headers": {"X-Trace": 1}})
    assert found.target == {"url": "https://example.com/mcp", "headers": {"X-Trace": "1"}}


@pytest.mark.covers("LMC-03")
def test_a_command_has_arguments_variables_and_a_folder(tmp_path):
    found = usable(
        {"command": "run", "args": ["-p", 80, ""], "env": {"A": 1, "B": True, "C": "", "D": None}, "cwd": "x"}
    )
    assert found.target == {
        "type": "stdio",
        "command": "run",
        "args": ["-p", "80", ""],
        "env": {"A": "1", "B": "true", "C": ""},
        "cwd": str(tmp_path / "x"),
    }


def test_a_command_may_be_a_list():
    found = usable({"command": ["npx", "-y"], "args": ["files"]})
    assert (found.target["command"], found.target["args"]) == ("npx", ["-y", "files"])


def test_a_url_comes_before_a_command_unless_the_transport_says_otherwise():
    both = {"command": "run", "url": "https://example.com"}
    assert "command" not in usable(both).target
    assert usable({**both, "type": "stdio"}).target["command"] == "run"


def test_a_transport_of_ones_own_is_given_the_whole_entry(monkeypatch):
    monkeypatch.setenv("LOFT", "north")
    found = usable({"type": "pigeon", "loft": "${LOFT}", "url": "pigeon://x", "birds": [1, 2], "disabled": False})
    assert found.target == {"type": "pigeon", "loft": "north", "url": "pigeon://x", "birds": [1, 2]}


@pytest.mark.parametrize(
    ("raw", "field"),
    [
        ("npx", None),
        ({}, None),
        ({"type": "http"}, "url"),
        ({"type": "stdio", "url": "https://example.com"}, "type"),
        ({"transport": "sse", "command": "run"}, "transport"),
        ({"command": ""}, "command"),
        ({"command": {}}, "command"),
        ({"command": []}, "command"),
        ({"command": "run", "args": "-y"}, "args"),
        ({"command": "run", "args": ["a", ["b"]]}, "args[1]"),
        ({"command": "run", "env": ["A=1"]}, "env"),
        ({"command": "run", "env": {"A": {}}}, "env.A"),
        ({"command": "run", "envFile": "missing.env"}, "envFile"),
        ({"command": "run", "envFile": "/dev/null"}, "envFile"),
        ({"url": "ftp://example.com"}, "url"),
        ({"url": "example.com"}, "url"),
        ({"url": "http://[broken"}, "url"),
        ({"serverUrl": 3}, "serverUrl"),
        ({"url": "https://example.com", "headers": "A: b"}, "headers"),
        ({"command": "run", "timeout": 0}, "timeout"),
        ({"command": "run", "timeout": "soon"}, "timeout"),
        ({"command": "run", "request_timeout": True}, "request_timeout"),
    ],
)
@pytest.mark.covers("LMC-08")
def test_an_entry_that_cannot_be_used_carries_an_error_that_names_server_and_field(raw, field):
    error = error_of(raw)
    assert (error.server, error.field) == ("one", field)
    assert str(error).startswith("server 'one'")


# What else an entry says.


@pytest.mark.covers("LMC-04", "LMC-05")
@pytest.mark.parametrize(
    ("key", "milliseconds", "seconds"),
    [("timeout", 30_000, 30), ("request_timeout", 8000, 8), ("requestTimeout", 500, 0.5), ("timeout", 1.5, 0.0015)],
)
def test_times_in_files_are_milliseconds(key, milliseconds, seconds, caplog):
    assert usable({"command": "run", key: milliseconds}).options == {"timeout": seconds}
    assert ("is in milliseconds, so that it is" in caplog.text) == (milliseconds < 1000)


@pytest.mark.covers("LMC-04")
@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ({"timeout": 60, "autoApprove": []}, {"timeout": 60}),
        ({"timeout": 3600, "alwaysAllow": ["a"]}, {"timeout": 3600}),
        ({"timeout": 30_000, "autoApprove": []}, {"timeout": 30}),
        ({"tool_timeout_sec": 90, "startup_timeout_sec": 20}, {"timeout": 90, "connect_timeout": 20}),
        ({"startup_timeout_ms": 5000}, {"connect_timeout": 5}),
        ({"connect_timeout": 45_000}, {"connect_timeout": 45}),
        ({"connectTimeout": 45_000, "timeout": 1000}, {"connect_timeout": 45, "timeout": 1}),
    ],
)
def test_times_of_hosts_that_write_seconds_are_seconds(said, expected, caplog):
    assert usable({"command": "run", **said}).options == expected
    assert not caplog.records


@pytest.mark.covers("LMC-04")
@pytest.mark.parametrize("key", ["tool_timeout_sec", "startup_timeout_sec", "connect_timeout"])
@pytest.mark.parametrize("value", [0, -1, True, "soon"])
def test_every_time_must_be_a_number_above_0(key, value):
    assert error_of({"command": "run", key: value}).field == key


@pytest.mark.covers("LMC-04")
@pytest.mark.parametrize("name", ["cline_mcp_settings.json", "mcp_settings.json"])
def test_times_in_a_file_of_cline_are_seconds(tmp_path, name):
    path = tmp_path / name
    path.write_text('{"mcpServers": {"one": {"command": "run", "timeout": 60}}}')
    assert load(path)[0].options == {"timeout": 60}


@pytest.mark.covers("LCF-03", "LMC-11")
def test_headers_and_tokens_are_read_as_codex_writes_them(tmp_path, monkeypatch):
    path = tmp_path / "config.toml"
    path.write_text(
        """
        [mcp_servers.figma]
        url = "https://example.com/mcp"
        bearer_token_env_var = "FIGMA_TOKEN"
        http_headers = { "X-Region" = "eu" }
        env_http_headers = { "X-Key" = "FIGMA_KEY" }
        """
    )
    monkeypatch.setenv("FIGMA_TOKEN", "t")
    monkeypatch.setenv("FIGMA_KEY", "k")
    [found] = load(path)
    assert found.target["headers"] == {"X-Region": "eu", "X-Key": "k", "Authorization": "Bearer t"}
    monkeypatch.delenv("FIGMA_TOKEN")
    [found] = load(path)
    assert found.error.field == "bearer_token_env_var"
    assert "FIGMA_TOKEN is not set" in str(found.error)
    monkeypatch.setenv("FIGMA_TOKEN", "t")
    monkeypatch.setenv("FIGMA_KEY", "")
    [found] = load(path)
    assert found.error.field == "env_http_headers.X-Key"


@pytest.mark.covers("LCF-03")
@pytest.mark.parametrize(
    ("said", "login"),
    [
        ({"oauth": True}, {}),
        ({"auth": "oauth"}, {}),
        ({"oauth": {}}, {}),
        (
            {"oauth": {"clientId": "id", "callbackPort": 8080}},
            {"client_id": "id", "redirect_uri": "http://localhost:8080/callback"},
        ),
        (
            {"auth": {"CLIENT_ID": "id", "CLIENT_SECRET": "${SECRET}", "scopes": ["a", "b"]}},
            {"client_id": "id", "client_secret": "s", "scope": ["a", "b"]},
        ),
        (
            {
                "oauth": {
                    "redirect_uri": "http://localhost:8080/callback",
                    "scope": "a b",
                    "issuer": "https://login.example.com",
                }
            },
            {"redirect_uri": "http://localhost:8080/callback", "scope": "a b", "issuer": "https://login.example.com"},
        ),
        (
            {"oauth": {"grant_type": "authorization_code", "client_name": "mine"}},
            {"client_metadata": {"client_name": "mine"}},
        ),
        ({"oauth": True, "scopes": ["a"]}, {"scope": ["a"]}),
        ({"oauth": {"enabled": False, "clientId": "id"}}, None),
        ({"oauth": False}, None),
    ],
)
def test_an_entry_may_ask_for_a_login_of_a_person(said, login, monkeypatch):
    monkeypatch.setenv("SECRET", "s")
    found = usable({"url": "https://example.com/mcp", **said})
    assert found.login == login
    assert isinstance(found.options.get("auth"), OAuth) == (login is not None)
    assert "'s'" not in repr(found)


@pytest.mark.covers("LCF-03")
def test_an_entry_may_ask_for_the_login_of_a_program():
    said = {"grant_type": "client_credentials", "client_id": "reports", "client_secret": "s", "scope": "a"}
    found = usable({"url": "https://example.com/mcp", "oauth": said})
    assert isinstance(found.options["auth"], ClientCredentials)
    assert found.login is None


@pytest.mark.covers("LCF-03", "LMC-11")
@pytest.mark.parametrize(
    ("said", "sign"),
    [
        ({"clientId": 3}, "client_id must be a text"),
        ({"callbackPort": "http"}, "callback_port must be a number"),
        ({"scopes": [1]}, "scope must be a text"),
        ({"issuer": "http://evil.example.com"}, "https"),
        ({"redirect_uri": "ftp://secret-value"}, "edirect"),
        ({"grant_type": "client_credentials"}, "client_id"),
        (
            {"grant_type": "client_credentials", "client_id": "a", "redirect_uri": "http://localhost/"},
            "takes client_id",
        ),
        ({"clientId": "${NO_SUCH_VARIABLE}"}, "NO_SUCH_VARIABLE is not set"),
    ],
)
def test_a_login_that_makes_no_sense_makes_its_server_alone_fail(said, sign):
    assert sign in str(error_of({"url": "https://example.com/mcp", "oauth": said}))


@pytest.mark.covers("LCF-08")
@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ({"timeuot": 3000}, "the key 'timeuot' is not known; did you mean 'timeout'?"),
        ({"Headers": {}}, "the key 'Headers' is not known; did you mean 'headers'?"),
        ({"qqqq": 1}, "the key 'qqqq' is not known"),
        ({"oauth": {"clientSecrets": SECRET}}, "did you mean 'oauth.client_secret'?"),
        ({"oauth": {"client_idd": SECRET}}, "did you mean 'oauth.client_id'?"),
        ({"description": "x", "icon": "y", "_note": "z", "x-mine": 1, "$schema": "s"}, None),
    ],
)
def test_a_key_that_is_not_known_is_warned_about_with_the_closest(said, expected, caplog):
    usable({"url": "https://example.com/mcp", **said})
    if expected is not None:
        assert expected in caplog.text
    else:
        assert not caplog.records
    assert SECRET not in caplog.text


@pytest.mark.parametrize(
    ("said", "disabled"),
    [
        ({}, False),
        ({"disabled": True}, True),
        ({"disabled": "true"}, True),
        ({"disabled": "false"}, False),
        ({"enabled": False}, True),
        ({"enabled": "no"}, True),
        ({"enabled": True, "disabled": True}, True),
    ],
)
def test_a_server_can_be_switched_off(said, disabled):
    assert usable({"command": "run", **said}).disabled is disabled


def test_a_server_can_be_required():
    assert usable({"command": "run", "required": True}).required
    assert not usable({"command": "run"}).required


def test_flags_are_read_from_an_entry_that_cannot_be_used_too():
    found = entry({"command": "${UNSET}", "required": True, "disabled": True})
    assert (found.required, found.disabled) == (True, True)


@pytest.mark.parametrize(
    ("said", "include", "exclude"),
    [
        ({}, None, []),
        ({"tools": ["*"]}, ["*"], []),
        ({"tools": []}, [], []),
        ({"includeTools": "a"}, ["a"], []),
        ({"tools": ["a"], "includeTools": ["b"]}, ["a", "b"], []),
        ({"enabled_tools": ["a"], "disabled_tools": ["b"]}, ["a"], ["b"]),
        ({"excludeTools": ["a"], "disabledTools": ["b"]}, None, ["a", "b"]),
    ],
)
def test_tools_are_chosen_by_any_of_the_keys(said, include, exclude):
    found = usable({"command": "run", **said})
    assert (found.include, found.exclude) == (include, exclude)


@pytest.mark.covers("LMC-06")
@pytest.mark.parametrize(
    ("said", "prefix"),
    [
        ({}, None),
        ({"with_prefix": True}, "one"),
        ({"withPrefix": "yes"}, "one"),
        ({"prefix": True}, "one"),
        ({"prefix": "gh"}, "gh"),
        ({"with_prefix": True, "prefix": "gh"}, "gh"),
        ({"prefix": ""}, None),
        ({"with_prefix": False}, None),
    ],
)
def test_names_of_tools_can_be_prefixed(said, prefix):
    assert usable({"command": "run", **said}).prefix == prefix


@pytest.mark.covers("LMC-07", "LCF-08")
def test_a_version_and_a_token_are_told_to_the_client(monkeypatch):
    monkeypatch.setenv("TOKEN", "t")
    url = {"url": "https://example.com"}
    assert usable({**url, "protocolVersion": "2025-06-18"}).options == {"protocol_version": "2025-06-18"}
    assert usable({**url, "auth": "${TOKEN}"}).options == {"auth": "t"}
    assert usable({"command": "run", "inherit_env": False}).options == {"inherit_env": False}
    assert usable({**url, "trusted": True}).options == {"trusted": True}
    assert usable({**url, "trust": True}).options == {}


def test_keys_that_are_not_known_are_kept_and_harm_nothing():
    found = usable({"command": "run", "description": "x", "oauth": {"a": 1}, "tools": {"a": {}}, "excludeTools": [3]})
    assert found.more == {"description": "x", "oauth": {"a": 1}, "tools": {"a": {}}, "excludeTools": [3]}


def test_one_entry_that_cannot_be_used_harms_no_other():
    found = load({"mcpServers": {"a": {"command": "run"}, "b": {}, "c": 3, "d": {"url": "https://example.com"}}})
    assert [one.name for one in found if one.error is None] == ["a", "d"]


# References.


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
        EntryPlace(Path("mcps.yml")).expand({"A": text}, "one", "headers")
    assert caught.value.field == "headers.A"
    assert EntryPlace(Path("mcp.json")).expand(text, "one", "url") == text


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


def test_variables_come_from_a_file_beside_the_configuration(tmp_path):
    (tmp_path / "some.env").write_text(
        "A=1\nB=\"two words\" \nexport C='3' # not this\n# D=4\n\nE=5 # no\nF=a#b\nG\nH="
    )
    found = usable({"command": "run", "envFile": "some.env", "env": {"A": "over"}})
    assert found.target["env"] == {"A": "over", "B": "two words", "C": "3", "E": "5", "F": "a#b", "H": ""}


def test_quotes_in_a_file_of_variables_are_undone():
    assert read_variables('A="x\\ny \\"z\\""\nB=\'$A\\n\'') == {"A": 'x\ny "z"', "B": "$A\\n"}


# Secrets.


@pytest.mark.covers("LMC-11")
@pytest.mark.parametrize(
    "raw",
    [
        {"command": "run", "args": ["--key", SECRET], "env": {"KEY": SECRET}},
        {"url": f"https://user:{SECRET}@example.com/mcp?key={SECRET}", "headers": {"Authorization": SECRET}},
        {"url": f"ftp://example.com/{SECRET}", "auth": SECRET},
        {"url": "https://example.com", "headers": {"A": [SECRET]}},
        {"command": "run", "env": {"KEY": {"x": SECRET}}, "oauth": {"secret": SECRET}},
        {"command": "run", "env": {"KEY": f"{SECRET} ${{UNSET}} {SECRET}"}},
        {"command": "run", "timeout": SECRET},
        SECRET,
    ],
)
def test_neither_errors_nor_representations_quote_values(raw):
    found = entry(raw)
    assert SECRET not in repr(found)
    assert "one" in repr(found)
    assert SECRET not in repr(found.error)


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
    path = tmp_path / "mcp.json"
    path.write_text('{\n/* two\nlines */ "a": 1, "b": [2 3],\n}')
    with pytest.raises(ConfigError, match="line 3, column 26") as caught:
        load(path)
    assert caught.value.file == str(path)


@pytest.mark.parametrize("text", ["[]", '"x"', "3", "[" * 100_000, "{", '{"a": "', "/* no end", "{'a': 1}"])
def test_what_is_no_configuration_is_an_error_that_names_the_file(tmp_path, text):
    path = tmp_path / "mcp.json"
    path.write_text(text)
    with pytest.raises(ConfigError) as caught:
        load(path)
    assert caught.value.file == str(path)


@pytest.mark.parametrize("text", ["", "  \n", "// nothing yet", "null"])
def test_an_empty_file_has_no_servers(tmp_path, text):
    path = tmp_path / "mcp.json"
    path.write_text(text)
    assert load(path) == []


def test_a_named_file_that_cannot_be_read_is_an_error_that_says_why(tmp_path):
    with pytest.raises(ConfigError, match="No such file"):
        load(tmp_path / "missing.json")
    (tmp_path / "latin.json").write_bytes(b'{"mcpServers": {"\xe9": {}}}')
    with pytest.raises(ConfigError, match="UTF-8"):
        load(tmp_path / "latin.json")


def test_toml_is_read(tmp_path):
    path = tmp_path / "config.toml"
    path.write_text('[mcp_servers.a]\ncommand = "run"\nargs = ["x"]\nenv = { A = "1" }\n')
    [found] = load(path)
    assert (found.target["command"], found.target["env"]) == ("run", {"A": "1"})
    path.write_text("[mcp_servers")
    with pytest.raises(ConfigError, match="no TOML"):
        load(path)


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
    path = tmp_path / f"mcps{suffix}"
    path.write_text(YAML)
    files, api = load(path)
    assert (files.error, api.error) == (None, None)
    assert files.target["args"] == ["@acme/files", "/home/jo"]
    assert (files.prefix, files.options) == ("filesystem", {"timeout": 2.5})
    assert api.target["headers"] == {"Authorization": "Bearer none"}


@pytest.mark.parametrize("text", [f"a: [{SECRET}", f"a: {SECRET}: b", f"{SECRET}: !!python/object:x {{}}", "\x00"])
def test_an_error_of_yaml_quotes_nothing(tmp_path, text):
    pytest.importorskip("yaml")
    path = tmp_path / "mcps.yml"
    path.write_text(text)
    with pytest.raises(ConfigError, match="no YAML") as caught:
        load(path)
    assert SECRET not in str(caught.value)


def test_without_the_package_for_yaml_the_error_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "yaml", None)
    path = tmp_path / "mcps.yml"
    path.write_text(YAML)
    with pytest.raises(ConfigError, match=r"pip install dragoman\[yaml\]"):
        load(path)


# Which file.


def write(path, name):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"servers": {name: {"command": "run"}}}))


@pytest.mark.covers("LCF-09")
def test_without_a_path_the_first_file_of_the_known_places_is_read(tmp_path, monkeypatch):
    places = [*(tmp_path / name for name in FILES), tmp_path / "settings" / "dragoman" / "mcp.json"]
    assert FILES == (".mcp.json", "mcp.json", ".vscode/mcp.json", ".cursor/mcp.json")
    for number, place in reversed(list(enumerate(places))):
        write(place, f"place{number}")
        assert [one.name for one in load()] == [f"place{number}"]
    write(tmp_path / "elsewhere.json", "named")
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
