"""A server with an app: a host shows `clock.html` for the results of the tool `show_time`, beside what the model reads.

python examples/clock.py
"""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Literal

from dragoman import Context, Server, ToolResult, apps

APP = "ui://clock/app.html"
HOURS = {"Oslo": 1, "Lisbon": 0, "Osaka": 9}

server = Server("clock", instructions="Show the time in a city.")
server.add_app(APP, Path(__file__).with_name("clock.html"), title="World clock", border=True)

City = Literal["Oslo", "Lisbon", "Osaka"]


@dataclass
class Time:
    """What a clock shows."""

    city: str
    time: str


def time_in(city: str) -> Time:
    now = datetime.now(UTC) + timedelta(hours=HOURS[city])
    return Time(city, f"{now:%H:%M:%S}")


@server.tool(ui=APP, annotations={"readOnlyHint": True})
async def show_time(city: City, ctx: Context) -> ToolResult:
    """Shows the time in a city."""
    found = time_in(city)
    text = f"It is {found.time} in {city}."  # every client gets the text, also one that shows no apps
    if apps.supported(ctx):
        text += " The user sees a clock."
    return ToolResult(text, structured=found)


@server.tool(ui=APP, ui_visibility=["app"], annotations={"readOnlyHint": True})
async def refresh(city: City) -> Time:
    """Reads the clock again; the button of the app calls it, and a model does not see it."""
    return time_in(city)


if __name__ == "__main__":
    server.run()
