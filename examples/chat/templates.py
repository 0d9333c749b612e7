"""A resource template: filled in, completed, and shown to a model.

python examples/chat/templates.py
"""

from model import SERVER, model

from dragoman import Chat, Client

with Client(SERVER) as client:
    guide = client.resource_template("guide")
    print("content:", guide.fetch(city="Oslo"))
    print("suggestions:", client.prompt("packing").complete("city", "os").values)

    chat = Chat(model("Go to the harbour.")).with_resource_template(guide, arguments={"city": "Oslo"})
    print(chat.ask("What should I see in Oslo?"))
