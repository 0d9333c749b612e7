"""A program that asks the person at its terminal by `input`; the first word chooses the part of the package."""

import asyncio
import sys

from dragoman import AsyncChat, AsyncClient, Chat, Client, Context, Server
from dragoman.chat import Policy, ToolCall
from dragoman.client import Sampling
from dragoman.testing import ScriptedModel

NAMES = ("a.tmp", "b.tmp", "thesis.doc")
FORM = {"type": "object", "properties": {"line": {"type": "string"}}, "required": ["line"]}
server = Server("files")


@server.tool
def delete(name: str) -> str:
    return f"{name} is gone"


@server.tool
async def survey(ctx: Context) -> str:
    answers = await asyncio.gather(*(ctx.elicit(f"Survey {number}", FORM) for number in (1, 2)))
    return f"survey: {[answer.content for answer in answers]}"


@server.tool
async def poem(ctx: Context) -> str:
    return f"poem: {(await ctx.sample('Write', max_tokens=5)).text}"


def approve(call):
    return input(f"{call.name} {call.arguments.get('name', '')}? ") == "yes"


def fill(request):
    return {"line": input(f"{request.message}: ")}


def calls():
    return [ToolCall(str(number), "delete", {"name": name}) for number, name in enumerate(NAMES)]


def options(*answers):
    return {"model": ScriptedModel(*answers), "policy": Policy(ask=["*"]), "on_approval": approve}


def write(text):
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def show(results):
    for result in results:
        write(f"[{result.text}]")


def chat(mode):
    with Client(server, mode=mode) as client:
        show(Chat(**options(calls(), "Done.")).with_tools(client).ask("Clean up").tool_results)


def chat_with_timeout(mode):
    with Client(server, mode=mode) as client:
        given = options(calls()[:1], "Done.") | {"approval_timeout": 1}
        show(Chat(**given).with_tools(client).ask("Clean up").tool_results)
    raise KeyboardInterrupt  # the rest is as after an interrupt


def chat_stream(mode):
    with Client(server, mode=mode) as client:
        for chunk in Chat(**options(calls(), "Done.")).with_tools(client).stream("Clean up"):
            show(chunk.tool_results)


def chat_and_survey(mode):
    wanted = [ToolCall("0", "survey", {}), *calls()[:1]]
    with Client(server, mode=mode, on_elicitation=fill) as client:
        show(Chat(**options(wanted, "Done.")).with_tools(client).ask("Clean up").tool_results)


def chat_and_guard(mode):
    wanted = [ToolCall("0", "poem", {}), *calls()[:1]]
    sampling = Sampling(lambda request: "Waves.", guard=lambda request: input("Sample? ") == "yes")
    with Client(server, mode=mode, on_sampling=sampling) as client:
        show(Chat(**options(wanted, "Done.")).with_tools(client).ask("Clean up").tool_results)


def started_call(mode):
    with Client(server, mode=mode, on_approval=approve) as client:
        started = [client.start_call("delete", {"name": name}) for name in NAMES]
        show([call.result() for call in started])


def client_approval(mode):
    with Client(server, mode=mode, on_approval=approve) as client:
        started = [client.start_call("delete", {"name": name}, raise_on_error=False) for name in NAMES[1:]]
        last = client.call_tool("delete", {"name": NAMES[0]}, raise_on_error=False)
        show([*(call.result(60) for call in started), last])


def client_elicitation(mode):
    with Client(server, mode=mode, on_elicitation=fill) as client:
        show([client.call_tool("survey")])


def async_chat(mode):
    async def main():
        async with AsyncClient(server, mode=mode) as client:
            show((await AsyncChat(**options(calls(), "Done.")).with_tools(client).ask("Clean up")).tool_results)

    asyncio.run(main())


def async_client(mode):
    async def main():
        async with AsyncClient(server, mode=mode, on_elicitation=fill, on_approval=approve) as client:
            tools = [("survey", {}), ("delete", {"name": NAMES[0]})]
            show(await asyncio.gather(*(client.call_tool(name, arguments) for name, arguments in tools)))

    asyncio.run(main())


if __name__ == "__main__":
    part, era = sys.argv[1:]
    try:
        globals()[part](era)
    except KeyboardInterrupt:
        write("<interrupted>")
        write(f"<{input('next: ')}>")
        write(f"<{input('last: ')}>")
