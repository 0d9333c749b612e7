"""A tour: one server over stdio and over HTTP, used by a client in both protocol eras.

python examples/tour.py
"""

import socket
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from dragoman import Chat, Client, ConnectError
from dragoman.chat import ToolCall
from dragoman.client import ElicitationRequest, SamplingRequest
from dragoman.testing import ScriptedModel

SERVER = Path(__file__).with_name("travel.py")
TERMINAL = sys.stdout.isatty()


def say(what: str, outcome: Any = "") -> None:
    print(f"  {what:<36} {outcome}")


def show_progress(progress: float, total: float | None, message: str | None) -> None:
    """Draw a line that grows; where there is no terminal, write it once it is full."""
    full = total is not None and progress >= total
    bar = "#" * int(20 * progress / (total or 1))
    if TERMINAL:
        print(f"\r  {'search':<36} [{bar:<20}] {message}", end="\n" if full else "", flush=True)
    elif full:
        say("search", f"[{bar}] {message}")


def answer_form(request: ElicitationRequest) -> dict[str, Any]:
    """Fill in a form, as a person would."""
    say("  the server asks", request.message)
    say("  its form", ", ".join(request.schema["properties"]))
    return {"nights": 3, "comfort": "fancy"}


def answer_for_the_model(request: SamplingRequest) -> str:
    """Say what a language model might say."""
    say("  the server asks the model", request.message)
    return "the light here is wonderful."


def visit(title: str, target: str, mode: Any) -> None:
    """Show what a client can do with a server."""
    began = time.perf_counter()
    with Client(target, mode=mode, on_elicitation=answer_form, on_sampling=answer_for_the_model) as client:
        print(f"\n{title}: protocol version {client.protocol_version}")
        say("tools", ", ".join(tool.name for tool in client.tools()))
        say("forecast for Oslo", client.tool("forecast")(city="Oslo").structured)
        found = client.call_tool("search", {"city": "Oslo"}, on_progress=show_progress)
        say("hotels", found.structured)
        say("a booking", client.call_tool("book", {"city": "Oslo"}).text)
        say("a postcard", client.call_tool("postcard", {"city": "Oslo"}).text)
        say("an error, for the model to read", client.call_tool("forecast", {"city": "Ys"}, raise_on_error=False).text)
        say("the resource cities://all", client.resource("cities://all").content())
        say("reading guide://Osaka", client.resource_template("guide").fetch(city="Osaka"))
        packing = client.prompt("packing")
        say("completing the prompt's city, os...", packing.complete("city", "os").values)
        say("the prompt packing", packing.fetch(city="Oslo").text)
    say("done in", f"{time.perf_counter() - began:.2f} s")


def chat() -> None:
    """Let a model use the server; the model is scripted, so that the tour needs no provider."""
    print("\nA conversation in which a model uses the server")
    model = ScriptedModel(ToolCall("1", "forecast", {"city": "Oslo"}), "Take a warm coat: it is 4 degrees in Oslo.")
    with Client(str(SERVER)) as client:
        conversation = Chat(model).with_instructions("Be brief.").with_tools(client)
        reply = conversation.ask("What should I wear in Oslo?")
        say("the user asks", "What should I wear in Oslo?")
        say("the model calls", ", ".join(f"{call.name} {call.arguments}" for call in reply.tool_calls))
        say("the tool says", reply.tool_results[0].text)
        say("the model answers", reply)


@contextmanager
def serving_http() -> Any:
    """Serve over HTTP while the tour lasts."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    with subprocess.Popen([sys.executable, str(SERVER), "--http", str(port)]) as process:
        try:
            yield f"http://127.0.0.1:{port}/mcp"
        finally:
            process.terminate()


def wait_for(url: str) -> None:
    """Wait until the server answers."""
    for _ in range(100):
        try:
            with Client(url):
                return
        except ConnectError:
            time.sleep(0.1)
    raise SystemExit(f"{url} does not answer")


if __name__ == "__main__":
    visit("Over stdio, statelessly", str(SERVER), "stateless")
    visit("Over stdio, with a handshake", str(SERVER), "handshake")
    with serving_http() as url:
        wait_for(url)
        visit("Over HTTP, statelessly", url, "stateless")
        visit("Over HTTP, with a handshake", url, "handshake")
    chat()
    print(
        "\nWhat to try next:"
        "\n  read examples/travel.py, the server, and examples/tour.py, the client"
        "\n  .venv/bin/python examples/travel.py --http 8000, and point any MCP client at http://127.0.0.1:8000/mcp"
        "\n  docs/server.md, docs/client.md, docs/chat.md"
    )
