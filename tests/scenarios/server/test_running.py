"""What `server.run()` and `server.asgi()` are told: which carrier, which options, and what they say of mistakes."""

import asyncio
import inspect
import json
import os
import signal
import subprocess
import sys
import textwrap

import pytest

from dragoman import AsyncClient, DefinitionError, DragomanError, Server, Tool, prompt, resource, tool
from dragoman.server import serving
from dragoman.server.http.head import Guard
from scenarios.http_crew import crew

SERVER = """
    import sys
    from dragoman import Server

    server = Server("sums")

    @server.tool
    def add(a: int, b: int) -> int:
        return a + b

"""


@pytest.mark.parametrize("name", ["http", "streamable-http", "streamable_http", "Streamable-HTTP"])
def test_the_names_that_others_give_to_http_serve_http(monkeypatch, name):
    served = []
    monkeypatch.setattr("dragoman.server.http.run.run_http", lambda app, **listening: served.append(listening))
    Server("sums").run(name, port=0, workers=2, max_sessions=3)
    assert [one | {"announce": None} for one in served] == [
        {"host": "127.0.0.1", "port": 0, "workers": 2, "announce": None}
    ]


async def test_a_server_that_is_run_as_streamable_http_answers_over_http():
    run = SERVER + '    server.run("streamable-http", port=int(sys.argv[1]), allowed_hosts="mcp.example.com")\n'
    async with crew(1, run) as served:
        await served.ready()
        async with AsyncClient(served.url) as client:
            assert (await client.call_tool("add", {"a": 1, "b": 2})).text == "3"


@pytest.mark.parametrize("name", ["sse", "tcp", "", None, "stdio "])
def test_a_transport_that_there_is_not_is_an_error_that_lists_those_that_there_are(name):
    with pytest.raises(DefinitionError, match=r'There is no transport .*"stdio" and "http"'):
        Server("sums").run(name)


@pytest.mark.parametrize("arguments", [{"port": 1}, {"transport": "stdio", "host": "127.0.0.1"}])
def test_options_of_http_are_refused_for_stdio(arguments):
    with pytest.raises(TypeError, match=r'write run\("http", (port|host)=...\)'):
        Server("sums").run(**arguments)


@pytest.mark.parametrize(
    ("option", "remedy"), [("foo", "there are host, port"), ("max_session", "did you mean 'max_sessions'")]
)
@pytest.mark.parametrize("transport", ["stdio", "http"])
def test_options_that_there_are_not_are_refused(transport, option, remedy):
    with pytest.raises(TypeError, match=rf"no option '{option}'; {remedy}"):
        Server("sums").run(transport, **{option: 3})


def test_the_options_of_run_are_those_of_asgi_and_where_it_listens():
    taken = set(inspect.signature(Server.asgi).parameters) - {"self"}
    assert set(serving.HttpOptions.__annotations__) == taken | {"host", "port", "workers"}


BAD_VALUES = [
    ("session_idle_timeout", 0, "above 0, or None"),
    ("session_idle_timeout", "30", "above 0, or None"),
    ("session_idle_timeout", float("nan"), "above 0, or None"),
    ("session_idle_timeout", True, "above 0, or None"),
    ("max_sessions", -1, "at least 1, or None"),
    ("max_sessions", 2.5, "at least 1, or None"),
    ("max_subscriptions", -1, "at least 0, or None"),
    ("max_event_bytes", None, "at least 0, not None"),
    ("stateless", 1, "True or False"),
    ("json_response", "yes", "True or False"),
    ("path", None, "a string"),
    ("auth", "secret", "a function of the request"),
    ("allowed_hosts", [80], "strings"),
]


@pytest.mark.parametrize(("option", "value", "expected"), BAD_VALUES)
@pytest.mark.parametrize("way", ["asgi", "run"])
def test_values_that_make_no_sense_are_refused_before_anything_is_served(way, option, value, expected):
    server = Server("sums")
    with pytest.raises(DefinitionError, match=f"{option} must be .*{expected}"):
        server.asgi(**{option: value}) if way == "asgi" else server.run("http", **{option: value})


