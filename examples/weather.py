"""A server of one tool, one prompt and one resource.

python examples/weather.py
"""

from dataclasses import dataclass

from dragoman import Server, ToolError

server = Server("weather", version="1.0", instructions="Ask for one city at a time.")

CELSIUS = {"Oslo": 4.0, "Lisbon": 21.5}


@dataclass
class Forecast:
    """What the weather will be."""

    city: str
    celsius: float


@server.tool(annotations={"readOnlyHint": True})
async def forecast(city: str) -> Forecast:
    """Weather for a city.

    Args:
        city: Where.
    """
    if city not in CELSIUS:
        raise ToolError(f"There is no forecast for {city}; try {' or '.join(CELSIUS)}")
    return Forecast(city, CELSIUS[city])


@server.prompt
def packing(city: str) -> str:
    """Asks what to pack."""
    return f"What should I pack for {city}?"


@server.resource("cities://all", mime_type="application/json")
def cities() -> list[str]:
    """Every city with a forecast."""
    return list(CELSIUS)


if __name__ == "__main__":
    server.run()
