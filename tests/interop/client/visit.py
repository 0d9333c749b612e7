"""One client on one server: what it is asked and told, and the recipes that show one feature each."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec

from dragoman import AsyncClient, Client, types

DEADLINE = 60.0
PAGE = "https://example.com/in"


class Unseen(Exception):
    """The feature did not show."""


class Told(list[Any]):
    """What came so far, and a way to wait for more."""

    def __init__(self) -> None:
        self._came = asyncio.Event()

    def take(self, thing: Any) -> None:
        self.append(thing)
        self._came.set()

    async def until(self, has: Callable[[list[Any]], bool]) -> None:
        """Wait until what came is as it should be."""
        try:
            async with asyncio.timeout(DEADLINE):
                while not has(self):
                    self._came.clear()
                    await self._came.wait()
        except TimeoutError:
            raise Unseen(f"after {DEADLINE:g} seconds only {list(self)!r} came") from None


class Visit:
    """A client, and what its server asked and told."""

    def __init__(self, target: Any, root: Path, **options: Any) -> None:
        self.target, self.root, self.options = target, root, options
        self.logs, self.updates, self.changes, self.asked = Told(), Told(), Told(), Told()
        self.answer: Any = {"sure": True}
        """What the user fills in."""
        self.client = AsyncClient(
            target,
            log_level="debug",
            on_log=self.logs.take,
            on_resource_updated=self.updates.take,
            on_list_changed=self.changes.take,
            on_sampling=self._think,
            on_elicitation=self._ask,
            roots=[root],
            tasks=True,
            **options,
        )

    def _think(self, request: Any) -> str:
        self.asked.take(request.messages[-1].content.text)
        return "forty-two"

    def _ask(self, request: Any) -> Any:
        self.asked.take(request.url or request.message)
        return True if request.mode == "url" else self.answer

    async def call(self, tool: str, **arguments: Any) -> str:
        """Return the text that a tool gives."""
        return (await self.client.call_tool(tool, arguments, timeout=DEADLINE)).text

    async def content(self, tool: str, **arguments: Any) -> Any:
        """Return the content that a tool gives, as it was sent."""
        return wire((await self.client.call_tool(tool, arguments, timeout=DEADLINE)).content)

    async def failure(self, request: Awaitable[Any]) -> tuple[str, str]:
        """Return what kind of error a request raises, and its text."""
        try:
            result = await request
        except Exception as error:
            return type(error).__name__, str(error)
        raise Unseen(f"there was no error but {result!r}")

    async def given_up(self, tool: str, **arguments: Any) -> None:
        """Cancel a call that has shown progress."""
        runs = asyncio.Event()
        call = asyncio.create_task(self.client.call_tool(tool, arguments, on_progress=lambda *_: runs.set()))
        waiting = asyncio.create_task(runs.wait())
        await asyncio.wait([call, waiting], timeout=DEADLINE, return_when=asyncio.FIRST_COMPLETED)
        waiting.cancel()
        if call.done():
            raise Unseen(f"the call has ended already: {call.exception() or call.result()!r}")
        call.cancel()
        await asyncio.wait([call], timeout=DEADLINE)
        if not call.cancelled():
            raise Unseen(f"the call was not cancelled: {call!r}")

    async def blocking(self, use: Callable[[Client], Any]) -> Any:
        """Return what somebody sees who uses a blocking client, with a connection of its own."""

        def visit() -> Any:
            given = {"on_elicitation": self._answer_at_once, "roots": [self.root], **self.options}
            with Client(self.target, **given) as client:
                return use(client)

        async with asyncio.timeout(DEADLINE):
            return await asyncio.to_thread(visit)

    def _answer_at_once(self, request: Any) -> Any:
        return self.answer


Step = Callable[[Visit], Awaitable[Any]]


class Recipes(dict[str, tuple[Step, Any]]):
    """How to show features of a server, and what is to be seen."""

    def shows(self, expected: Any) -> Callable[[Step], Step]:
        """Note a recipe under the name of its function; what is expected may be a function of server and version."""

        def note(step: Step) -> Step:
            self[step.__name__] = (step, expected)
            return step

        return note


def wire(sent: Any) -> Any:
    """Return something as the server sent it."""
    return msgspec.to_builtins(sent)


def some(listed: list[Any]) -> list[Any]:
    """Return a list that has something in it."""
    if not listed:
        raise Unseen("the list is empty")
    return listed


def names(listed: list[Any]) -> list[str]:
    return [entry.name for entry in some(listed)]


async def every_page(visit: Visit) -> list[types.ListToolsResult]:
    """Return every page of tools, asked for one by one."""
    pages = [await visit.client.list_tools()]
    while pages[-1].next_cursor is not None:
        pages.append(await visit.client.list_tools(pages[-1].next_cursor))
    return pages
