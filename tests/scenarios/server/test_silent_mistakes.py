"""Mistakes that would have no visible effect are refused, or the log warns of them."""

import functools
import logging
import subprocess
import sys
from contextlib import asynccontextmanager
from typing import Annotated

import fastapi
import pytest
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Mount, Route

from dragoman import Client, ConnectError, DefinitionError, Depends, Lifespan, Server, tool
from dragoman.server import Header
from scenarios.command_line import written
from scenarios.wire import DEADLINE


def current_user() -> str:
    return "Ann"


def uncalled(user: Annotated[str, Depends]) -> str: ...
def uncalled_default(user: str = Depends) -> str: ...
def uncalled_of_fastapi(user: Annotated[str, fastapi.Depends]) -> str: ...
def uncalled_lifespan(user: Annotated[str, Lifespan]) -> str: ...
def uncalled_header(user: Annotated[str, Header]) -> str: ...
def uncalled_header_of_fastapi(user: Annotated[str, fastapi.Header]) -> str: ...
def in_a_union(user: Annotated[str, Depends(current_user)] | None) -> str: ...
def in_a_list(users: list[Annotated[str, Depends(current_user)]]) -> str: ...
def of_fastapi_in_a_union(user: Annotated[str, fastapi.Depends(current_user)] | None = None) -> str: ...


@pytest.mark.covers("DEP-13")
@pytest.mark.parametrize(
    ("function", "message"),
    [
        (uncalled, r"'user': Depends is not called, so it has no effect: write Depends\(function\)"),
        (uncalled_default, r"'user': Depends is not called, .* write Depends\(function\)"),
        (uncalled_of_fastapi, r"'user': Depends is not called, .* write Depends\(function\)"),
        (uncalled_lifespan, r"'user': Lifespan is not called, .* write Lifespan\(\)"),
        (uncalled_header, r"""'user': Header is not called, .* write Header\("x-name"\)"""),
        (uncalled_header_of_fastapi, "'user': Header of fastapi.* has no value in MCP"),
        (in_a_union, r"'user': Depends\(current_user\) is inside of a type, where it has no effect"),
        (in_a_list, r"'users': Depends\(current_user\) is inside of a type"),
        (of_fastapi_in_a_union, r"'user': Depends\(.*\) is inside of a type"),
    ],
)
def test_markers_without_effect_are_refused(function, message):
    """Otherwise the client would choose the value of the parameter."""
    with pytest.raises(DefinitionError, match=message):
        Server().tool(function)


def timed(function):
    def inner(*args, **kwargs):
        return function(*args, **kwargs)

    return inner


def wrapping(function):
    return functools.wraps(function)(timed(function))


class Retry:
    def __init__(self, function):
        self._function = function

    def __call__(self, *args, **kwargs):
        return self._function(*args, **kwargs)


WARNING = "The decorator above {!r} does not run for clients: write the decorator of the server above it"


def warnings_of(server, caplog):
    caplog.clear()
    with caplog.at_level(logging.WARNING, "dragoman.server"), Client(server) as client:
        assert client.tools()
    return caplog.messages


@pytest.mark.parametrize("decorate", [timed, wrapping, Retry, functools.lru_cache])
def test_a_decorator_above_the_one_of_the_server_is_warned_of(decorate, caplog):
    server = Server()

    @decorate
    @server.tool
    def plain() -> str:
        return ""

    @decorate
    @server.tool(
        description="Adds.",
    )
    def with_options() -> str:
        return ""

    assert warnings_of(server, caplog) == [WARNING.format("plain"), WARNING.format("with_options")]
    assert warnings_of(server, caplog) == []  # once


@wrapping
@timed
@(module := Server()).tool
def twice_decorated() -> str:
    return ""


@module.tool
def registered() -> str:
    return ""


later_decorated = wrapping(registered)


def test_decorated_functions_of_a_module_are_warned_of(caplog):
    assert warnings_of(module, caplog) == [WARNING.format("twice_decorated")]


first, second = Server(), Server()


@first.tool
@second.tool
def of_two_servers() -> str:
    return ""


@(lambda made: made)
@first.tool
def returned_as_it_is() -> str:
    return ""


@first.tool
@wrapping
def below() -> str:
    return ""


