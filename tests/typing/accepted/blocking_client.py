"""A program that calls the tools of a server and waits for them."""

import sys
from dataclasses import dataclass

from dragoman import Client, NotFound, Timeout, ToolError
from dragoman.client import Approval, ElicitationRequest, LogMessage, SamplingRequest
from dragoman.types import TextContent


@dataclass
class Forecast:
    city: str
    celsius: float


def ask_user(request: ElicitationRequest) -> dict[str, str] | None:
    answer = input(f"{request.server}: {request.message} ")
    return {"city": answer} if answer else None


def ask_model(request: SamplingRequest) -> str:
    return request.message.upper()[: request.max_tokens]


def approve(call: Approval) -> bool:
    return input(f"Call {call.name} with {call.arguments}? ") == "yes"


def show(progress: float, total: float | None, message: str | None) -> None:
    print(f"{progress}/{total} {message or ''}", file=sys.stderr)


def note(message: LogMessage) -> None:
    print(message.level, message.data, file=sys.stderr)


def main() -> None:
    with Client(
        ["python", "server.py"],
        on_elicitation=ask_user,
        on_sampling=ask_model,
        on_approval=approve,
        on_log=note,
        roots=["."],
        timeout=30,
    ) as client:
        for tool in client.tools():
            print(tool.name, tool.description or "", tool.input_schema)
        try:
            result = client.call_tool("forecast", {"city": "Oslo"}, on_progress=show, timeout=5)
        except ToolError as error:
            print("The tool failed:", error)
        except Timeout:
            print("No answer in time")
        else:
            print(result.text, result.structured)
            for block in result.content:
                if isinstance(block, TextContent):
                    print(block.text)
        typed = client.call_tool("forecast", {"city": "Oslo"}, result_type=Forecast)
        print(f"{typed.structured.celsius:.1f} degrees in {typed.structured.city}")
        call = client.start_call("forecast", {"city": "Bergen"}, timeout=5)
        print(call.result(timeout=10).text)
        try:
            print(client.resource("readme").content())
        except NotFound as error:
            print(error.close_matches)
        for message in client.prompt("greet").fetch(name="Jo").messages:
            print(message.role, message.content)
        print(client.status, client.server_info, client.protocol_version)


if __name__ == "__main__":
    main()
