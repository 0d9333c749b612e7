"""The work that a request must not cause: code of unused features, tasks, timers and writes."""

import asyncio
import gc
import sys

import pytest

from dragoman import Configuration, Depends, Server
from dragoman.stores import Memory

CALLS = {
    "handshake": b'{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"add","arguments":{"a":1,"b":2}}}\n',
    "stateless": b'{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"add","arguments":{"a":1,"b":2},'
    b'"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",'
    b'"io.modelcontextprotocol/clientCapabilities":{}}}}\n',
}


def functions_passed(work):
    """Return the names of the Python functions that are called."""
    passed = []

    def note(frame, event, _):
        if event == "call":
            passed.append(frame.f_code.co_qualname)

    before = sys.getprofile()
    gc.disable()  # finalizers of what earlier tests left are not ours
    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(before)
        gc.enable()
    return passed


async def calls_with(prepare, era, method=b"tools/call"):
    """Return what a call passes through on a server that was prepared."""
    server, sent = Server(), []

    @server.tool(inline=True)
    def add(a: int, b: int) -> str:
        return str(a + b)

    prepare(server)
    connection = server.connect(sent.append)
    message = CALLS[era].replace(b"tools/call", method)
    measured = []
    for id in range(6):
        # What comes without a turn of the loop for some time is not begun at once.
        await asyncio.sleep(0)
        measured.append(functions_passed(lambda id=id: connection.receive(message % id)))
        assert len(sent) == id + 1
    connection.close()
    return measured[-1]


async def lasting():
    yield "value"


def depending(made: str = Depends(lasting)) -> str:
    return made


def with_what_is_not_used(server):
    server.lifespan(lasting)
    server.tool(depending)
    server.method("acme/add")(lambda a: a)
    server.prompt(name="greet")(lambda: "hello")
    server.configuration = Configuration(exception_reporter=lambda error, info: None)


@pytest.mark.parametrize("era", CALLS)
@pytest.mark.parametrize("method", [b"tools/call", b"tools/unknown"])
def test_unused_features_run_no_code(era, method):
    bare = asyncio.run(calls_with(lambda server: None, era, method))
    assert asyncio.run(calls_with(with_what_is_not_used, era, method)) == bare


def returning_text(a: int, b: int) -> str:
    return str(a + b)


def returning_an_integer(a: int, b: int) -> int:
    return a + b


def returning_a_number(a: int, b: int) -> float:
    return float(a + b)


def returning_a_dict(a: int, b: int) -> dict:
    return {"sum": a + b}


@pytest.mark.parametrize("era", CALLS)
@pytest.mark.parametrize(
    "function", [returning_text, returning_an_integer, returning_a_number, returning_a_dict], ids=lambda it: it.__name__
)
def test_plain_arguments_and_results_are_not_looked_at_closely(function, era):
    async def measure():
        server, sent = Server(), []
        server.tool(name="add", inline=True)(function)
        connection = server.connect(sent.append)
        for id in range(3):
            connection.receive(CALLS[era] % id)
        passed = functions_passed(lambda: connection.receive(CALLS[era] % 3))
        connection.close()
        assert b'"isError"' not in sent[3]
        return passed

    passed = asyncio.run(measure())
    assert not {"Signature._bind_known", "Output._compare", "OutputSchema.misfit"} & set(passed)


HTTP_BODY = CALLS["stateless"].replace(b"%d", b"1").strip()
HTTP_HEADERS = [
    (b"host", b"127.0.0.1:8000"),
    (b"content-type", b"application/json"),
    (b"accept", b"application/json, text/event-stream"),
    (b"mcp-protocol-version", b"2026-07-28"),
    (b"mcp-method", b"tools/call"),
    (b"mcp-name", b"add"),
]


def test_inline_tool_over_http_needs_two_sends_and_no_task():
    async def measure():
        server, sent, tasks = Server(secret="a secret of sixteen", store=Memory()), [], []
        received = []

        @server.tool(inline=True)
        def add(a: int, b: int) -> str:
            return str(a + b)

        async def receive():
            received.append(HTTP_BODY)
            return {"type": "http.request", "body": HTTP_BODY}

        async def send(message):
            sent.append(message)

        async def ask():
            scope = {"type": "http", "method": "POST", "path": "/mcp", "headers": HTTP_HEADERS}
            await app({**scope, "server": ("127.0.0.1", 8000)}, receive, send)

        app = server.asgi()
        await ask()
        sent.clear()
        received.clear()
        asyncio.get_running_loop().set_task_factory(lambda loop, work: tasks.append(work))
        work = ask()
        next(iter(work.__await__()), None)
        asyncio.get_running_loop().set_task_factory(None)
        assert [message["type"] for message in sent] == ["http.response.start", "http.response.body"]
        assert b'"text":"3"' in sent[-1]["body"]
        assert len(received) == 1
        return tasks

    assert asyncio.run(measure()) == []
