"""Two servers in one: the weather is mounted in a server for travellers.

python examples/mounted.py
"""

import asyncio

from dragoman import AsyncClient, Context, Server

weather = Server("weather", instructions="Ask for one city at a time.")


@weather.tool
async def forecast(city: str, ctx: Context) -> str:
    """Says what the weather will be."""
    day = await ctx.elicit("For which day?", str)
    return f"Sunny in {city} on {day.content}"


@weather.resource("data://stations/{city}")
def stations(city: str) -> str:
    """The stations of a city."""
    return f"{city} has 12 stations"


travel = Server("travel")
travel.mount(weather, prefix="weather")


@travel.tool
def trains(city: str) -> str:
    """Lists the trains to a city."""
    return f"A train to {city} leaves at 9:00"


async def main() -> None:
    """Use the server for travellers as a client does."""
    async with AsyncClient(travel, on_elicitation=lambda _: {"value": "Monday"}) as client:
        print("Tools:", ", ".join(tool.name for tool in await client.tools()))
        print((await client.call_tool("weather_forecast", {"city": "Oslo"})).text)
        print((await client.read_resource("data://weather/stations/Oslo")).contents[0].text)


if __name__ == "__main__":
    asyncio.run(main())
