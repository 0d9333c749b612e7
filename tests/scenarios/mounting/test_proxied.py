"""A proxy is mounted like any other server: what the target has is served under the prefix."""

import asyncio
import sys
from pathlib import Path

import pytest

from dragoman import InvalidParams, Server
from dragoman.testing import connected
from scenarios import mounted_servers
from scenarios.mounted_servers import shop, weather

pytestmark = pytest.mark.skipif(not hasattr(Server, "proxy"), reason="this build has no proxies")
DEADLINE = 20


@pytest.mark.parametrize("era", ["handshake", "stateless"])
@pytest.mark.parametrize("target", ["memory", "stdio"])
async def test_what_is_behind_a_proxy_is_served_under_the_prefix(target, era):
    program = Path(mounted_servers.__file__)
    # The program has the weather mounted already, so its names have two prefixes.
    name, path = ("weather_", "weather/") if target == "stdio" else ("", "")
    given = weather() if target == "memory" else [sys.executable, str(program)]
    environment = {"PYTHONPATH": str(program.parents[1])} if target == "stdio" else None
    outer = shop()
    outer.mount(Server.proxy(given, env=environment), prefix="far")
    heard: asyncio.Queue[str] = asyncio.Queue()
    async with connected(outer, era, on_elicitation=lambda request: {"value": "x"}) as client:
        assert {"buy", f"far_{name}forecast"} <= {tool.name for tool in await client.tools()}
        assert (await client.call_tool(f"far_{name}forecast", {"city": "Rome"})).text == "Sunny in Rome"
        assert (await client.call_tool(f"far_{name}ask")).text == "x on x"
        assert (await client.call_tool(f"far_{name}links")).content[0].uri == f"data://far/{path}cities"
        assert (await client.read_resource(f"data://far/{path}cities")).contents[0].text == "Oslo, Rome"
        await client.subscribe(f"data://far/{path}cities", heard.put_nowait)
        await client.call_tool(f"far_{name}touch")
        assert await asyncio.wait_for(heard.get(), DEADLINE) == f"data://far/{path}cities"
        with pytest.raises(InvalidParams, match="Unknown tool"):
            await client.call_tool("far_nothing")
