"""What a TARGET may be: a URL, a script, a name from a configuration file, a command."""

import json
import sys

import pytest

from scenarios.command_line import TRAVEL, dragoman, environment, serving

NAMED = {"travel": {"command": sys.executable, "args": [str(TRAVEL)]}}


def configured(folder, servers, name="mcp.json"):
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"mcpServers": servers}))
    return path


def forecast(*arguments, **options):
    called = dragoman("call", *arguments, **options)
    assert (called.code, called.err) == (0, "")
    return json.loads(called.out)["celsius"]


@pytest.mark.covers("CMD-14")
def test_a_header_for_a_server_that_is_a_program_is_said_to_go_nowhere(tmp_path):
    listed = dragoman("list", "--tools", "--header", "X-Key: 1", TRAVEL, home=tmp_path)
    assert listed.code == 0
    assert listed.err == f"dragoman: --header has no effect, because {TRAVEL} is a program and not a URL\n"


@pytest.mark.covers("CMD-14")
def test_a_command_stands_after_two_dashes(tmp_path):
    command = ["--", sys.executable, TRAVEL]
    assert forecast("forecast", "city=Oslo", *command, home=tmp_path) == 4.0
    assert forecast("forecast", "city=Lisbon", "--timeout", "20", *command, home=tmp_path) == 21.5


@pytest.mark.covers("CMD-14")
def test_a_quoted_command_line_and_an_object_of_a_file_are_targets(tmp_path):
    assert forecast(f"{sys.executable} {TRAVEL}", "forecast", "city=Oslo", home=tmp_path) == 4.0
    assert forecast(f"{TRAVEL}:server", "forecast", "city=Oslo", home=tmp_path) == 4.0


@pytest.mark.covers("CMD-08")
@pytest.mark.parametrize("name", [".mcp.json", "mcp.json", ".vscode/mcp.json", ".cursor/mcp.json"])
def test_the_usual_files_of_the_working_directory_name_servers(tmp_path, name):
    configured(tmp_path, NAMED, name)
    assert forecast("travel", "forecast", "city=Oslo", "--trust", home=tmp_path, cwd=tmp_path) == 4.0
    assert forecast("forecast", "city=Oslo", home=tmp_path, cwd=tmp_path) == 4.0


@pytest.mark.covers("CMD-08")
def test_the_users_own_file_and_one_that_is_named_do_so_too(tmp_path):
    configured(tmp_path, NAMED, ".config/dragoman/mcp.json")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    assert forecast("forecast", "city=Oslo", home=tmp_path, cwd=elsewhere) == 4.0
    other = configured(tmp_path, {"other": NAMED["travel"]}, "other.json")
    assert forecast("other", "forecast", "city=Oslo", "--config", other, home=tmp_path, cwd=elsewhere) == 4.0
    assert forecast("--config", other, "forecast", "city=Oslo", home=tmp_path, cwd=elsewhere) == 4.0
    assert forecast("forecast", "city=Oslo", home=tmp_path, cwd=elsewhere, DRAGOMAN_CONFIG=str(other)) == 4.0


@pytest.mark.covers("CMD-08", "CMD-16")
@pytest.mark.parametrize(
    ("servers", "word", "complaint"),
    [
        ({"a": {"command": "x"}, "b": {"command": "x"}}, None, "Choose one server of mcp.json"),
        ({"a": {"command": "x"}}, "c", "There is no server 'c' in mcp.json; there are: a."),
        ({}, None, "there are: none."),
        ({"a": {"url": "${NO_SUCH_VARIABLE_HERE}"}}, "a", "variable NO_SUCH_VARIABLE_HERE is not set"),
        ({"a": {"url": "${input:key}"}}, "a", "the input 'key' was not given"),
    ],
)
def test_a_configuration_that_does_not_say_it_is_a_wrong_usage(tmp_path, servers, word, complaint):
    configured(tmp_path, servers)
    finished = dragoman("list", *([word] if word else []), home=tmp_path, cwd=tmp_path)
    assert (finished.code, finished.out, finished.err.count("\n")) == (2, "", 1)
    assert complaint in finished.err


