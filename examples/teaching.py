"""A server that teaches skills, and a client that loads one, verifies it and reads a file of it.

python examples/teaching.py          the client, which starts the server
python examples/teaching.py serve    the server, on stdin and stdout
"""

import sys
from pathlib import Path

from dragoman import Client, Server
from dragoman.client import Approval
from dragoman.skills import Skill

server = Server("accounting")
server.add_skills(Path(__file__).with_name("skills"))
server.add_skill(
    Skill("greetings", "How to greet a customer.", "Use the name of the customer, and be brief.", prefix="acme")
)


@server.skill
def exchange_rates() -> str:
    """The rates of today, for reports in another currency."""
    return "One euro is 11.70 Norwegian crowns."


def approve(call: Approval) -> bool:
    """Show what would be loaded; a real host asks a person."""
    files = call.arguments["files"]
    print(f"{call.name} of {call.server} has {files if files == 'dynamic' else len(files)} files")
    return True


def learn() -> None:
    """Load a skill, as a host does when a model asks for it."""
    with Client([sys.executable, __file__, "serve"], server_name="the accounting server") as client:
        for skill in client.skills():
            print(f"- {skill.name}: {skill.description}")
        skill = client.skill("expense-report")
        text = skill.load(approve=approve)
        print(text.partition("# ")[2].splitlines()[0])
        print(str(skill.read("references/LIMITS.md")).splitlines()[0])
        client.skill("exchange-rates").load(approve=approve)


if __name__ == "__main__":
    if sys.argv[1:] == ["serve"]:
        server.run()
    else:
        learn()
