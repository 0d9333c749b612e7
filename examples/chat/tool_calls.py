"""A model that uses the tools of a server.

python examples/chat/tool_calls.py
"""

from model import SERVER, model

from dragoman import Chat, Client
from dragoman.chat import ToolCall

MODEL = model(ToolCall("1", "forecast", {"city": "Oslo"}), "It will be 4 degrees in Oslo: wear a coat.")

with Client(SERVER) as client:
    for tool in client.tools():
        print(f"- {tool.name}: {tool.description}")

    chat = Chat(MODEL).with_tools(client)
    reply = chat.ask("What should I wear in Oslo?")
    print(reply)
    print("called:", [call.name for call in reply.tool_calls], "tokens:", reply.usage.total_tokens)

    # Without a model:
    print(client.call_tool("forecast", {"city": "Lisbon"}).structured)
