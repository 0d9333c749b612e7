"""A model that uses several servers, which a file names.

python examples/chat/servers.py
"""

import os
import sys
from pathlib import Path

from model import model

from dragoman import Chat, Clients
from dragoman.chat import ToolCall

CALLS = [ToolCall("1", "forecast", {"city": "Oslo"}), ToolCall("2", "notes__search", {"text": "umbrella"})]

os.environ.setdefault("EXAMPLE_PYTHON", sys.executable)
with Clients.from_config(Path(__file__).with_suffix(".json")) as clients:
    print("tools:", ", ".join(tool.qualified_name for tool in clients.tools()))
    chat = Chat(model(CALLS, "It is cold, and your umbrella is on the list.")).with_tools(clients)
    reply = chat.ask("Am I ready for Oslo?")
    for result in reply.tool_results:
        print(f"{result.call.name}: {result.text}")
    print(reply)
