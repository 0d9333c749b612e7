"""The lifespan of a server that is mounted in Starlette, in a real process under uvicorn."""

import subprocess
import sys
import textwrap

from ports import free_port

DEADLINE = 30
HOST = """
    import sys
    from contextlib import asynccontextmanager

    import uvicorn
    from starlette.applications import Starlette
    from starlette.routing import Mount

    from dragoman import Server

    async def opened():
        try:
            yield
        finally:
            print("closed", flush=True)

    mcp = Server("shop", lifespan=opened).asgi()

    @asynccontextmanager
    async def lifespan(app):
        await mcp.start()
        print("opened", flush=True)
        try:
            yield
        finally:
            await mcp.close()

    host = Starlette(routes=[Mount("/", mcp)], lifespan=lifespan)
    uvicorn.run(host, port=int(sys.argv[1]), log_level="warning")
"""


def test_host_lifespan_closes_the_server_on_sigterm(tmp_path):
    port = free_port()
    command = [sys.executable, "-c", textwrap.dedent(HOST), str(port)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=tmp_path) as host:
        assert host.stdout is not None
        assert host.stdout.readline() == "opened\n"
        host.terminate()
        assert host.communicate(timeout=DEADLINE)[0] == "closed\n"