@pytest.mark.parametrize(
    ("option", "value"), [("port", "80"), ("port", 65_536), ("port", -1), ("workers", 0), ("host", 1)]
)
def test_where_it_listens_must_make_sense(option, value):
    with pytest.raises(DefinitionError, match=f"{option} must be"):
        Server("sums").run("http", **{option: value})


@pytest.mark.parametrize("given", ["mcp.example.com", "a.example, mcp.example.com", ["mcp.example.com"]])
def test_one_string_is_one_host_or_several_with_commas_between(given):
    guard = Guard(allowed_hosts=given, allowed_origins=())
    refusals = {host: guard.refuse([(b"host", host.encode())], "0.0.0.0") for host in ("mcp.example.com", "m", ".")}
    assert [host for host, refusal in refusals.items() if refusal is None] == ["mcp.example.com"]


@pytest.mark.parametrize("transport", ["stdio", "http"])
def test_run_inside_a_loop_names_cause_and_remedy(transport):
    async def main():
        Server("sums").run(transport)

    with pytest.raises(DragomanError, match=r"one runs in this thread already.*await server.run_async"):
        asyncio.run(main())


def test_a_string_that_a_decorator_is_given_is_the_name():
    server = Server("sums")

    @server.tool("plus", title="Plus")
    def add(a: int, b: int) -> int:
        return a + b

    @server.prompt("hello")
    def greet(name: str) -> str:
        return name

    @tool("free")
    def other() -> None: ...

    @prompt("said")
    def another() -> str:
        return ""

    assert (add.name, add.title, add(1, 2)) == ("plus", "Plus", 3)
    assert [one.name for one in (greet, other, another)] == ["hello", "free", "said"]
    assert isinstance(other, Tool)
    with pytest.raises(DefinitionError, match="Two names are given, 'a' and 'b'"):
        tool("a", name="b")


@pytest.mark.parametrize("decorator", [resource, Server("sums").resource])
def test_a_resource_without_a_uri_is_refused_with_the_remedy(decorator):
    def settings() -> str:
        return ""

    with pytest.raises(DefinitionError, match=r'write @resource\("config://settings"\)'):
        decorator(settings)
    with pytest.raises(TypeError, match=r"resource\(\) has no option 'mimetype'; did you mean 'mime_type'"):
        decorator("config://app", mimetype="text/plain")


CLOSING = """
    import sys
    from dragoman import BlockingContext, Server
    from dragoman.stores import Memory

    class Noted(Memory):
        reach = "machine"

        async def close(self):
            print("the store is closed", file=sys.stderr)

    server = Server("sums", store=Noted())

    @server.tool
    def count(ctx: BlockingContext) -> int:
        return ctx.user_state.update("count", lambda count: (count or 0) + 1)

    @server.tool(task=True)
    def slow() -> str:
        return "done"

    if __name__ == "__main__":
        server.run()
"""
CALL = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "tools/call",
    "params": {"name": "slow", "arguments": {}},
}


@pytest.mark.parametrize("command", [["sums.py"], ["-m", "dragoman", "run", "sums.py"]])
def test_the_end_of_serving_over_stdio_closes_the_store(tmp_path, command):
    (tmp_path / "sums.py").write_text(textwrap.dedent(CLOSING))
    ended = subprocess.run(
        [sys.executable, *command],
        cwd=tmp_path,
        env=os.environ | {"XDG_STATE_HOME": str(tmp_path)},
        input=json.dumps(CALL) + "\n",
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert json.loads(ended.stdout)["result"]["content"][0]["text"] == "done"
    assert ended.stderr.splitlines() == ["the store is closed"]


def test_a_worker_that_is_stopped_closes_the_store(tmp_path):
    (tmp_path / "sums.py").write_text(textwrap.dedent(CLOSING))
    with subprocess.Popen(
        [sys.executable, "-m", "dragoman", "worker", "sums.py"],
        cwd=tmp_path,
        env=os.environ | {"XDG_STATE_HOME": str(tmp_path)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as worker:
        assert "Running the tasks" in worker.stderr.readline()
        worker.send_signal(signal.SIGTERM)
        said = worker.communicate(timeout=60)[1]
    assert worker.returncode == 0
    assert said.splitlines()[-1] == "the store is closed"
