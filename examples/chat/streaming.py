"""An answer that is shown while it is written, with the tools that are used for it.

python examples/chat/streaming.py
"""

from model import SERVER, model

from dragoman import Chat, Client
from dragoman.chat import ToolCall

CALLS = [ToolCall("1", "forecast", {"city": "Oslo"}), ToolCall("2", "forecast", {"city": "Lisbon"})]

with Client(SERVER) as client:
    chat = Chat(model(CALLS, "Oslo is cold, Lisbon is warm.")).with_tools(client)
    for chunk in chat.stream("Oslo or Lisbon?"):
        for call in chunk.tool_calls:
            print(f"[uses {call.name} with {call.arguments}]")
        for result in chunk.tool_results:
            print(f"[got {result.text}]")
        print(chunk.text, end="", flush=True)
    print()
