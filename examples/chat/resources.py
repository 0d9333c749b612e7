"""A resource that a model is shown.

python examples/chat/resources.py
"""

from model import SERVER, model

from dragoman import Chat, Client

with Client(SERVER) as client:
    for resource in client.resources():
        print(f"- {resource.name} ({resource.uri}): {resource.description}")

    cities = client.resource("cities")
    print("content:", cities.content())

    chat = Chat(model("We fly to Oslo, Lisbon and Osaka.")).with_resource(cities)
    print(chat.ask("Where can I fly to?"))
