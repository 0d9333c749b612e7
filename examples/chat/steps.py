"""A conversation that the program leads step by step.

python examples/chat/steps.py
"""

from model import SERVER, model

from dragoman import Chat, Client
from dragoman.chat import Policy, ToolCall

CALLS = [ToolCall("1", "forecast", {"city": "Oslo"}), ToolCall("2", "search", {"city": "Oslo"})]

with Client(SERVER) as client:
    chat = Chat(model(CALLS, "4 degrees; I did not look for hotels."), policy=Policy(ask=["*"])).with_tools(client)
    step = chat.step("Plan my trip to Oslo")
    while not step.is_last:
        print(step.kind, [pending.call.name for pending in step.pending] or [each.text for each in step.tool_results])
        for pending in step.pending if step.kind == "waiting" else ():
            if pending.call.name == "forecast":
                chat.approve(pending)
            else:
                chat.deny(pending, "not today")
        step = chat.step()
    print(step.message)
