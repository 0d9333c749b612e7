"""The small projects that `dragoman init` writes, as files by their names; `{project}` is its name."""

from __future__ import annotations

_PROJECT = """\
[project]
name = "{project}"
version = "0.1.0"
requires-python = ">=3.11"
dependencies = ["{dependency}"]

[dependency-groups]
dev = ["pytest>=8"]

[tool.setuptools]
py-modules = ["{module}"]

[tool.pytest.ini_options]
testpaths = ["."]
"""


def _project(module: str, dependency: str) -> str:
    return _PROJECT.replace("{module}", module).replace("{dependency}", dependency)


_SERVER = '''\
"""The server {project}."""

from dragoman import Server

server = Server("{project}")


@server.tool(annotations={"readOnlyHint": True})
def greet(name: str, times: int = 1) -> str:
    """Greet somebody.

    Args:
        name: Who is greeted.
        times: How often.
    """
    return " ".join([f"Hello, {name}!"] * times)


@server.resource("greeting://{name}")
def greeting(name: str) -> str:
    """A greeting to read."""
    return f"Hello, {name}!"


@server.prompt
def introduce(name: str) -> str:
    """Asks the model to introduce somebody."""
    return f"Introduce {name} in one sentence."


if __name__ == "__main__":
    server.run()
'''

_SERVER_TEST = """\
from dragoman import Client
from server import server


def test_somebody_is_greeted():
    with Client(server) as client:
        assert client.call_tool("greet", {"name": "Ada", "times": 2}).text == "Hello, Ada! Hello, Ada!"


def test_a_greeting_can_be_read():
    with Client(server) as client:
        assert client.read_resource("greeting://Ada").text == "Hello, Ada!"
"""

_SERVER_CONFIG = """\
{
  "mcpServers": {
    "{project}": {"command": "python", "args": ["server.py"]}
  }
}
"""

_SERVER_README = """\
# {project}

A server of the Model Context Protocol.

    pip install dragoman pytest
    python -m pytest                    # its tests
    dragoman list server.py             # what it offers
    dragoman call greet name=Ada        # a tool; .mcp.json names the server
    dragoman doctor                     # is all well?
    dragoman run --reload server.py     # over stdin and stdout
    dragoman run --http server.py       # over HTTP, at http://127.0.0.1:8000/mcp
"""

_CLIENT = '''\
"""The client {project}: shows what a server offers, and calls its first tool that takes no arguments."""

import sys

from dragoman import Client


def describe(client: Client) -> list[str]:
    """Return a line for each tool of a server."""
    return [f"{tool.name}: {tool.description or 'no description'}" for tool in client.tools()]


def call_first(client: Client) -> str | None:
    """Call the first tool that needs no arguments, and return what it said."""
    for tool in client.tools():
        if not tool.input_schema.get("required"):
            return tool().text
    return None


def main() -> None:
    """Visit the server that is named on the command line."""
    with Client(" ".join(sys.argv[1:])) as client:
        print("\\n".join(describe(client)))
        print(call_first(client))


if __name__ == "__main__":
    main()
'''

_CLIENT_TEST = '''\
from client import call_first, describe
from dragoman import Client, Server

server = Server("clock")


@server.tool
def now() -> str:
    """Tells the time."""
    return "noon"


def test_the_tools_of_a_server_are_described():
    with Client(server) as client:
        assert describe(client) == ["now: Tells the time."]


def test_the_first_tool_without_arguments_is_called():
    with Client(server) as client:
        assert call_first(client) == "noon"
'''

_CLIENT_README = """\
# {project}

A client of the Model Context Protocol.

    pip install dragoman pytest
    python -m pytest                            # its tests
    python client.py https://example.com/mcp    # a server by its URL
    python client.py python server.py           # a server by its command
"""

_CHAT = '''\
"""The assistant {project}: a conversation with a model that uses the tools of a server."""

import sys

from dragoman import Chat, Client, Server

server = Server("{project}")


@server.tool(annotations={"readOnlyHint": True})
def price(item: str) -> float:
    """The price of something.

    Args:
        item: What.
    """
    return {"tea": 2.5, "coffee": 3.0}.get(item, 10.0)


def conversation(model, client: Client) -> Chat:
    """Return a conversation that may use the tools of a client."""
    return Chat(model).with_instructions("Be brief; look prices up.").with_tools(client)


def main() -> None:
    """Answer the questions that are typed."""
    with Client(server) as client:
        chat = conversation(sys.argv[1], client)
        while question := input("> "):
            print(chat.ask(question))


if __name__ == "__main__":
    main()
'''

_CHAT_TEST = """\
from assistant import conversation, server
from dragoman import Client
from dragoman.chat import ToolCall
from dragoman.testing import ScriptedModel


def test_the_model_looks_a_price_up():
    model = ScriptedModel(ToolCall("1", "price", {"item": "tea"}), "It costs 2.5.")
    with Client(server) as client:
        reply = conversation(model, client).ask("What is tea?")
    assert reply.text == "It costs 2.5."
    assert [result.text for result in reply.tool_results] == ["2.5"]
"""

_CHAT_README = """\
# {project}

A conversation with a model that uses the tools of a server.

    pip install "dragoman[chat]" pytest
    python -m pytest                            # its tests, without a real model
    OPENAI_API_KEY=... python assistant.py openai:gpt-4.1
"""

TEMPLATES: dict[str, dict[str, str]] = {
    "server": {
        "pyproject.toml": _project("server", "dragoman"),
        "server.py": _SERVER,
        "test_server.py": _SERVER_TEST,
        ".mcp.json": _SERVER_CONFIG,
        "README.md": _SERVER_README,
    },
    "client": {
        "pyproject.toml": _project("client", "dragoman"),
        "client.py": _CLIENT,
        "test_client.py": _CLIENT_TEST,
        "README.md": _CLIENT_README,
    },
    "chat": {
        "pyproject.toml": _project("assistant", "dragoman[chat]"),
        "assistant.py": _CHAT,
        "test_assistant.py": _CHAT_TEST,
        "README.md": _CHAT_README,
    },
}
