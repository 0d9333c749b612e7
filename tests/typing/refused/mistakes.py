"""Mistakes that both type checkers find: each line with the mark, and no other."""

from dataclasses import dataclass
from typing import Literal

from dragoman import (
    AsyncChat,
    AsyncClient,
    Chat,
    Client,
    Clients,
    Context,
    File,
    Image,
    Server,
    ToolResult,
)
from dragoman.client import (
    Approval,
    ElicitationRequest,
    SamplingRequest,
)
from dragoman.server.middleware import Concurrency, MaxResult, RateLimit, RequestTimeout

server = Server("mistakes")
client = Client("server.py")
asynchronous = AsyncClient("server.py")


@dataclass
class Booking:
    city: str
    nights: int


# Serving.
server.run("http", port="8000")  # error
server.run("htpp")  # error
server.run(port=8000)  # error
server.run("http", prot=8000)  # error
server.asgi(max_sessions="many")  # error
server.asgi(sateless=True)  # error
Server("mistakes", page_size="ten")  # error
Server("mistakes", instruction="Be brief")  # error
Server("mistakes", tools=3)  # error
Server("mistakes", store="redis://localhost")  # error
Server("mistakes", state_key=lambda: "ann")  # error
server.asgi(store=None)  # error


# Defining.
@server.tool(titel="Book")  # error
def misspelt(city: str) -> str:
    return city


@server.tool(ui_visibility=["user"])  # error
def hidden(city: str) -> str:
    return city


server.add_app("ui://shop/cart.html", "<p>", permissions=["bluetooth"])  # error
server.add_app("ui://shop/cart.html", "<p>", boarder=True)  # error
server.add_skill(5)  # error
client.skill("refunds").load(approve="yes")  # error
Client("server.py", apps="yes")  # error


@server.tool(name="sum")
def add(a: int, b: int = 2) -> int:
    return a + b


add("x")  # error


@server.tool(inline="yes")  # error
def quick(city: str) -> str:
    return city


@server.tool
def hurry(city: str) -> str:
    return city


@server.resource("config://app", mime="text/plain")  # error
def config() -> str:
    return ""


@server.tool(visible=lambda: True)  # error
def unseen(city: str) -> str:
    return city


@server.tool(tags=3)  # error
def tagged(city: str) -> str:
    return city


@server.prompt(enabled="no")  # error
def disabled(city: str) -> str:
    return city


server.asgi(include_tags=3)  # error
server.run(exclude_tags=3)  # error
server.enable(5)  # error
server.disable("tagged", kind="resourse")  # error
server.expose_as_tools(tools=True)  # error
hurry(city=3)  # error
server.add_tool("hurry")  # error
server.add_resource(hurry)  # error
ToolResult(3.5)  # error
Image("chart.png")  # error
File(3)  # error


@server.tool
async def book(city: str, ctx: Context) -> str:
    answer = await ctx.elicit(f"How many nights in {city}?", Booking)
    answer.content.nope  # error
    name = await ctx.elicit("Whose name?", str)
    name.content.nights  # error
    (await ctx.elicit("Which?", Literal["a", "b"])).content.nights  # error
    await ctx.elicit("Which?", 5)  # error
    nights: int = await ctx.step("nights", lambda: "three")  # error
    await ctx.step("nights", 3)  # error
    await ctx.log("loud", "Booking")  # error
    await ctx.report_progress("half")  # error
    kept: str = await ctx.user_state.get("booking", Booking)  # error
    await ctx.user_state.set(3, "three")  # error
    await ctx.user_state.update("booking", lambda booking: kept, Booking)  # error
    ctx.session_state = None  # error
    return f"{nights} nights"


# Calling.
client.call_tool(42)  # error
client.call_tool("book", ["Oslo"])  # error
client.call_tool("book", {"city": "Oslo"}, timeout="5")  # error
client.call_tool("book", {"city": "Oslo"}, retries=3)  # error
client.ping("soon")  # error
client.call_tool("book", result_type=Booking).structured.nope  # error
wrong: str = client.call_tool("book", result_type=Booking).structured  # error
client.tool("book").call({"city": "Oslo"}, timout=5)  # error
client.tool("book").call(result_type=Booking).structured.nope  # error
client.start_call("book", timeout="5")  # error
client.start_call("book", result_type=Booking).result().structured.nope  # error
Clients({"a": "server.py"}).call_tool("book", timout=5)  # error
Clients({"a": "server.py"}, timout=5)  # error
client.submit(client.read_resource, 42)  # error
Client("server.py", timout=5)  # error
Client(42)  # error
Client("server.py", transport=42)  # error
Client("server.py", roots=[42])  # error


# Answering a server.
def takes_a_number(request: int) -> str:
    return str(request)


def takes_two(request: SamplingRequest, more: str) -> str:
    return request.message + more


def answers_a_number(request: SamplingRequest) -> int:
    return len(request.message)


def answers_text(request: ElicitationRequest) -> str:
    return request.message


def approves_by_text(call: Approval) -> str:
    return call.name


Client("server.py", on_sampling=takes_a_number)  # error
Client("server.py", on_sampling=takes_two)  # error
Client("server.py", on_sampling=answers_a_number)  # error
Client("server.py", on_elicitation=takes_a_number)  # error
Client("server.py", on_elicitation=answers_text)  # error
Client("server.py", on_approval=takes_a_number)  # error
Client("server.py", on_approval=approves_by_text)  # error
Client("server.py", on_log=takes_a_number)  # error
client.on_sampling = takes_a_number  # error
client.on_approval = approves_by_text  # error

# Chats.
Chat("openai:gpt-4.1").with_tools(asynchronous)  # error
AsyncChat("openai:gpt-4.1").with_tools(client)  # error
Chat("openai:gpt-4.1").with_tools("forecast")  # error
Chat("openai:gpt-4.1").with_resource("readme")  # error
Chat("openai:gpt-4.1").with_prompt(client.tool("book"))  # error
Chat("openai:gpt-4.1", temprature=0.5)  # error
Chat("openai:gpt-4.1", on_approval=approves_by_text)  # error
Chat("openai:gpt-4.1").ask("Hello", attachments=[42])  # error

# Ready-made middleware, and several issuers.
RateLimit(60)  # error
RateLimit(60, seconds=60, by="user")  # error
RateLimit(60, seconds=60, by=takes_a_number)  # error
Concurrency("20")  # error
MaxResult(1000, cut="yes")  # error
server.middleware(RequestTimeout)  # error
server.asgi(auth=["token"])  # error
