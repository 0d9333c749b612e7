"""The official Python client calls tools until its stdin ends: `python python_load.py NAME URL SESSIONS SECONDS`.

Each call has a number of its own, is sent once, and becomes one line of JSON: its number, its kind (`result`, `wrong`,
`error` or `hung`, which is one that has no outcome after SECONDS), and the words of the error. A session that failed
twice in a row is replaced. An attempt to begin a session that fails is a line too, of the kind `unconnected`.
"""

from __future__ import annotations

import asyncio
import json
import logging
import sys
import time
import warnings
from contextlib import suppress
from itertools import count
from typing import Any

import mcp_types
from mcp.client import Client
from mcp.shared.exceptions import MCPError

NAME, URL, SESSIONS, SECONDS = sys.argv[1], sys.argv[2], int(sys.argv[3]), float(sys.argv[4])
PAUSE = 0.1
THOUGHT = 0.3
LATER = 10 * SECONDS
numbers = count()
ending = asyncio.Event()


def tell(number: str | None, kind: str, began: float, words: str = "") -> None:
    line = {"number": number, "kind": kind, "seconds": time.monotonic() - began, "words": words}
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()


async def confirm(_: Any, params: Any) -> mcp_types.ElicitResult:
    number = params.message.removeprefix("Confirm ")
    await asyncio.sleep(THOUGHT)
    return mcp_types.ElicitResult(action="accept", content={"value": number})


async def call(client: Client, tool: str, number: str) -> bool:
    """Call a tool, tell what came of it, and return whether it was what is expected."""
    began = time.monotonic()
    try:
        async with asyncio.timeout(SECONDS):
            result = await client.call_tool(tool, {"number": number}, read_timeout_seconds=LATER)
    except TimeoutError:
        tell(number, "hung", began)
        return False
    except MCPError as error:
        tell(number, "error", began, f"{error.error.code} {error.error.message}")
        return False
    text = result.content[0].text
    if result.is_error:
        tell(number, "error", began, text)
        return False
    tell(number, "result" if text == number else "wrong", began, "" if text == number else text)
    return True


class Session:
    """One session, and its call that has no outcome yet: a connection that breaks can end the whole client."""

    def __init__(self) -> None:
        self.number: str | None = None
        self.began = time.monotonic()
        self.is_open = False

    async def run(self) -> None:
        client = Client(URL, mode="legacy", read_timeout_seconds=SECONDS, elicitation_callback=confirm)
        try:
            async with client:
                self.is_open = True
                await self.use(client)
        except Exception as error:
            if self.number is not None or not self.is_open:
                tell(self.number, "error" if self.is_open else "unconnected", self.began, words_of(error))
            await asyncio.sleep(PAUSE)

    async def use(self, client: Client) -> None:
        """Call one tool after the other, until the end or until two calls in a row fail."""
        failures = 0
        while not ending.is_set() and failures < 2:
            number = next(numbers)
            self.number, self.began = f"{NAME}-{number}", time.monotonic()
            is_good = await call(client, ("record", "confirm")[number % 2], self.number)
            self.number = None
            failures = 0 if is_good else failures + 1
            await asyncio.sleep(PAUSE)


def words_of(error: BaseException) -> str:
    """Return what an error says, or the first one of a group."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return f"{type(error).__name__}: {error}"


async def sessions() -> None:
    while not ending.is_set():
        await Session().run()


async def main() -> None:
    running = [asyncio.create_task(sessions()) for _ in range(SESSIONS)]
    await asyncio.to_thread(sys.stdin.read)
    ending.set()
    with suppress(TimeoutError):
        async with asyncio.timeout(2 * SECONDS):
            await asyncio.gather(*running)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    logging.disable()
    asyncio.run(main())
