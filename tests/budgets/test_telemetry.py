"""The modules that telemetry loads, counted in fresh interpreters."""

from budgets.test_imports import modules_after

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


def test_calls_load_nothing_of_opentelemetry_and_nothing_that_uses_it():
    loaded = modules_after(SERVE)
    assert "dragoman.telemetry" in loaded
    assert not [name for name in loaded if name.startswith("opentelemetry")]
    assert not loaded & {"dragoman.telemetry.recorder", "dragoman.server.dispatch.audit"}
