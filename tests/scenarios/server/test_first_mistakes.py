"""What authors of a first server get wrong, and what they are told."""

import functools
import subprocess
import sys
import threading
from typing import Literal

import pytest

from dragoman import Client, DefinitionError, DragomanError, Prompt, Resource, Server, Tool, ToolError
from dragoman.errors import ConnectError
from ports import free_port
from scenarios.command_line import written
from scenarios.wire import DEADLINE


def test_a_default_that_a_call_changes_is_new_in_the_next_call():
    server = Server("shop")

    @server.tool
    def put(item: str, basket: list[str] = [], prices: dict[str, int] = {"a": 1}) -> str:  # noqa: B006
        basket.append(item)
        prices["a"] += 1
        return f"{basket} {prices}"

    with Client(server) as client:
        for _ in range(2):
            assert client.call_tool("put", {"item": "bread"}).text == "['bread'] {'a': 2}"


def test_the_wrapper_of_a_decorator_is_told_to_use_wraps():
    server = Server("sums")

    def timed(function):
        def inner(*args, **kwargs):
            return function(*args, **kwargs)

        return inner

    with pytest.raises(DefinitionError, match=r"belongs to a decorator, write @functools.wraps\(function\) above it"):
        server.tool(timed(lambda a: a))
    wrapped = functools.wraps(test_the_wrapper_of_a_decorator_is_told_to_use_wraps)(timed(lambda: None))
    assert server.tool(wrapped).name == "test_the_wrapper_of_a_decorator_is_told_to_use_wraps"


BLOCKING = """
import asyncio, subprocess, time
from time import sleep
from dragoman import Server

server = Server("x")


@server.tool
async def waits() -> None:
    time.sleep(1)


@server.tool
async def imported() -> None:
    sleep(1)


@server.tool
async def runs() -> None:
    subprocess.run(["true"])


@server.tool
async def innocent() -> float:
    await asyncio.sleep(1)
    return time.time()


@server.tool
def plain() -> None:
    time.sleep(1)


server.run()
"""


def test_an_async_def_that_calls_what_blocks_is_warned_of_when_the_server_starts(tmp_path):
    path = tmp_path / "blocking.py"
    path.write_text(BLOCKING)
    ended = subprocess.run([sys.executable, path], input=b"", capture_output=True, timeout=DEADLINE, check=True)
    assert ended.stderr.decode().splitlines() == [
        f"The `async def` of {name!r} calls {called}, which stops the server for all clients meanwhile:"
        " write `def`, or await what takes long"
        for name, called in [("waits", "time.sleep"), ("imported", "time.sleep"), ("runs", "subprocess.run")]
    ]


def test_a_lifespan_that_returns_a_value_is_named_with_the_remedy():
    def connect(server: Server) -> int:
        return 3

    with pytest.raises(ConnectError) as failed, Client(Server("x", lifespan=connect)):  # type: ignore[arg-type]
        pass
    assert isinstance(failed.value.__cause__, DefinitionError)
    assert str(failed.value.__cause__).startswith(
        "connect() returned int, and cannot be a lifespan: write an `async def`"
    )


@pytest.mark.parametrize(("option", "meant"), [("desc", "description"), ("anotations", "annotations")])
def test_an_option_that_no_tool_has_names_the_closest(option, meant):
    with pytest.raises(DefinitionError, match=f"Tool has no option {option!r}; did you mean {meant!r}"):
        Server("x").tool(**{option: "y"})(lambda: None)


def test_a_type_that_json_schema_does_not_have_is_named_with_those_that_it_has():
    schema = {"type": "object", "properties": {"a": {"type": "int"}}}
    with pytest.raises(DefinitionError, match=r"properties.a.type: 'int' is no type; use string, integer, number,"):
        Server("x").tool(name="f", input_schema=schema)(lambda a: None)


def test_a_value_that_is_no_choice_is_answered_with_the_choices():
    server = Server("x")

    @server.tool
    def paint(colour: Literal["red", "blue"], coats: list[Literal[1, 2]] = [1]) -> str:  # noqa: B006
        return colour

    with Client(server) as client:
        said = client.call_tool("paint", {"colour": "pink", "coats": [3]}, raise_on_error=False).text
    assert said == (
        "Invalid arguments: colour: Invalid enum value 'pink'; use 'red' or 'blue';"
        " coats[0]: Invalid enum value 3; use 1 or 2"
    )


def test_an_empty_name_is_refused_with_the_remedy():
    server = Server("x")
    for decorate in (server.tool, server.prompt):
        with pytest.raises(DefinitionError, match="leave `name` out to use the name of the function"):
            decorate(name="")(lambda: None)


