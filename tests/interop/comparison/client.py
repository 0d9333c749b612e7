"""The client of one of the libraries that are compared; run in the environment of that library.

    python client.py LIBRARY URL_OF_A_SERVER_THAT_FORGETS COMMAND [ARGUMENT ...]

Each behaviour is one line of JSON: its name, and what came of every attempt, be it a failure.
"""

import asyncio
import json
import logging
import os
import signal
import sys
import traceback
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

LIBRARY, FORGETFUL, *COMMAND = sys.argv[1:]
DEADLINE = 120.0
PATIENCE = 3.0
ATTEMPTS = 3

logging.disable(logging.CRITICAL)


def client_of(target: str | list[str]) -> Any:
    """Return a client that is awaited, with nothing but defaults."""
    if LIBRARY == "dragoman":
        from dragoman import AsyncClient

        return AsyncClient(target)
    if LIBRARY == "mcp":
        from mcp import Client, StdioServerParameters

        return Client(target if isinstance(target, str) else StdioServerParameters(command=target[0], args=target[1:]))
    from fastmcp import Client
    from fastmcp.client.transports import StdioTransport

    return Client(target if isinstance(target, str) else StdioTransport(target[0], target[1:]))


async def read(client: Any, uri: str) -> str:
    """Return the text of a resource."""
    given = await client.read_resource(uri)
    contents = given if isinstance(given, list) else given.contents
    return str(contents[0].text)


async def listed(client: Any) -> str:
    """Return the names of the tools."""
    tools = await (client.tools() if LIBRARY == "dragoman" else client.list_tools())
    return " ".join(tool.name for tool in getattr(tools, "tools", tools))


def failure(raised: BaseException) -> str:
    return f"failed: {''.join(traceback.format_exception(raised))}"


async def came_of(attempt: Awaitable[str]) -> str:
    """Return what came of an attempt, before any block around it can change what is raised."""
    try:
        return await attempt
    except Exception as raised:
        return failure(raised)


async def read_after_the_session_is_forgotten() -> list[str]:
    async with client_of(FORGETFUL) as client:
        await read(client, "wire://forget")
        return [await came_of(read(client, "wire://pid")) for _ in range(ATTEMPTS)]


async def read_in_a_new_block() -> list[str]:
    async with client_of(FORGETFUL) as client:
        await read(client, "wire://forget")
    async with client_of(FORGETFUL) as client:
        return [await came_of(read(client, "wire://pid"))]


async def read_after_the_process_is_killed() -> list[str]:
    async with client_of(COMMAND) as client:
        os.kill(int(await read(client, "wire://pid")), signal.SIGKILL)
        return [await came_of(read(client, "wire://pid")) for _ in range(ATTEMPTS)]


async def list_with_a_malformed_tool() -> list[str]:
    async with client_of(COMMAND) as client:
        return [await came_of(listed(client))]


async def call_with_progress() -> list[str]:
    names = {"dragoman": ("timeout", "on_progress"), "mcp": ("read_timeout_seconds", "progress_callback")}
    patience, told = names.get(LIBRARY, ("timeout", "progress_handler"))

    async def heed(*_: Any) -> None:
        """Ask to be told."""

    async def call(client: Any) -> str:
        result = await client.call_tool("count", {}, **{patience: PATIENCE, told: heed})
        return str(result.content[0].text)

    async with client_of(COMMAND) as client:
        return [await came_of(call(client))]


async def close_in_another_task() -> list[str]:
    client = client_of(COMMAND)
    await asyncio.create_task(client.__aenter__())
    await asyncio.create_task(client.__aexit__(None, None, None))
    return ["closed"]


def use_without_awaiting() -> list[str]:
    if LIBRARY == "dragoman":
        from dragoman import Client
    elif LIBRARY == "mcp":
        from mcp import Client
    else:
        from fastmcp import Client
    with Client(FORGETFUL) as client:
        return [client.read_resource("wire://pid").contents[0].text]


def run(behaviour: Callable[[], Any]) -> list[str]:
    """Return what came of a behaviour, whatever it raised."""

    async def bounded() -> list[str]:
        async with asyncio.timeout(DEADLINE):
            return list(await behaviour())

    try:
        return asyncio.run(bounded()) if asyncio.iscoroutinefunction(behaviour) else list(behaviour())
    except BaseException as raised:  # what a library raises may be a group that is no Exception
        return [failure(raised)]


def reports() -> Iterator[dict[str, Any]]:
    for behaviour in (
        read_after_the_session_is_forgotten,
        read_in_a_new_block,
        read_after_the_process_is_killed,
        list_with_a_malformed_tool,
        call_with_progress,
        close_in_another_task,
        use_without_awaiting,
    ):
        yield {"behaviour": behaviour.__name__, "came": run(behaviour)}


if __name__ == "__main__":
    for report in reports():
        sys.stdout.write(json.dumps(report) + "\n")
        sys.stdout.flush()
