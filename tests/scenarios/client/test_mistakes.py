"""What people get wrong when they begin, and what they are told: each error names the cause and the remedy."""

import asyncio
from pathlib import Path

import pytest

from dragoman import AsyncClient, AsyncClients, Client, Clients, Context, Server
from dragoman.client.connect.credentials import Credentials
from dragoman.client.connect.endpoint import EndpointOptions, endpoint_of
from dragoman.errors import (
    ConfigError,
    ConnectError,
    HttpError,
    InternalError,
    MissingCapability,
    ServerCrashed,
    Timeout,
    ToolError,
    TransportError,
)
from scenarios.raw_http import answering, reply

server = Server("sums")


@server.tool
def add(a: int, b: int = 0) -> int:
    return a + b


async def failure(target, **options):
    client = AsyncClient(target, **options)
    try:
        await client.start()
    except Exception as error:
        return error
    finally:
        await client.stop()


async def test_https_to_a_port_without_tls_says_so():
    async def serve(reader, writer):
        await reader.read(100)
        writer.write(reply(400))
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as there:
        error = await failure(f"https://127.0.0.1:{there.sockets[0].getsockname()[1]}/mcp")
    assert isinstance(error, ConnectError)
    assert "write http:// instead of https://" in str(error)
    assert "certificate is your own" not in str(error)


async def test_http_to_a_server_that_hangs_up_says_that_it_may_want_tls():
    async def serve(reader, writer):
        await reader.read(100)
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as there:
        error = await failure(f"http://127.0.0.1:{there.sockets[0].getsockname()[1]}/mcp", mode="handshake")
    assert isinstance(error, TransportError)
    assert "if it wants TLS, write https:// instead of http://" in str(error)


@pytest.mark.parametrize(
    "target", ["localhost:8000/mcp", "127.0.0.1:8000", "example.com/mcp", "[::1]:8000/mcp", "api.example.com:443"]
)
@pytest.mark.parametrize("transport", [None, "http"])
def test_an_address_without_a_scheme_is_no_command(target, transport):
    with pytest.raises(ValueError, match=r"has no scheme; write http://.* or https://"):
        Client(target, transport=transport)


@pytest.mark.parametrize("target", ["python3.11", "my-server", "uvx example.com/mcp", "./example.com"])
def test_a_command_is_no_address(target):
    assert endpoint_of(target, EndpointOptions(Credentials())).key == ("process", target, "None")


