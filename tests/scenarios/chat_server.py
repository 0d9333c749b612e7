"""A server for chats, to be run: `python chat_server.py` over stdio, with `http PORT` over HTTP."""

import asyncio
import os
import signal
import sys
import threading
from dataclasses import dataclass

from dragoman import Context, Image, Server, ToolError, types

PIXEL = b"\x89PNG not much of an image"


@dataclass
class Weather:
    city: str
    celsius: float


class Town:
    """A server with tools of every kind, and what was seen of them."""

    def __init__(self, name: str = "town") -> None:
        self.called: list[str] = []
        self.met: list[str] = []
        self.started = threading.Event()
        self.given_up = threading.Event()
        self._everybody = asyncio.Event()
        self.server = Server(name)
        self._add_tools()
        self._add_slow_tools()
        self._add_the_rest()

    def _add_tools(self) -> None:
        server = self.server

        @server.tool(annotations={"readOnlyHint": True})
        def weather(city: str) -> Weather:
            """Weather for a city."""
            self.called.append(city)
            return Weather(city, 4.0)

        @server.tool(annotations={"destructiveHint": True})
        def demolish(house: str, floors: list[int] | None = None) -> str:
            """Tears a house down."""
            self.called.append(f"{house} {floors}")
            return f"{house} is gone"

        @server.tool
        def fail(reason: str) -> str:
            """Fails."""
            raise ToolError(reason)

        @server.tool
        def picture() -> list[object]:
            """A picture of the town."""
            return ["The town,", "from above:", Image(PIXEL, "image/png")]

        @server.tool
        def read() -> list[object]:
            """What the library has."""
            contents = types.ResourceContents(uri="book:///1", text="Once upon a time", mime_type="text/plain")
            return [
                types.EmbeddedResource(resource=contents),
                types.ResourceLink(uri="book:///2", name="second", description="The second book"),
            ]

        @server.tool
        def archive(size: int) -> str:
            """Much text."""
            return "a" * size + "z"

    def _add_slow_tools(self) -> None:
        server = self.server

        @server.tool
        async def meet(name: str, others: int) -> str:
            """Waits until others have come."""
            self.met.append(name)
            if len(self.met) > others:
                self._everybody.set()
            await self._everybody.wait()
            return f"{name} met {others}"

        @server.tool
        async def wait(ctx: Context) -> str:
            """Waits until it is given up."""
            await ctx.report_progress(1)
            self.started.set()
            try:
                await asyncio.Event().wait()
            finally:
                self.given_up.set()
            return "never"

        @server.tool
        def die() -> str:
            """Ends the server as an accident would."""
            os.kill(os.getpid(), signal.SIGKILL)
            return "never"

        @server.tool
        async def write(topic: str, ctx: Context) -> str:
            """Lets the client's model write something."""
            answer = await ctx.sample(topic, system_prompt="Rhyme.", max_tokens=7, temperature=0.25)
            return f"{answer.model} wrote {answer.text}"

        @server.tool
        def build(name: str) -> str:
            """Adds a tool to the town."""
            server.tool(lambda: f"in {name}", name=name, description="New in town.")
            server.notify_tools_list_changed()
            return "built"

    def _add_the_rest(self) -> None:
        server = self.server

        @server.resource("town://charter", name="charter", mime_type="text/plain")
        def charter() -> str:
            """The law of the town."""
            return "All may enter."

        @server.resource("town://seal", name="seal", mime_type="image/png")
        def seal() -> bytes:
            return PIXEL

        @server.resource("street://{name}/{number}", name="house")
        def house(name: str, number: int) -> str:
            """Who lives there."""
            return f"Jo lives at {name} {number}"

        @house.complete("name")
        def streets(value: str) -> list[str]:
            return [street for street in ("Main", "Market") if street.startswith(value)]

        @server.prompt
        def greet(name: str) -> list[object]:
            """Greets somebody."""
            return [
                {"role": "user", "content": {"type": "text", "text": f"I am {name}."}},
                {"role": "assistant", "content": {"type": "text", "text": "Welcome!"}},
                {"role": "user", "content": {"type": "text", "text": "Now greet me properly."}},
            ]

        @greet.complete("name")
        def names(value: str) -> list[str]:
            return [name for name in ("Jo", "Joan", "Ann") if name.startswith(value)]


if __name__ == "__main__":
    town = Town()
    if sys.argv[1:2] == ["http"]:
        town.server.run("http", port=int(sys.argv[2]))
    else:
        town.server.run()
