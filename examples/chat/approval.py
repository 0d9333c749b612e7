"""A person who is asked before a tool is called.

python examples/chat/approval.py
"""

import sys

from model import SERVER, model

from dragoman import Chat, Client
from dragoman.chat import Policy, ToolCall
from dragoman.client import Approval

CALLS = [ToolCall("1", "forecast", {"city": "Oslo"}), ToolCall("2", "book", {"city": "Oslo"})]


def ask_person(call: Approval) -> bool:
    """Ask in the terminal; where there is none, nobody says yes."""
    question = f"May {call.server} run {call.name} with {call.arguments}? "
    answer = input(question) if sys.stdin.isatty() else "no"
    print(f"{question}{answer}")
    return answer == "yes"


POLICY = Policy(allow=["forecast", "search"], ask=["book"], default="deny")

with Client(SERVER) as client:
    chat = Chat(model(CALLS, "It is cold, and nothing was booked."), policy=POLICY, on_approval=ask_person)
    reply = chat.with_tools(client).ask("Book Oslo if it is warm")
    for result in reply.tool_results:
        print(f"{result.call.name}: {result.text}")
    print(reply)
