"""The same with the asynchronous client and chat.

python examples/chat/asynchronous.py
"""

import asyncio

from model import SERVER, model

from dragoman import AsyncChat, AsyncClient
from dragoman.chat import ToolCall


async def main() -> None:
    """Ask, and show the answer while it is written."""
    answers = model(ToolCall("1", "forecast", {"city": "Oslo"}), "Wear a coat in Oslo.", "An umbrella, too.")
    async with AsyncClient(SERVER) as client, AsyncChat(answers) as chat:
        chat.with_tools(client)
        print(await chat.ask("What should I wear in Oslo?"))
        async for chunk in chat.stream("And what else?"):
            print(chunk.text, end="", flush=True)
        print()


asyncio.run(main())
