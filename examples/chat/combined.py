"""Instructions, tools, resources and a prompt in one conversation.

python examples/chat/combined.py
"""

from model import SERVER, model

from dragoman import Chat, Client
from dragoman.chat import ToolCall

MODEL = model(ToolCall("1", "forecast", {"city": "Osaka"}), "16 degrees, so a jacket; and see the harbour.")

with Client(SERVER) as client:
    chat = Chat(MODEL).with_instructions("You are a travel agent. Be brief.").with_tools(client)
    chat.with_resource(client.resource("cities"))
    chat.with_resource(client.resource_template("guide"), arguments={"city": "Osaka"})
    chat.with_prompt(client.prompt("packing"), arguments={"city": "Osaka"})
    print(chat.ask("Take the weather into account."))
    print([message.role for message in chat.messages])
