"""Folders that a server may know of, while a model uses the server.

python examples/chat/roots.py
"""

import tempfile

from model import model

from dragoman import Chat, Client, Context, Server
from dragoman.chat import ToolCall

server = Server("folders")


@server.tool
async def folders(ctx: Context) -> list[str]:
    """Which folders the user shares."""
    return [root.name or root.uri for root in await ctx.list_roots()]


with tempfile.TemporaryDirectory(prefix="photos-") as photos, Client(server, roots=["."]) as client:
    print("paths:", len(client.roots.paths))
    client.roots.add(photos)
    chat = Chat(model(ToolCall("1", "folders", {}), "You share two folders.")).with_tools(client)
    reply = chat.ask("What do I share?")
    print(reply, len(reply.tool_results[0].result.structured if reply.tool_results[0].result else []))
    client.roots.remove(photos)
    print("paths:", len(client.roots.paths))
