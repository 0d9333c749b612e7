"""A prompt of a server: asked, and added to a conversation.

python examples/chat/prompts.py
"""

from model import SERVER, model

from dragoman import Chat, Client

with Client(SERVER) as client:
    for prompt in client.prompts():
        wanted = [f"{argument.name}{' (required)' if argument.required else ''}" for argument in prompt.arguments]
        print(f"- {prompt.name}: {prompt.description} {wanted}")

    packing = client.prompt("packing")
    chat = Chat(model("A coat and boots.", "For Lisbon, a hat."))
    print(chat.ask_prompt(packing, arguments={"city": "Oslo"}))

    chat.with_prompt(packing, arguments={"city": "Lisbon"})
    print(chat.ask("Only one thing, please."))
