"""The user of the servers on other hosts: `python hosts_client.py HOST:PORT HOST:PORT CUTTING COMMAND...`.

Prints one JSON object: what came of 12 sessions, of their questions, and of streams that were cut.
"""

import asyncio
import json
import subprocess
import sys
import time

from dragoman import AsyncClient
from dragoman.errors import DragomanError
from faults.stores.balancing import Balancer

SESSIONS = 12
SECONDS = 60


def agree(_):
    return {"value": True}


async def sessions(url, balancer):
    async def one(number):
        async with AsyncClient(url, mode="handshake", on_elicitation=agree) as client:
            before = len(balancer.served)
            result = await client.call_tool("order", {"number": number})
            mine = balancer.served[before:]
            called = [host for host, _, body in mine if b'"tools/call"' in body]
            answered = [host for host, _, body in mine if b'"result"' in body]
            return result.text == f"{number} True", bool(answered) and called[0] != answered[0]

    outcomes = [await one(number) for number in range(SESSIONS)]
    return {"sessions": sum(done for done, _ in outcomes), "answered_elsewhere": sum(away for _, away in outcomes)}


async def cut_stream(url, balancer, cut):
    """Break the stream of a running call, and return what the call gives and how long it takes from there."""
    async with AsyncClient(url, mode="handshake") as client:
        heard = asyncio.Event()
        call = asyncio.create_task(client.call_tool("count", {"to": 10}, on_progress=lambda *_: heard.set()))
        await asyncio.wait_for(heard.wait(), SECONDS)
        host = next(host for host, _, body in reversed(balancer.served) if b'"count"' in body)
        cut(host)
        began = time.monotonic()
        try:
            outcome = (await call).text
        except DragomanError as error:
            outcome = f"{type(error).__name__}: {error}"
        return {"outcome": outcome, "seconds": time.monotonic() - began, "resumed": resumed(balancer, host)}


def resumed(balancer, host):
    """Tell whether a GET went to another host."""
    return any(method == "GET" and served_by != host for served_by, method, _ in balancer.served)


async def main(first, second, *cutting):
    balancer = Balancer(*((host, int(port)) for host, port in (one.split(":") for one in (first, second))))
    listening = await balancer.listen()
    url = f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}/mcp"

    def cut_host(host):
        subprocess.run([word.replace("HOST", host) for word in cutting], check=True, timeout=10)
        balancer.out.add(host)
        balancer.cut(host)

    async with asyncio.timeout(SECONDS):
        found = await sessions(url, balancer)
        balancer.served.clear()
        found["cut_stream"] = await cut_stream(url, balancer, balancer.cut)
        balancer.served.clear()
        found["cut_host"] = await cut_stream(url, balancer, cut_host)
        async with AsyncClient(url, mode="handshake", on_elicitation=agree) as client:
            found["afterwards"] = (await client.call_tool("order", {"number": 1})).text
    sys.stdout.write(json.dumps(found))


asyncio.run(main(*sys.argv[1:]))