def test_a_program_whose_path_looks_like_an_address_is_a_program(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("example.com").mkdir()
    Path("example.com/mcp").touch()
    assert endpoint_of("example.com/mcp", EndpointOptions(Credentials())).key == ("process", "example.com/mcp", "None")


@pytest.mark.parametrize("target", ["no_such_server.py", "./folder/no_such_server.py", Path("no_such_server.py")])
async def test_a_script_that_is_not_there_is_named_with_the_folder(target):
    error = await failure(target)
    assert isinstance(error, ConnectError)
    assert "There is no file" in str(error)
    assert str(Path.cwd()) in str(error)


async def test_a_script_that_never_serves_is_told_to_run(tmp_path):
    path = tmp_path / "forgotten.py"
    path.write_text("def main(): ...\nmain()\n")
    error = await failure(path)
    assert isinstance(error, ServerCrashed)
    assert "does the file end with server.run()?" in str(error)


def test_a_variable_that_is_no_text_is_named_and_its_value_is_not_shown():
    with pytest.raises(TypeError, match=r"The variable PORT of env must be a text, not int; use str\(\)"):
        Client("server.py", env={"PORT": 80801})
    with pytest.raises(TypeError, match="env must be a mapping"):
        Client("server.py", env=["PORT=8080"])


def test_arguments_of_a_tool_go_into_a_dictionary():
    with Client(server) as client, pytest.raises(TypeError, match=r"call_tool\(tool, \{'a': \.\.\.\}\)"):
        client.call_tool("add", a=1)
    with Clients({"sums": server}) as clients, pytest.raises(TypeError, match="as a dictionary"):
        clients.call_tool("add", a=1)
    with Client(server) as client, pytest.raises(TypeError, match="did you mean 'timeout'"):
        client.call_tool("add", {"a": 1}, timeuot=1)


def test_errors_of_the_blocking_client_do_not_name_the_other_one():
    with Client(server) as client, Clients({"sums": server}) as clients:
        for wrong in (
            lambda: client.call_tool(),
            lambda: client.read_resource(),
            lambda: client.tool("add").call({}, nonsense=1),
            lambda: clients.call_tool(),
            lambda: clients.remove(),
        ):
            with pytest.raises(TypeError) as caught:
                wrong()
            assert "Async" not in str(caught.value)


@pytest.mark.parametrize(("kind", "target"), [(Client, server), (Clients, {"sums": server})])
def test_a_blocking_client_says_that_it_is_entered_with_with(kind, target):
    async def enter():
        async with kind(target):
            pass

    with pytest.raises(TypeError, match=rf"{kind.__name__} blocks: write `with {kind.__name__}\(...\)`"):
        asyncio.run(enter())


@pytest.mark.parametrize(("kind", "target"), [(AsyncClient, server), (AsyncClients, {"sums": server})])
def test_an_asynchronous_client_says_that_it_is_entered_with_async_with(kind, target):
    with pytest.raises(TypeError, match=rf"write `async with {kind.__name__}\(...\)`"), kind(target):
        pass


@pytest.mark.parametrize(("status", "path"), [(404, "/"), (405, "/api"), (404, "/mcp")])
async def test_a_web_application_that_is_no_mcp_server_is_quoted_by_its_title(status, path):
    page = b"<!doctype html><html><head><title>Not\n Found</title></head><body><h1>Oops</h1></body></html>"

    async def web(request, writer):
        return reply(status, page, content_type="text/html")

    async with answering(web) as there:
        error = await failure(there.url.replace("/mcp", path))
    assert isinstance(error, HttpError)
    assert "a web page, 'Not Found'; is the path right?" in str(error)
    assert ("often /mcp" in str(error)) == (path != "/mcp")
    assert "<" not in str(error)


async def test_a_message_that_is_too_large_names_the_option(tmp_path):
    path = tmp_path / "chatty.py"
    path.write_text("import sys; print('x' * 10_000, flush=True); sys.stdin.read()\n")
    error = await failure(path, max_message_bytes=5_000)
    assert isinstance(error, TransportError)
    assert "raise max_message_bytes" in str(error)


SILENT = """
from dragoman import Server

server = Server("silent")


@server.tool
def crash() -> str:
    return {}["the cup"]


@server.prompt
def broken() -> str:
    return {}["the plate"]


server.run()
"""


def test_an_error_without_a_cause_has_the_stderr_of_the_program_as_a_note(tmp_path):
    path = tmp_path / "silent.py"
    path.write_text(SILENT)
    with Client(path) as client:
        with pytest.raises(ToolError) as failed:
            client.call_tool("crash")
        assert str(failed.value) == "Internal error occurred"
        assert "It wrote to stderr:" in failed.value.__notes__[0]
        assert failed.value.__notes__[0].endswith("KeyError: 'the cup'")
        with pytest.raises(InternalError) as refused:
            client.get_prompt("broken")
        assert refused.value.__notes__[0].endswith("KeyError: 'the plate'")


def test_an_error_without_a_cause_names_the_log_where_there_is_no_program(caplog):
    failing = Server("failing")
    failing.tool(name="crash")(lambda: {}["the cup"])
    with Client(failing) as client, pytest.raises(ToolError) as failed:
        client.call_tool("crash")
    assert failed.value.__notes__ == ["The server does not tell the cause. Read the log of the server."]
    assert "the cup" in caplog.text


def test_a_client_that_cannot_answer_is_told_which_option_it_lacks():
    asking = Server("asking")

    @asking.tool
    async def ask(ctx: Context) -> str:
        return (await ctx.elicit("Name?", str)).content

    with Client(asking) as client, pytest.raises(MissingCapability) as failed:
        client.call_tool("ask")
    assert failed.value.__notes__ == ["The server has a question for this client: give the client on_elicitation=."]


async def test_a_time_out_names_the_option():
    slow = Server("slow")

    @slow.tool
    async def wait() -> str:
        await asyncio.Event().wait()
        return ""

    async with AsyncClient(slow, timeout=0.05) as client:
        with pytest.raises(Timeout, match=r"for 0.05 seconds. If it needs longer, raise timeout$"):
            await client.call_tool("wait")


async def test_a_command_in_one_word_is_split_by_its_author():
    error = await failure(["python3 server.py"])
    assert isinstance(error, ConnectError)
    assert "the program is 'python3', and the rest are its arguments (args)" in str(error)


async def test_a_token_may_have_the_word_bearer():
    for token in ("k-17", "Bearer k-17"):
        assert await Credentials.of(None, token).own_headers() == {"Authorization": "Bearer k-17"}


@pytest.mark.parametrize("mode", ["auto", "handshake", "stateless"])
async def test_server_that_echoes_is_named_as_such(mode):
    error = await failure(["cat"], mode=mode)
    assert isinstance(error, TransportError)
    assert "sends the client's own messages back, so it does not speak MCP" in str(error)


async def test_http_server_that_echoes_is_named_as_such():
    async def web(request, writer):
        return reply(200, request.body, content_type="application/json")

    async with answering(web) as there:
        error = await failure(there.url)
    assert isinstance(error, TransportError)
    assert "sends the client's own messages back" in str(error)


@pytest.mark.parametrize("name", ["timeout", "total_timeout", "connect_timeout", "approval_timeout"])
@pytest.mark.parametrize("value", ["3s", True, [3]])
def test_time_option_that_is_no_number_is_refused(name, value):
    with pytest.raises(TypeError, match=rf"^{name} must be a number of seconds, such as 30, not "):
        Client(server, **{name: value})


@pytest.mark.parametrize("name", ["timeout", "total_timeout"])
async def test_time_of_a_call_that_is_no_number_is_refused(name):
    async with AsyncClient(server) as client:
        with pytest.raises(TypeError, match=rf"^{name} must be a number of seconds, such as 30, not '3s'"):
            await client.call_tool("add", {"a": 1}, **{name: "3s"})
        assert (await client.call_tool("add", {"a": 1}, **{name: 3})).structured == 1


@pytest.mark.parametrize("tool", [None, 3, ["add"], object()])
async def test_tool_without_a_name_is_refused(tool):
    async with AsyncClient(server) as client, AsyncClients({"sums": server}) as clients:
        for call in (client.call_tool, client.call_tool_unfinished, clients.call_tool):
            with pytest.raises(
                TypeError, match=r"^A tool to call must be a name, or a tool that a client returned, not"
            ):
                await call(tool, {"a": 1})
        with pytest.raises(TypeError, match=r"^A tool is looked up by its name, not by"):
            await client.tool(tool)


@pytest.mark.parametrize("arguments", [[], [1], [("a", 1)], "a", 3])
async def test_arguments_that_are_no_mapping_are_refused(arguments):
    async with AsyncClient(server) as client:
        tool = await client.tool("add")
        for call in (client.call_tool, client.call_tool_unfinished, client.get_prompt):
            with pytest.raises(TypeError, match=r"^The arguments must be a mapping of names to values, such as"):
                await call("add", arguments)
        with pytest.raises(TypeError, match=r"^The arguments must be a mapping"):
            await tool.call(arguments)


@pytest.mark.parametrize("name", ["headers", "meta"])
async def test_headers_and_meta_that_are_no_mapping_are_refused(name):
    async with AsyncClient(server) as client:
        with pytest.raises(TypeError, match=f"^{name} must be a mapping, not str"):
            await client.call_tool("add", {"a": 1}, **{name: "x"})


@pytest.mark.parametrize("headers", ["x", ["x"], 3])
def test_headers_option_that_is_no_mapping_is_refused(headers):
    with pytest.raises(TypeError, match=r"^headers must be a mapping of names to texts, or a function, not"):
        Client("http://127.0.0.1:1/mcp", headers=headers)


@pytest.mark.parametrize("target", [[], (), "", " ", [""]])
def test_empty_target_is_refused(target):
    with pytest.raises(
        ValueError, match=r"^The target is empty; give a URL, a command, the path of a script, or a Server"
    ):
        Client(target)


def test_command_with_a_word_that_is_no_text_is_refused():
    with pytest.raises(TypeError, match=r"^The words of a command must be texts, not None"):
        Client(["npx", None])


def test_entry_with_command_and_url_is_refused():
    entry = {"command": "run", "url": "https://example.com/mcp"}
    with pytest.raises(ConfigError, match="the entry has a command and a URL; remove one of them"):
        Client(entry)


@pytest.fixture
def booking():
    server = Server("booking")

    @server.tool
    async def book(*, ctx: Context) -> str:
        form = {"type": "object", "properties": {"nights": {"type": "integer"}}, "required": ["nights"]}
        return f"{(await ctx.elicit('How many nights?', form)).content['nights']} nights"

    @server.tool
    async def patient(*, ctx: Context) -> str:
        return (await ctx.elicit("Really?", {"type": "object", "properties": {}})).action

    @server.tool
    def broken() -> str:
        raise ToolError("No rooms")

    return server


async def pause():
    return 2


def refuse_to_ask(request):
    raise ValueError("the secret cause")


@pytest.mark.parametrize("mode", ["handshake", "stateless"])
@pytest.mark.parametrize(
    ("handler", "cause"),
    [
        (lambda request: {"nights": "two"}, 'nights: the value is not of type "integer"'),
        (lambda request: "two", "the handler returned str; return a mapping"),
        (lambda request: {"nights": pause()}, "await the coroutine"),
        (refuse_to_ask, "the handler raised ValueError"),
    ],
)
@pytest.mark.filterwarnings("ignore:coroutine 'pause' was never awaited:RuntimeWarning")
def test_error_names_the_mistake_of_an_elicitation_handler(booking, mode, handler, cause):
    with Client(booking, mode=mode, on_elicitation=handler) as client, pytest.raises(ToolError) as caught:
        client.call_tool("book")
    assert cause in str(caught.value)
    assert "secret" not in str(caught.value)


def test_error_names_no_mistake_if_the_user_cancelled(booking):
    cancelled = pytest.raises(ToolError, match=r"^The user did not accept: cancel$")
    with Client(booking, on_elicitation=lambda request: None) as client, cancelled:
        client.call_tool("book")


def test_other_failures_do_not_name_an_earlier_mistake(booking):
    with Client(booking, on_elicitation=lambda request: "two") as client:
        assert client.call_tool("patient").text == "cancel"
        with pytest.raises(ToolError, match=r"^No rooms$"):
            client.call_tool("broken")
