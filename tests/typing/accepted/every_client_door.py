"""Every door of a client, blocking and not."""

import asyncio
from collections.abc import Awaitable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import Any, assert_type

from pydantic import BaseModel

from dragoman import (
    AsyncClient,
    AsyncClients,
    AuthRequired,
    Client,
    Clients,
    ConfigError,
    ConnectError,
    InputNeeded,
    Rejected,
    Server,
    ServerCrashed,
    TransportError,
    ValidationError,
)
from dragoman.auth import ClientCredentials, MemoryStorage, OAuth
from dragoman.client import (
    Accept,
    Approval,
    ApprovalHandler,
    AsyncBoundTool,
    BoundTool,
    CallResult,
    Cancel,
    Decline,
    Elicitation,
    ElicitationHandler,
    ElicitationRequest,
    LogMessage,
    Network,
    Sampling,
    SamplingHandler,
    SamplingRequest,
    ServerNotification,
    StartedCall,
    Transport,
    register_transport,
)
from dragoman.errors import CapabilityNotAvailable, SessionExpired
from dragoman.types import CreateMessageResult, ImageContent, PromptReference, TextContent, Tool


@dataclass
class Forecast:
    city: str


class Model(BaseModel):
    city: str


class Pigeon:
    def __init__(self, target: str) -> None:
        self.target = target

    def send_request(self, request: dict[str, Any]) -> dict[str, Any]:
        return {"result": {}, "id": request["id"]}


class Executing:
    def execute(self, request: SamplingRequest) -> str:
        return request.message


class Calling:
    async def __call__(self, request: ElicitationRequest) -> Accept:
        return Accept({"city": request.message})


async def answers(request: SamplingRequest) -> CreateMessageResult:
    if request.max_tokens > 1000:
        raise Rejected("Too long")
    return CreateMessageResult("assistant", TextContent("Hi"), request.model or "mine")


def fills(request: ElicitationRequest) -> Forecast | Decline | Cancel | bool:
    if request.mode == "url":
        return False
    return Forecast(request.message) if request.schema else Cancel()


def fills_model(request: ElicitationRequest) -> Model:
    return Model(city=request.message)


def fills_later(request: ElicitationRequest) -> Future[Mapping[str, str]]:
    later: Future[Mapping[str, str]] = Future()
    later.set_result({"city": request.message})
    return later


async def approves(call: Approval) -> bool:
    return call.name != "delete"


def approves_later(call: Approval) -> Approval:
    return call


def approves_somewhere(call: Approval) -> Awaitable[bool]:
    return approves(call)


def hear(message: LogMessage) -> None:
    print(message)


async def hear_all(notification: ServerNotification) -> None:
    print(notification)


sampling: list[SamplingHandler] = [answers, Executing(), lambda request: request.message]
elicitation: list[ElicitationHandler] = [Calling(), fills, fills_model, fills_later, lambda request: None]
approval: list[ApprovalHandler] = [approves, approves_later, approves_somewhere, lambda call: True]
register_transport("pigeon", Pigeon)


def over(transport: Transport) -> Client:
    return Client("server.py", transport=transport)