def test_decorators_that_lose_nothing_are_not_warned_of(caplog):
    def undecorated() -> str:
        return ""

    first.tool(undecorated)
    assert warnings_of(first, caplog) == []
    assert warnings_of(second, caplog) == []
    assert first.tools[0] is second.tools[0]


def test_options_of_a_tool_that_a_decorator_has_wrapped_are_not_lost():
    @wrapping
    @tool(scopes=["admin"])
    def remove() -> str: ...

    with pytest.raises(DefinitionError, match="wrapped <Tool 'remove'>, whose options would be lost: write @tool"):
        Server(tools=[remove])


def test_a_tool_is_registered_with_its_own_options_or_refused():
    guarded = tool(scopes=["admin"])(current_user)
    assert Server().tool(guarded) is guarded
    with pytest.raises(DefinitionError, match="<Tool 'current_user'> has its options already"):
        Server().tool(name="user")(guarded)


@pytest.mark.parametrize(
    ("act", "message"),
    [
        (lambda server: server.method(5), "needs the name of the method"),
        (lambda server: server.method(current_user), "needs the name of the method"),
        (lambda server: server.method(""), "needs the name of the method"),
        (lambda server: server.method("rpc.x"), "JSON-RPC reserves the names that begin with 'rpc.'"),
        (lambda server: server.add_app("ui://a/b.html", 5), "needs HTML text, a Path or a function"),
        (lambda server: server.add_app("ui://a/b.html", b"<p>"), "needs HTML text, a Path or a function"),
        (lambda server: server.tool(inline="yes")(current_user), "inline of current_user must be True or False"),
        (lambda server: server.tool(enabled="no")(current_user), "enabled of current_user must be True or False"),
        (lambda server: server.tool(wrap_result=0)(current_user), "wrap_result of current_user must be True or False"),
        (lambda server: server.prompt(inline=1)(current_user), "inline of current_user must be True or False"),
        (
            lambda server: server.resource("a://{b}", unsafe_paths="no")(lambda b: b),
            "unsafe_paths of <lambda> must be True or False",
        ),
        (lambda server: server.override(current_user, 5), "must be a function, not 5"),
        (lambda _: Server(secret=5), "secret must be text, bytes"),
        (lambda _: Server(debug="false"), "debug must be True or False, not 'false'"),
        (lambda _: Server(strict_arguments="no"), "strict_arguments must be True or False"),
        (lambda server: server.asgi(allowed_origins=["app.example.com"]), "an origin with its scheme"),
        (lambda server: server.asgi(allowed_hosts="https://mcp.example.com"), "must be a host"),
        (lambda server: server.wsgi(allowed_origins="app.example.com"), "an origin with its scheme"),
        (lambda server: server.mount_asgi("/other", Server()), r"write server.mount_asgi\('/other', other.asgi\(\)\)"),
        (lambda server: server.add_tool(Server()), "is a server, not a function"),
    ],
)
def test_values_without_meaning_are_refused(act, message):
    with pytest.raises(DefinitionError, match=message):
        act(Server())


async def get(app, path):
    """Return the status of a request to an ASGI application."""
    sent = []
    scope = {"type": "http", "method": "GET", "path": path, "headers": [(b"host", b"localhost")], "query_string": b""}

    async def receive():
        return {"type": "http.request", "body": b""}

    async def send(message):
        sent.append(message)

    await app({**scope, "http_version": "1.1", "root_path": "", "scheme": "http"}, receive, send)
    return sent[0]["status"]


@pytest.mark.parametrize("prefix", ["/", "/api"])
async def test_routes_after_the_mount_of_a_server_are_warned_of(prefix, caplog):
    app = fastapi.FastAPI()
    app.mount(prefix, Server().asgi())

    @app.get(f"{prefix.rstrip('/')}/health")
    def health() -> str:
        return "well"

    for _ in range(2):
        assert await get(app, f"{prefix.rstrip('/')}/health") == 404
    path = f"{prefix.rstrip('/')}/health"
    expected = f"mounts the server at {prefix!r} before its routes {path}, which are therefore never served: make"
    [message] = caplog.messages
    assert expected in message


