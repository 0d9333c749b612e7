"""The work that a request must not cause: code of unused features, tasks, timers and writes."""

import asyncio

from dragoman import Server
from dragoman.stores import Memory

CALLS = {
    "handshake": b'{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"add","arguments":{"a":1,"b":2}}}\n',
    "stateless": b'{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"add","arguments":{"a":1,"b":2},'
    b'"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",'
    b'"io.modelcontextprotocol/clientCapabilities":{}}}}\n',
}


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
