"""A server that talks while it serves: it tells of progress and changes, and asks the client."""

from __future__ import annotations

import os
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from marks import SECONDS, marks

from dragoman import BlockingContext, Context, Elicit, InputRequired, ListRoots, Sample, Server

server = Server("conversing")


# A client may drop progress that comes together with the result, so the result waits until the client has seen it.
_seen = marks()


@server.tool
async def count(to: int, key: str, ctx: Context) -> str:
    """Says how far it has come."""
    for number in range(1, to + 1):
        await ctx.report_progress(number, total=to, message=f"step {number}")
    return str(await _seen[key].wait())


@server.tool
def count_blocking(to: int, key: str, ctx: BlockingContext) -> str:
    """Says how far it has come, from a worker thread."""
    for number in range(1, to + 1):
        ctx.report_progress(number, total=to)
    return str(_seen[key].is_set(SECONDS))


@server.tool
async def go_on(key: str) -> str:
    """Lets the call with a key end."""
    _seen[key].set()
    return "goes on"


@server.tool
async def chatter(ctx: Context) -> str:
    """Logs at three levels."""
    await ctx.debug("unheard")
    await ctx.info("first", logger="interop")
    await ctx.warning({"second": [2]})
    return "said"


@dataclass
class Confirmation:
    """What the user fills in."""

    sure: bool
    seats: int = 1


@server.tool
async def book(city: str, ctx: Context) -> str:
    """Asks the user."""
    answer = await ctx.elicit(f"Really {city}?", Confirmation)
    return f"{answer.action} {answer.content if answer.accepted else None}"


@server.tool
def book_blocking(city: str, ctx: BlockingContext) -> str:
    """Asks the user, from a worker thread."""
    answer = ctx.elicit(f"Really {city}?", Confirmation)
    return f"{answer.action} {answer.content if answer.accepted else None}"


@server.tool
async def summarise(text: str, ctx: Context) -> str:
    """Asks the client's model."""
    answer = await ctx.sample(f"Summarise: {text}", max_tokens=50, system_prompt="Be brief")
    return f"{answer.model}: {answer.text}"


@server.tool
async def folders(ctx: Context) -> str:
    """Asks for the client's roots."""
    return ", ".join(f"{root.name} at {root.uri}" for root in await ctx.list_roots())


@server.tool
async def several(ctx: Context) -> str:
    """Asks three questions at once, and then one more."""
    answers = await ctx.ask(
        where=Elicit("Really Oslo?", Confirmation), summary=Sample("Summarise: it"), roots=ListRoots()
    )
    again = await ctx.elicit("Really Bergen?", Confirmation)
    return f"{answers['where'].content} {answers['summary'].text} {len(answers['roots'])} {again.action}"


@server.tool
async def explicit(ctx: Context) -> str | InputRequired:
    """Returns its question, and reads the answer when it is called again."""
    if "where" not in ctx.inputs:
        return InputRequired({"where": Elicit("Really Oslo?", Confirmation)}, state={"asked": 1})
    return f"{ctx.state} {ctx.inputs['where']['action']}"


@server.prompt
async def asking_prompt(ctx: Context) -> str:
    """Asks before it is rendered."""
    return f"Write to {(await ctx.elicit('Really Oslo?', Confirmation)).content}"


@server.resource("asking://resource")
async def asking_resource(ctx: Context) -> str:
    """Asks before it is read."""
    return str((await ctx.elicit("Really Bergen?", Confirmation)).action)


_told = marks()


def grown() -> str:
    """Came later."""
    return "here"


@server.middleware
async def know_what_was_added(ctx: Context, call_next: Callable[[], Awaitable[object]]) -> object:
    """Add the tool to every process: which tools there are is the author's to share, that they changed is ours."""
    if _told["grown"].is_set() and "grown" not in server.registry.tools:
        server.add_tool(grown)
    return await call_next()


@server.tool
async def grow() -> str:
    """Adds a tool and says so."""
    _told["grown"].set()
    server.notify_tools_list_changed()
    return "grew"


@server.tool(inline=True)
def pid() -> str:
    """Says which process serves it, and keeps that from taking every connection at once."""
    time.sleep(0.005)
    return str(os.getpid())


@server.tool
async def touch(uri: str) -> str:
    """Says that a resource changed."""
    server.notify_resource_updated(uri)
    return f"touched {uri}"


@server.on_subscribe
def follow(uri: str) -> None:
    """Let clients follow resources."""


_ended = marks()


@server.tool
async def ask_in_vain(key: str, ctx: Context) -> str:
    """Asks what is never answered."""
    try:
        await ctx.elicit("Wait", Confirmation)
    finally:
        _ended[key].set()
    return "never"


@server.tool
async def released(key: str) -> str:
    """Waits until the call with a key was cancelled."""
    await _ended[key].wait()
    return f"{key} was cancelled"