async def test_a_server_that_is_mounted_last_is_not_warned_of(caplog):
    health = Route("/health", lambda _: PlainTextResponse("well"))
    app = Starlette(routes=[health, Mount("/", Server().asgi())])
    assert (await get(app, "/health"), await get(app, "/nothing")) == (200, 404)
    assert caplog.messages == []


async def test_routes_of_a_server_come_before_what_is_mounted_in_it():
    server = Server()
    server.mount_asgi("/", Starlette(routes=[Route("/health", lambda _: PlainTextResponse("ill", 503))]))
    server.route("/health")(lambda: "well")
    assert await get(server.asgi(), "/health") == 200


BLOCKING = """
    import asyncio
    from dragoman import Client, Server

    server = Server("sums")

    @server.tool
    def add(a: int, b: int) -> int:
        return a + b

    async def main():
        with Client(server) as client:
            for _ in range(3):
                print(client.call_tool("add", {"a": 1, "b": 2}).text)

    {start}
"""


def run_blocking(folder, start):
    path = written(folder, BLOCKING.replace("{start}", start))
    ended = subprocess.run([sys.executable, path], capture_output=True, text=True, timeout=DEADLINE, check=True)
    assert ended.stdout.split() == ["3"] * 3
    return path, ended.stderr


def test_a_blocking_client_in_a_coroutine_is_warned_of_once(tmp_path):
    path, said = run_blocking(tmp_path, "asyncio.run(main())")
    assert said.startswith(f"A blocking call in main() ({path}:12) stops the event loop until it ends")
    assert "such as AsyncClient for Client" in said
    assert said.count("\n") == 1


CELL = """
    def cell():
        with Client(server) as client:
            for _ in range(3):
                print(client.call_tool("add", {"a": 1, "b": 2}).text)

    shell = {"__name__": "IPython.core.interactiveshell"}
    exec("async def run_code(cell): cell()", shell)
"""


@pytest.mark.parametrize("start", ["cell()", 'asyncio.run(shell["run_code"](cell))'])
def test_a_blocking_client_without_a_loop_or_in_a_notebook_is_not_warned_of(tmp_path, start):
    assert run_blocking(tmp_path, f"{CELL}\n    {start}")[1] == ""


class Database: ...


@asynccontextmanager
async def open_database():
    yield Database()


@asynccontextmanager
async def open_text():
    yield "text"


def orders(database: Annotated[Database, Lifespan()]) -> str: ...


def table(database: Annotated[Database, Lifespan()]) -> str: ...


def rows(name: Annotated[str, Depends(table)]) -> str: ...


@pytest.mark.covers("DEP-13")
@pytest.mark.parametrize("function", [orders, rows])
def test_a_missing_lifespan_is_found_before_the_server_serves(function):
    message = rf"'{function.__name__}' cannot be served: Lifespan\(\) .*Database.*: register one with @server.lifespan"
    server = Server()
    server.tool(function)
    for serve in (server.check, server.asgi, server.run, lambda: server.handle({})):
        with pytest.raises(DefinitionError, match=message):
            serve()
    server.lifespan(open_text)
    server.check()  # the types of the values are known only when the lifespans have begun
    with pytest.raises(ConnectError, match=message), Client(server):
        pass
    server.lifespan(open_database)
    with Client(server) as client:
        assert [listed.name for listed in client.tools()] == [function.__name__]


@pytest.mark.covers("DEP-13")
@pytest.mark.parametrize(
    ("register", "name"),
    [
        (lambda server: server.method("acme/orders")(orders), "acme/orders"),
        (lambda server: server.on_list_resources(orders), "on_list_resources"),
        (lambda server: server.on_complete(rows), "on_complete"),
        (lambda server: server.resource("orders://all")(orders), "orders"),
        (lambda server: server.prompt(orders), "orders"),
    ],
)
def test_a_missing_lifespan_of_hooks_and_methods_is_found(register, name):
    server = Server()
    register(server)
    with pytest.raises(DefinitionError, match=f"'{name}' cannot be served: "):
        server.check()


@pytest.mark.covers("DEP-13")
def test_an_override_that_needs_no_lifespan_is_respected():
    server = Server()
    server.tool(rows)
    with server.override(table, lambda: "a table"), Client(server) as client:
        assert client.tools()
