"""How many functions a request passes through, which unlike the time that it takes is the same on every machine."""

import asyncio
import sys

import pytest

from dragoman import Server

MARGIN = 4
MEASURED = {"handshake": 59, "stateless": 63}
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
    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(before)
    return passed


@pytest.mark.parametrize("era", CALLS)
def test_calling_an_inline_tool_passes_few_functions(era):
    async def measure():
        server, sent = Server(), []

        @server.tool(inline=True)
        def add(a: int, b: int) -> str:
            return str(a + b)

        connection = server.connect(sent.append)
        for id in range(3):
            connection.receive(CALLS[era] % id)
        passed = functions_passed(lambda: connection.receive(CALLS[era] % 3))
        assert len(sent) == 4
        assert b'"text":"3"' in sent[3]
        connection.close()
        return passed

    passed = asyncio.run(measure())
    assert len(passed) <= MEASURED[era] + MARGIN, passed
    assert not [name for name in passed if "observed" in name or "chained" in name]
    assert passed.count("Server.settings") <= 4
