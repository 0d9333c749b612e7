"""A server that asks the model of the chat, and a guard that decides what may be asked.

python examples/chat/sampling.py
"""

from model import SERVER, model

from dragoman import Chat, Client, DragomanError
from dragoman.client import SamplingRequest


def guard(request: SamplingRequest) -> bool:
    """Let the server ask only about Oslo."""
    return "Oslo" in request.message


chat = Chat(model("the fjord is blue."))
with Client(SERVER, on_sampling=chat.sampler(guard=guard)) as client:
    print(client.call_tool("postcard", {"city": "Oslo"}).text)
    try:
        client.call_tool("postcard", {"city": "Lisbon"})
    except DragomanError as error:
        print("refused:", error)
    print("tokens:", chat.usage.total_tokens)