@pytest.mark.covers("CMD-08", "CMD-16")
@pytest.mark.parametrize(
    ("name", "text", "complaint"),
    [
        ("big.json", '{"mcpServers": {"a": {"command": "x", "timeout": DIGITS}}}', "an integer with too many digits"),
        ("big.toml", '[mcp_servers.a]\ncommand = "x"\ntimeout = DIGITS\n', "an integer with too many digits"),
        ("big.yaml", "mcpServers: {a: {command: x, timeout: DIGITS}}", "an integer with too many digits"),
        ("deep.toml", "a = " + "[" * 5000 + "]" * 5000, "nested too deeply"),
        ("home.json", '{"mcpServers": {"a": {"command": "x", "cwd": "~nosuchuser/x"}}}', "a user that does not"),
        ("env.json", '{"mcpServers": {"a": {"command": "x", "envFile": "~nosuchuser/x"}}}', "a user that does not"),
    ],
)
def test_a_configuration_that_cannot_be_read_is_a_wrong_usage(tmp_path, name, text, complaint):
    (tmp_path / name).write_text(text.replace("DIGITS", "9" * 8000))
    finished = dragoman("list", "--config", name, home=tmp_path, cwd=tmp_path)
    assert (finished.code, finished.out, finished.err.count("\n")) == (2, "", 1), finished.err
    assert complaint in finished.err


@pytest.mark.covers("CMD-08", "CMD-16")
def test_a_file_of_a_user_that_does_not_exist_is_a_wrong_usage(tmp_path):
    finished = dragoman("list", home=tmp_path, cwd=tmp_path, DRAGOMAN_CONFIG="~nosuchuser/mcp.json")
    assert (finished.code, "DRAGOMAN_CONFIG names a user that does not exist" in finished.err) == (2, True)


@pytest.mark.covers("CMD-08")
def test_variables_inputs_and_disabled_servers_are_respected(tmp_path):
    servers = {
        "travel": {"command": "${PYTHON_HERE}", "args": ["${input:script}"]},
        "off": {"url": "x", "disabled": True},
    }
    configured(tmp_path, servers)
    given = ["--trust", "--input", f"script={TRAVEL}"]
    assert forecast("forecast", "city=Oslo", *given, home=tmp_path, cwd=tmp_path, PYTHON_HERE=sys.executable) == 4.0


@pytest.mark.covers("CMD-14")
def test_a_url_of_a_configuration_has_its_headers_and_those_of_the_command(tmp_path):
    with serving(TRAVEL, home=tmp_path) as url:
        configured(tmp_path, {"web": {"url": url, "headers": {"X-One": "1"}}})
        assert (
            forecast("web", "forecast", "city=Oslo", "--header", "X-Two: 2", "--trust", home=tmp_path, cwd=tmp_path)
            == 4.0
        )


@pytest.mark.covers("CMD-19")
@pytest.mark.parametrize("home", ["", "/nonexistent/home"])
def test_without_a_home_everything_but_a_login_works(tmp_path, home):
    with serving(TRAVEL, home=tmp_path) as url:
        assert forecast(url, "forecast", "city=Oslo", home=home) == 4.0
        assert dragoman("auth", "status", url, home=home).code == 1
        assert dragoman("doctor", url, home=home).code == 0
    assert "DRAGOMAN_CONFIG" not in environment(home)


HTTP_FILE = """
from dragoman import Server

server = Server("web")

@server.tool
def hello(name: str) -> str:
    "Greet somebody."
    return f"Hello {name}"

@server.prompt
def greeting() -> str:
    "Ask for a greeting."
    return "Say hello."

@server.resource("web://page", mime_type="text/plain")
def page() -> str:
    "The only page."
    return "the page"

if __name__ == "__main__":
    server.run("http")
"""


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["list", "service.py"], "hello(name: string)"),
        (["call", "service.py", "hello", "name=Jo"], "Hello Jo"),
        (["read", "service.py", "web://page"], "the page"),
        (["prompt", "service.py", "greeting"], "Say hello."),
        (["doctor", "service.py"], "tools: 1 listed"),
        (["call", "reexported.py", "hello", "name=Jo"], "Hello Jo"),
        (["call", "starred.py", "hello", "name=Jo"], "Hello Jo"),
    ],
)
def test_file_written_for_http_is_a_target_of_every_verb(tmp_path, arguments, expected):
    (tmp_path / "service.py").write_text(HTTP_FILE)
    (tmp_path / "reexported.py").write_text("from service import server as web")
    (tmp_path / "starred.py").write_text("from service import *")
    finished = dragoman(*arguments, home=tmp_path, cwd=tmp_path)
    assert (finished.code, finished.err) == (0, "")
    assert expected in finished.out
