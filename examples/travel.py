"""A travel agency: a server that uses everything a server can do.

python examples/travel.py               # over stdin and stdout
python examples/travel.py --http 8000   # over HTTP, at http://127.0.0.1:8000/mcp
"""

import asyncio
import sys
from dataclasses import dataclass
from typing import Literal

from dragoman import Context, Server, ToolError

server = Server("travel", version="1.0", instructions="Ask for one city at a time.")

CITIES = {"Oslo": 4.0, "Lisbon": 21.5, "Osaka": 16.0}


@dataclass
class Forecast:
    """What the weather will be."""

    city: str
    celsius: float


@dataclass
class Trip:
    """What a traveller has to decide."""

    nights: int = 2
    comfort: Literal["simple", "fancy"] = "simple"


@server.tool(annotations={"readOnlyHint": True})
async def forecast(city: str) -> Forecast:
    """Weather for a city.

    Args:
        city: Where.
    """
    if city not in CITIES:
        raise ToolError(f"There is no forecast for {city}; try {', '.join(CITIES)}")
    return Forecast(city, CITIES[city])


@server.tool
async def search(city: str, ctx: Context) -> list[str]:
    """Looks for hotels, and says how far it is."""
    for done in range(1, 6):
        await asyncio.sleep(0.1)
        await ctx.report_progress(done, total=5, message=f"asked hotel {done} of 5")
    return [f"Hotel {city}", f"{city} Palace"]


@server.tool
async def book(city: str, ctx: Context) -> str:
    """Books a trip, after asking the traveller."""
    answer = await ctx.elicit(f"How shall it be in {city}?", Trip)
    if not answer.accepted:
        return "Nothing was booked."
    return f"Booked {answer.content.nights} {answer.content.comfort} nights in {city}."


@server.tool
async def postcard(city: str, ctx: Context) -> str:
    """Writes a postcard, with the words of the traveller's own model."""
    answer = await ctx.sample(f"Write one line from {city}.", max_tokens=50)
    return f"Dear all, {answer.text}"


@server.resource("cities://all", mime_type="application/json")
def cities() -> list[str]:
    """Every city that we know."""
    return list(CITIES)


@server.resource("guide://{city}")
def guide(city: str) -> str:
    """What to see in a city."""
    return f"{city}: see the harbour."


@server.prompt
def packing(city: str) -> str:
    """Asks what to pack."""
    return f"What should I pack for {city}?"


@packing.complete("city")
def complete_city(value: str) -> list[str]:
    return [city for city in CITIES if city.lower().startswith(value.lower())]


if __name__ == "__main__":
    if "--http" in sys.argv:
        server.run("http", port=int(sys.argv[sys.argv.index("--http") + 1]))
    else:
        server.run()
