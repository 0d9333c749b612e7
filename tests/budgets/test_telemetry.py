"""What telemetry costs, counted in functions and modules, in fresh interpreters."""

import pytest

from budgets.test_imports import in_fresh_interpreter, modules_after

SERVE = """
import asyncio
from dragoman import AsyncClient, Server
server = Server()
@server.tool(inline=True)
def add(a: int, b: int) -> str:
    return str(a + b)
async def main():
    for mode in ("handshake", "stateless"):
        async with AsyncClient(server, mode=mode) as mcp:
            assert (await mcp.call_tool("add", {"a": 1, "b": 2})).text == "3"
asyncio.run(main())
"""
COUNT = """
import asyncio, gc, sys
from dragoman import Server
{install}
CALL = b'{{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{{"name":"add","arguments":{{"a":1,"b":2}}}}}}\\n'
server, sent, passed = Server(), [], []
@server.tool(inline=True)
def add(a: int, b: int) -> str:
    return str(a + b)
def note(frame, event, _):
    if event == "call" and "dragoman" in frame.f_code.co_filename:
        passed.append(frame.f_code.co_qualname)
async def main():
    connection = server.connect(sent.append)
    for id in range(4):
        await asyncio.sleep(0)
        passed.clear()
        gc.disable()
        sys.setprofile(note)
        connection.receive(CALL % id)
        sys.setprofile(None)
    connection.close()
    assert b'"3"' in sent[-1]
asyncio.run(main())
print(len(passed))
"""
INSTALLED = {
    "absent": "",
    "api": "import opentelemetry.trace, opentelemetry.propagate",
    "provider": "from opentelemetry import trace\nfrom opentelemetry.sdk.trace import TracerProvider\n"
    "trace.set_tracer_provider(TracerProvider())",
}
MEASURED = {"absent": 24, "api": 27, "provider": 55}
MARGIN = 2


def test_calls_load_nothing_of_opentelemetry_and_nothing_that_uses_it():
    loaded = modules_after(SERVE)
    assert "dragoman.telemetry" in loaded
    assert not [name for name in loaded if name.startswith("opentelemetry")]
    assert not loaded & {"dragoman.telemetry.recorder", "dragoman.server.dispatch.audit"}


@pytest.mark.parametrize("installed", INSTALLED)
def test_a_call_passes_few_functions_of_ours_for_telemetry(installed):
    counted = int(in_fresh_interpreter(COUNT.format(install=INSTALLED[installed])))
    assert counted <= MEASURED[installed] + MARGIN
