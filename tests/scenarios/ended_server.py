"""A server whose tools use the context of a request that has ended: `keep` saves its context, and the others use it."""

import asyncio
import logging
import sys
import threading
import time
from typing import Any

from dragoman import BlockingContext, Context, Server

LATEST = 10.0
"""Asking on an ended request fails at once; this is a deadline for a busy machine, and less than the time-out."""
TIMEOUT = 30.0
ASKED = {
    "elicit": lambda ctx: ctx.elicit("Which city?", str, timeout=TIMEOUT),
    "sample": lambda ctx: ctx.sample("Write", timeout=TIMEOUT),
    "list_roots": lambda ctx: ctx.list_roots(timeout=TIMEOUT),
    "step": lambda ctx: ctx.step("late", lambda: 1),
    "begin": lambda ctx: ctx.task.begin(),
}


def build() -> Server:
    """Return the server; the saved contexts belong to it."""
    server = Server("ended", secret="a secret of sixteen")
    kept: dict[str, Any] = {}

    @server.tool
    async def keep(ctx: Context) -> str:
        kept["async"] = ctx
        return "kept"

    @server.tool
    def keep_blocking(ctx: BlockingContext) -> str:
        kept["def"] = ctx
        return "kept"

    @server.tool
    async def ask_late(what: str) -> str:
        started = time.monotonic()
        try:
            async with asyncio.timeout(LATEST):
                await ASKED[what](kept["async"])
        except Exception as error:
            return f"{type(error).__name__}: {error}"
        return f"answered after {time.monotonic() - started} s"

    @server.tool
    def ask_late_blocking(what: str) -> str:
        outcomes: list[str] = []

        def ask() -> None:
            try:
                outcomes.append(str(ASKED[what](kept["def"])))
            except Exception as error:
                outcomes.append(f"{type(error).__name__}: {error}")

        thread = threading.Thread(target=ask, daemon=True)
        thread.start()
        thread.join(LATEST)
        return outcomes[0] if outcomes else "still waits"

    @server.tool
    async def report_late() -> str:
        for number in range(3):
            await kept["async"].report_progress(10 + number)
            await kept["async"].warning("late")
        return "reported"

    @server.tool
    def report_late_blocking() -> str:
        for number in range(3):
            kept["def"].report_progress(10 + number)
            kept["def"].warning("late")
        return "reported"

    return server


if __name__ == "__main__":
    logging.basicConfig(filename=sys.argv[1], format="%(message)s")
    build().run()
