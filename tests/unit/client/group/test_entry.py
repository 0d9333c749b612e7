"""Entries of servers: every spelling of every key, and errors that name the field and no secret."""

import pytest

from dragoman import ConfigError
from dragoman.auth import ClientCredentials, OAuth
from dragoman.client.group.config import load
from dragoman.client.group.entry import ServerEntry, read_variables

SECRET = "hunter2-do-not-print"


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


@pytest.mark.parametrize("kind", [{}, {"type": "stdio"}, {"type": "http"}])
@pytest.mark.parametrize("key", ["url", "serverUrl", "httpUrl"])
def test_entry_with_command_and_url_is_refused(key, kind):
    error = error_of({"command": "run", key: "https://example.com", **kind})
    assert (error.message, error.field) == ("the entry has a command and a URL; remove one of them", key)


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
    (tmp_path / name).write_text('{"mcpServers": {"one": {"command": "run", "timeout": 60}}}')
    assert load(tmp_path / name)[0].options == {"timeout": 60}


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
            {
                "grant_type": "client_credentials",
                "client_id": "a",
                "client_secret": "b",
                "redirect_uri": "http://localhost/",
            },
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


def test_a_server_can_be_required_even_if_its_entry_cannot_be_used():
    assert usable({"command": "run", "required": True}).required
    assert not usable({"command": "run"}).required
    unusable = entry({"command": "${UNSET}", "required": True, "disabled": True})
    assert (unusable.required, unusable.disabled) == (True, True)


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
