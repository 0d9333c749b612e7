"""What people get wrong at the command line when they begin, and what the command says."""

import socket
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest

from scenarios.command_line import DEADLINE, dragoman, serving, written

FIRST = """
    import sys
    from dragoman import Server

    server = Server("first")

    @server.tool
    def join(a, b) -> str:
        return f"{a}{b}"

    @server.tool
    def chatter() -> str:
        print("one")
        print("  two", file=sys.stderr)
        return "done"

    @server.prompt
    def broken() -> str:
        return {}["key"]

    if __name__ == "__main__":
        server.run()
"""


@pytest.fixture
def first(tmp_path):
    return written(tmp_path, FIRST, "first.py")


def test_the_command_says_what_a_tool_may_read_in_another_way(first):
    said = dragoman("call", first, "join", "a=1", "b=x", "elsewhere=3")
    assert (said.code, said.out) == (0, "1x\n")
    assert said.err.splitlines() == [
        "dragoman: a has no type, so it is sent as text; to send JSON, write a:=1",
        "dragoman: the tool has no parameter 'elsewhere', and may ignore it",
    ]


def test_what_a_script_writes_to_stderr_is_counted_and_shown_with_verbose(first):
    said = dragoman("call", first, "chatter")
    assert (said.out, said.err) == (
        "done\n",
        "dragoman: the server wrote 2 lines to stderr; --verbose shows what\n",
    )
    assert dragoman("call", first, "chatter", "--json").err == ""
    shown = dragoman("call", first, "chatter", "--verbose").err.splitlines()
    assert f"[{first}] one" in shown
    assert f"[{first}]   two" in shown


def test_the_error_of_a_prompt_says_where_its_cause_is(first):
    said = dragoman("prompt", first, "broken")
    assert said.code == 4
    assert said.err.endswith(
        "Internal error; the server's log says why, and --verbose shows it if this command started the server\n"
    )


def test_a_crash_names_the_line_of_the_users_file(tmp_path):
    path = written(tmp_path, "import os\n\nKEY = os.environ['NO_SUCH_KEY']\n", "crashing.py")
    said = dragoman("list", path)
    assert f"KeyError: 'NO_SUCH_KEY' (File \"{path}\", line 3; --verbose shows all of it)" in said.err


def test_a_server_that_the_command_runs_is_named_by_its_file(tmp_path):
    path = written(tmp_path, "from dragoman import Server\none = Server('one')\n", "single.py")
    said = dragoman("list", f"{path}:two")
    assert said.err.startswith(f"dragoman: The server 'dragoman run {path}:two' ended with exit code 2.")
    assert "has no Server called 'two': it has one" in said.err


@pytest.mark.parametrize("address", ["127.0.0.1:8000/mcp", "localhost:8000", "example.com/mcp"])
def test_an_address_without_its_scheme_is_told_to_have_one(tmp_path, address):
    said = dragoman("list", address, cwd=tmp_path, home=tmp_path)
    assert said.code == 2
    assert f"{address!r} is no URL; write http://{address} or https://{address}." in said.err


def test_a_misspelled_verb_names_the_closest(tmp_path):
    assert "No such command 'lst'; did you mean 'list'?" in dragoman("lst", cwd=tmp_path).err
    assert "No such command 'frobnicate'. See: dragoman --help" in dragoman("frobnicate", cwd=tmp_path).err


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"mcpServers": {"a": {"command": "python server.py"}}}', "the program is 'python', and the rest are its"),
        ('{"mcpServers": {"a": {"cmd": "python"}}}', "the key 'cmd' is not known; did you mean 'command'?"),
        ('{"mcpServers": {"a": {"command": "C:\\Users\\python"}}}', "in line 1, column 37; write each backslash twice"),
    ],
)
def test_a_mistake_in_a_configuration_file_is_named_with_its_remedy(tmp_path, text, said):
    path = tmp_path / "mcp.json"
    path.write_text(text)
    assert said in dragoman("list", "--config", path).err


@pytest.mark.parametrize("workers", [1, 2])
def test_a_port_that_is_taken_is_named_with_the_remedy(first, workers):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        said = dragoman("run", "--http", "--port", port, "--workers", workers, first)
    assert said.code != 0
    assert f"Another program listens at port {port}: end it, or choose another port (port=, or --port)" in said.err


def test_a_browser_is_told_how_to_look_at_a_server(first, tmp_path):
    with serving(first, home=tmp_path) as url, pytest.raises(HTTPError) as refused:
        urlopen(Request(url, headers={"Accept": "text/html,application/xml;q=0.9,*/*;q=0.8"}), timeout=DEADLINE)
    with refused.value as response:
        assert response.status == 400
        assert "to try it in a browser, run: dragoman inspect URL" in response.read().decode()
