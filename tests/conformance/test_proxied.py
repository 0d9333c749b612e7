"""The official suite says the same of a server directly and through a proxy: of ours, and of servers of others."""

import asyncio
import json
import os
import sys
from contextlib import AsyncExitStack, asynccontextmanager

import pytest

from conformance.run import COUNTED, HERE, free_port, node, run_suite, wait_for, written_checks

pytestmark = pytest.mark.e2e
HANDSHAKE = ("2025-06-18", "2025-11-25")
BOTH = (*HANDSHAKE, "2026-07-28")
EVERYTHING = HERE.parent / "interop/node_modules/@modelcontextprotocol/server-everything/dist/index.js"
AT_ONCE = 3
PROXY = """
import json, sys
from dragoman import Server
Server.proxy(json.loads(sys.argv[1])).run("http", host="localhost", port=int(sys.argv[2]))
"""
OF_ONE_CONNECTION = {
    "server-sse-polling": "the server closes the stream of a response, and a proxy has streams of its own",
    "server-sse-multiple-streams": "each HTTP server decides which of its responses are streams",
    "server-session-lifecycle": "a proxy has sessions of its own, also in front of a server without sessions",
    "server-session-id-visible-ascii": "a proxy has sessions of its own, also in front of a server without sessions",
    "dns-rebinding-protection": "a proxy checks the headers Host and Origin by itself",
}
"""Scenarios and checks about one HTTP connection, which a proxy has of its own, and why they are not compared."""


@asynccontextmanager
async def running(*command, port, folder):
    environment = {**os.environ, "XDG_STATE_HOME": str(folder), "PORT": str(port)}
    silent = asyncio.subprocess.DEVNULL
    process = await asyncio.create_subprocess_exec(*map(str, command), env=environment, stdout=silent, stderr=silent)
    try:
        await wait_for(port)
        yield f"http://localhost:{port}/mcp"
    finally:
        process.terminate()
        await process.wait()


def serving(target, folder):
    """Run a server over HTTP; the value is its URL."""
    port = free_port()
    commands = {
        "dragoman": (sys.executable, HERE / "server.py", "--port", port),
        "typescript": (node(), HERE / "typescript_server.mjs"),
        "everything": (node(), EVERYTHING, "streamableHttp"),
    }
    return running(*commands[target], port=port, folder=folder)


@asynccontextmanager
async def proxying(target, folder):
    """Run a proxy in front of a server; the value is the URL of the proxy."""
    async with AsyncExitStack() as stack:
        if target == "everything on stdio":
            reached = [node(), str(EVERYTHING), "stdio"]
        else:
            reached = await stack.enter_async_context(serving(target, folder))
        port = free_port()
        command = (sys.executable, "-c", PROXY, json.dumps(reached), port)
        yield await stack.enter_async_context(running(*command, port=port, folder=folder))


async def examined(place, versions, folder):
    """Return the verdict of each check of each scenario, by version."""
    found = {}
    async with place as url:
        for version in versions:
            out = folder / version
            arguments = ("--url", url, "--suite", "all", "--spec-version", version, "-o", str(out))
            await run_suite("server", *arguments)
            found[version] = {
                scenario: {(check["id"], check["status"]) for check in checks if is_compared(check)}
                for scenario, checks in written_checks(out)
                if scenario not in OF_ONE_CONNECTION
            }
    return found


def is_compared(check):
    return check["status"] in COUNTED and check["id"] not in OF_ONE_CONNECTION


@pytest.fixture(scope="module")
def verdicts(tmp_path_factory):
    """The verdicts of every examination, several at once, because the suite mostly waits."""
    folder = tmp_path_factory.mktemp("proxied")
    direct = {"dragoman": BOTH, "typescript": BOTH, "everything": HANDSHAKE}
    places = [(name, "direct", serving, versions) for name, versions in direct.items()]
    places += [(name, "proxied", proxying, versions) for name, versions in direct.items()]
    places.append(("everything on stdio", "proxied", proxying, HANDSHAKE))

    async def examine_all():
        room = asyncio.Semaphore(AT_ONCE)

        async def examine(name, way, place, versions):
            own = folder / f"{name} {way}"
            async with room:
                return await examined(place(name, own / "state"), versions, own)

        found = await asyncio.gather(*(examine(*one) for one in places))
        return {(name, way): one for (name, way, *_), one in zip(places, found, strict=True)}

    return asyncio.run(examine_all())


CASES = [
    *(("dragoman", "dragoman", version) for version in BOTH),
    *(("typescript", "typescript", version) for version in BOTH),
    *(("everything", "everything", version) for version in HANDSHAKE),
    *(("everything on stdio", "everything", version) for version in HANDSHAKE),
]


@pytest.mark.parametrize(("target", "compared", "version"), CASES)
def test_the_suite_has_the_same_verdict_through_a_proxy(verdicts, target, compared, version):
    direct, proxied = verdicts[compared, "direct"][version], verdicts[target, "proxied"][version]
    assert len(direct) > 20
    assert sum(status == "SUCCESS" for checks in direct.values() for _, status in checks) > 20
    assert proxied.keys() == direct.keys()
    assert {name: proxied[name] ^ direct[name] for name in direct if proxied[name] != direct[name]} == {}