@pytest.mark.parametrize("kind", [Tool, Prompt])
def test_a_lambda_needs_a_name(kind):
    with pytest.raises(
        DefinitionError, match=rf'A lambda has no name: .* {kind.__name__}.define\(function, name="double"\)'
    ):
        kind.define(lambda a: a)
    assert kind.define(lambda a: a, name="double").name == "double"


def test_a_resource_of_a_lambda_is_named_by_its_uri():
    server = Server()
    server.resource("config://app")(lambda: "")
    server.resource("users://{user}")(lambda user: user)
    assert [resource.name for resource in (*server.resources, *server.resource_templates)] == [
        "config://app",
        "users://{user}",
    ]


@pytest.mark.parametrize("option", ["name", "title", "description"])
@pytest.mark.parametrize("kind", [Tool, Prompt, Resource])
def test_texts_of_a_definition_must_be_texts(kind, option):
    def add() -> str: ...

    uri = {"uri": "a://b"} if kind is Resource else {}
    with pytest.raises(DefinitionError, match=f"^{option} of add must be text, not 5$"):
        kind.define(add, **uri, **{option: 5})


def test_the_uri_of_a_resource_may_be_named():
    server = Server()

    @server.resource(uri="config://app", mime_type="text/plain")
    def config() -> str:
        return "on"

    with Client(server) as client:
        assert client.read_resource("config://app").contents[0].text == "on"


def test_http_in_another_thread_is_refused_with_the_remedy():
    raised = []

    def run():
        try:
            Server().run("http", port=free_port())
        except DragomanError as error:
            raised.append(str(error))

    thread = threading.Thread(target=run)
    thread.start()
    thread.join(DEADLINE)
    [message] = raised
    assert 'write `asyncio.run(server.run_async("http", ...))` in this thread' in message


SERVED = """
    import sys
    from dragoman import Server

    server = Server("sums")

    if __name__ == "__main__":
        server.run("http", host=sys.argv[1], port=int(sys.argv[2]), workers=int(sys.argv[3]))
"""


@pytest.mark.parametrize("host", ["999.1.1.1", "192.0.2.1"])
@pytest.mark.parametrize("workers", [1, 2])
def test_a_bad_host_is_named(tmp_path, host, workers):
    words = [sys.executable, written(tmp_path, SERVED), host, str(free_port()), str(workers)]
    ended = subprocess.run(words, capture_output=True, text=True, timeout=DEADLINE, check=False)
    assert ended.returncode != 0
    assert (
        f"The host {host!r} is not an address or a name of this machine: choose another (host=, or --host)"
        in ended.stderr
    )
    assert "Traceback" not in ended.stderr


@pytest.mark.parametrize("host", ["", " ", 5, None])
def test_an_empty_host_is_refused(host):
    with pytest.raises(DefinitionError, match="host must be an address or a name of this machine, such as"):
        Server().run("http", host=host)


def test_uvicorn_with_the_server_itself_is_told_what_to_serve(tmp_path):
    written(tmp_path, SERVED)
    words = [sys.executable, "-m", "uvicorn", "service:server", "--port", str(free_port())]
    ended = subprocess.run(words, capture_output=True, text=True, timeout=DEADLINE, check=False, cwd=tmp_path)
    assert ended.returncode == 3
    assert "is not an ASGI application: write `app = server.asgi()`, and serve `app` instead" in ended.stderr
    assert "Traceback" not in ended.stderr


async def test_a_server_that_is_mounted_in_place_of_its_application_says_so():
    with pytest.raises(DefinitionError, match=r"write `app = server.asgi\(\)`"):
        await Server()({"type": "http"}, None, None)


class HTTPException(Exception):
    """As FastAPI and Starlette have it."""


@pytest.mark.parametrize(
    ("error", "is_hinted"),
    [(ValueError("no such city"), True), (HTTPException("404"), True), (OSError("disk"), False)],
)
def test_the_log_suggests_a_tool_error(error, is_hinted, caplog):
    server = Server()

    @server.tool
    def forecast() -> str:
        raise error

    @server.prompt
    def ask() -> str:
        raise error

    with Client(server) as client:
        with pytest.raises(ToolError, match="Internal error occurred"):
            client.call_tool("forecast")
        with pytest.raises(DragomanError):
            client.get_prompt("ask")
    of_tool, of_prompt = caplog.messages
    assert of_tool.startswith("Unexpected error in tools/call of 'forecast'")
    assert of_tool.endswith("; the model does not see this text: raise ToolError(...) if it should") is is_hinted
    assert "ToolError" not in of_prompt
