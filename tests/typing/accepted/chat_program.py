"""A chat at a terminal, in which a model uses two servers."""

from pathlib import Path

from dragoman import Chat, Client, Clients, ModelError
from dragoman.chat import Policy, Reply, ToolCall
from dragoman.client import Approval


def approve(call: Approval) -> bool:
    return input(f"{call.server} wants {call.name}({call.arguments}). Allow? ") == "y"


def tell(call: ToolCall) -> None:
    print(f"[{call.name}]")


def main() -> None:
    with Client("weather.py") as weather, Clients.from_config("mcp.json") as others:
        chat = (
            Chat("openai:gpt-4.1", policy=Policy(ask=["*delete*"]), on_approval=approve, on_tool_call=tell)
            .with_instructions("Be brief.")
            .with_tools(weather, others)
            .with_tools(*weather.tools(), weather.tool("forecast"))
            .with_resource(weather.resource("readme"))
            .with_resource(weather.resource_template("logs"), {"date": "2026-07-28"})
            .with_prompt(weather.prompt("persona"), arguments={"name": "Jo"})
        )
        try:
            reply: Reply = chat.ask("What is in this picture?", attachments=["photo.png", Path("notes.txt")])
        except ModelError as error:
            print("The model did not answer:", error)
            return
        print(reply.text, reply.usage.input_tokens)
        for chunk in chat.stream("And tomorrow?"):
            print(chunk.text, end="")
        for message in chat.messages:
            print(message.role, message.text)


if __name__ == "__main__":
    main()