def blocking() -> None:
    with Client(Server("here"), on_sampling=Sampling(answers, guard=lambda request: len(request.text) < 1000)) as here:
        print(here.ping(), here.discover().capabilities)
    Client("https://example.com/mcp", auth="token", headers={"x": "y"}, network=Network())
    Client("https://example.com/mcp", auth=OAuth(storage=MemoryStorage()), mode="stateless")
    Client("https://example.com/mcp", auth=ClientCredentials("id", "secret"))
    Client(Path("server.py"), env={"A": "B"}, cwd=Path(), roots=[Path.home(), "."])
    Client({"command": "python", "args": ["server.py"]}, on_elicitation=Elicitation(fills, handles_url=False))
    Client("x", transport="pigeon")
    Client(Pigeon("x"), on_request={"acme/ask": lambda params: {"answer": params["question"]}})
    client = Client("python server.py", on_log=hear, on_notification=hear_all, on_progress=print, log_level="debug")
    client.on_sampling = answers
    client.on_approval = approves
    client.on_log = None
    client.on_reconnect = lambda: print("again")
    tool: BoundTool = client.tool("forecast")
    assert_type(tool(city="Oslo"), CallResult[Any])
    assert_type(tool.call({"city": "Oslo"}, timeout=5), CallResult[Any])
    assert_type(tool.call({"city": "Oslo"}, result_type=Forecast).structured, Forecast)
    assert_type(client.call_tool("forecast", result_type=Model).structured, Model)
    assert_type(client.call_tool(tool), CallResult[Any])
    assert_type(client.call_tool(Tool(name="forecast", input_schema={})).structured, Any)
    assert_type(client.start_call("forecast", {"city": "Oslo"}), StartedCall[CallResult[Any]])
    assert_type(client.start_call("forecast", result_type=Forecast).result().structured, Forecast)
    reading = client.submit(client.read_resource, "logs://today", timeout=5)
    print(reading.result().contents, reading.cancel("Enough"), tool.to_openai(strict=True), tool.annotations)
    resource = client.resource("readme")
    resource.subscribe(lambda uri: print(uri))
    content: str | bytes = resource.content(refresh=True)
    template = client.resource_template("logs")
    print(content, template.fetch(date="today"), template.complete("date", "to").values, client.roots.paths)
    for message in client.prompt("greet").fetch(name="Jo").messages:
        print(message.role, message.content)
    print(client.complete(PromptReference("greet"), "name", "jo").values, client.list_tools().next_cursor)
    for waiting in client.approvals:
        client.approve(waiting.id)
    try:
        client.call_tool("forecast", {"city": "Oslo"}, raise_on_error=False, on_progress=progress).raise_for_error()
    except InputNeeded as needed:
        client.call_tool("forecast", input_responses={"a": {"action": "accept"}}, request_state=needed.state)
    except ServerCrashed as crashed:
        print(crashed.exit_code, crashed.stderr_tail)
    except (ConnectError, AuthRequired, SessionExpired, CapabilityNotAvailable, ValidationError, TransportError):
        client.restart()
    client.stop()


def progress(done: float, total: float | None, message: str | None) -> None:
    print(done, total, message)


async def progress_later(done: float, total: float | None, message: str | None) -> None:
    print(done, total, message)


def several() -> None:
    with Clients({"a": "a.py", "b": {"url": "https://example.com"}, "c": Client("c.py")}, required=["a"]) as clients:
        for tool in clients.tools(include="a__*"):
            print(tool.qualified_name, tool.server)
        assert_type(clients.call_tool("a__forecast", {"city": "Oslo"}, result_type=Forecast).structured, Forecast)
        clients.call_tool(clients.tool("a__forecast"), timeout=3)
        clients.add("d", ["python", "d.py"], timeout=5).ping()
        print(clients.status, clients.errors, clients["a"].alive)
    Clients([Client("c.py", name="c")])


async def asynchronous() -> None:
    async with AsyncClient("server.py", on_elicitation=Calling()) as client:
        tool: AsyncBoundTool = await client.tool("forecast")
        assert_type(await tool(city="Oslo"), CallResult[Any])
        assert_type((await tool.call({"city": "Oslo"}, result_type=Forecast)).structured, Forecast)
        assert_type((await client.call_tool("forecast", result_type=Forecast)).structured, Forecast)
        assert_type((await client.call_tool("forecast")).structured, Any)
        for block in (await client.call_tool("forecast", on_progress=progress_later)).content:
            match block:
                case TextContent(text=text):
                    print(text)
                case ImageContent(mime_type=kind):
                    print(kind)
                case _:
                    print(type(block).__name__)
        await client.subscribe("logs://today", print)
        await client.set_log_level("error")
        print(await client.request("acme/add", {"a": 1}), client.capabilities, client.instructions)
    try:
        clients = AsyncClients.from_config("mcp.json", inputs={"key": "value"})
    except ConfigError as error:
        print(error.file, error.server, error.field)
        return
    async with clients:
        assert_type((await clients.call_tool("a__forecast", result_type=Forecast)).structured, Forecast)


if __name__ == "__main__":
    blocking()
    several()
    asyncio.run(asynchronous())
