"""Every door of a server, as its author uses it."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any, TypedDict, assert_type

from dragoman import (
    Audio,
    BlockingContext,
    Cancelled,
    Configuration,
    Context,
    DefinitionError,
    Elicit,
    ElicitResult,
    ElicitUrl,
    File,
    Image,
    InputRequired,
    InvalidParams,
    ListRoots,
    NotAccepted,
    Prompt,
    Resource,
    ResourceNotFound,
    ResourceTemplate,
    RpcError,
    Sample,
    Server,
    Tool,
    ToolResult,
    UrlElicitationRequired,
    configure,
    prompt,
    resource,
    tool,
)
from dragoman.auth import Identity
from dragoman.server import (
    BlockingHandlerState,
    HandlerState,
    HttpReply,
    HttpRequest,
    InputSchema,
    LogHandler,
    OutputSchema,
    StateKey,
    TaskOptions,
    asgi,
)
from dragoman.stores import Local, Memory
from dragoman.types import (
    CreateMessageResult,
    EmbeddedResource,
    ImageContent,
    PromptMessage,
    ResourceContents,
    ResourceLink,
    Root,
    SamplingMessage,
    TextContent,
    ToolAnnotations,
)


class Units(Enum):
    METRIC = "metric"
    IMPERIAL = "imperial"


class Place(TypedDict):
    city: str


@dataclass
class Stay:
    nights: int


@tool
def add(a: int, b: int) -> int:
    return a + b


@tool("plus", output_schema={"type": "object"}, input_schema=InputSchema({"type": "object"}))
def plus(arguments: dict[str, Any]) -> dict[str, Any]:
    return arguments


@prompt(title="Greets")
def greet(name: str) -> str:
    return f"Say hello to {name}"


@resource("logs://{date}", mime_type="text/plain")
async def logs(date: str) -> ResourceContents:
    return ResourceContents(f"logs://{date}", "application/octet-stream", blob=b"\x00")


@logs.complete("date")
async def dates(value: str) -> list[str]:
    return [value]


class Weather(Tool):
    description = "Weather for a city."
    annotations = ToolAnnotations(read_only_hint=True)

    async def call(self, city: str, *, ctx: Context) -> str:
        await ctx.info(f"Looking at {city}")
        return city


class Review(Prompt):
    def render(self, code: str) -> list[PromptMessage]:
        return [PromptMessage("user", TextContent(code))]


class Config(Resource):
    uri = "config://app"

    def read(self) -> dict[str, str]:
        return {"colour": "green"}


class Profile(ResourceTemplate):
    uri_template = "users://{user_id}/profile"

    def read(self, user_id: int) -> str:
        return str(user_id)


def report(error: BaseException, info: dict[str, Any]) -> None:
    print(error, info)


async def timed(data: dict[str, Any], call_next: Callable[[], Awaitable[Any]]) -> None:
    await call_next()
    print(data["method"])


configure(exception_reporter=report, around_request=timed)
server = Server(
    "doors",
    title="Doors",
    tools=[add, plus, Weather, Weather(), lambda: "plain"],
    prompts=[greet, Review],
    resources=[Config],
    resource_templates=[logs, Profile] if isinstance(logs, ResourceTemplate) else [Profile],
    capabilities={"resources": {"subscribe": True}},
    configuration=Configuration(validate_tool_call_results=True),
    server_context={"database": "db"},
    page_size={"tools": 50},
    ttl_ms=1000,
    cache_scope="private",
    secret="0123456789abcdef",
    store=Local(),
    state_key=lambda ctx: ctx.principal or ctx.session_id or "",
    strict_arguments=True,
    inline_refs=True,
)
assert_type(server.add_tool(add)(1, b=2), int)
several = [add, plus, greet]
Server("several", tools=several)
assert_type(server.add_tool(Weather), Weather)
assert_type(add(1, 2), int)
server.remove_tool("add")
server.tools = [add]


@server.tool
async def book(city: str, ctx: Context) -> ToolResult:
    """Books a stay."""
    stay = await ctx.elicit(f"How long in {city}?", Stay)
    assert_type(stay, ElicitResult[Stay])
    nights = stay.content.nights if stay.accepted else 1
    name = await ctx.elicit("Whose name?", str)
    assert_type(name.content, str)
    units = (await ctx.elicit("Which units?", Units)).content
    place = (await ctx.elicit("Where?", Place)).content["city"]
    raw = await ctx.elicit("Anything?", {"type": "object", "properties": {"x": {"type": "string"}}})
    assert_type(raw.content, dict[str, Any])
    visit = await ctx.elicit_url("Please sign in", "https://example.com/sign-in")
    number = await ctx.step("number", lambda: 4711)
    assert_type(number, int)
    later = await ctx.step("later", asynchronous_number, result_type=int)
    assert_type(later, int)
    reached = await ctx.step("stay", lambda: Stay(3), result_type=Stay)
    assert_type(reached.nights, int)
    said = await ctx.sample(
        [SamplingMessage("user", TextContent("Hello")), {"role": "assistant", "content": "Hi"}],
        max_tokens=10,
        tools=[add, {"name": "sub", "inputSchema": {"type": "object"}}],
    )
    assert_type(said, CreateMessageResult)
    assert_type(await ctx.list_roots(), list[Root])
    answers = await ctx.ask(stay=Elicit("How long?", Stay), model=Sample("Hello"), roots=ListRoots())
    print(answers["stay"].content.nights, units.value, place, visit.action, number, ctx.client.info, ctx.trace)
    await ctx.report_progress(1, total=2, message="booked")
    await ctx.log("info", {"city": city}, logger="booking")
    await ctx.notify_resource_updated("config://app")
    ctx.on_cancel(lambda: print("cancelled"))
    ctx.require_capability("sampling", "tools")
    print(ctx.server_context["database"], ctx.principal, ctx.scopes, ctx.meta, ctx.session_id, ctx.request_id)
    return ToolResult([f"{nights} nights", Image(b"png"), TextContent("!")], structured={"nights": nights})


async def asynchronous_number() -> int:
    return 4711


@server.tool(task=TaskOptions(ttl=3600, poll=0.5, retry=3, begin="later", lease=10))
async def archive(year: int, ctx: Context) -> str:
    await ctx.task.begin()
    return f"{year} {ctx.task.id}"


@server.tool(task="required")
def archive_blocking(year: int, ctx: BlockingContext) -> str:
    ctx.task.begin()
    return f"{year} {ctx.task.id}"


@server.tool(
    name="wait", title="Wait", description="Waits.", inline=True, scopes=["wait"], timeout=60, meta={"a": 1}, icons=[]
)
def wait(ctx: BlockingContext) -> InputRequired | list[Image | Audio | File | ResourceLink | EmbeddedResource]:
    if "city" not in ctx.inputs:
        return InputRequired({"city": Elicit("Which city?", Place)}, state={"tries": 1})
    stay = ctx.elicit("How long?", Stay)
    assert_type(stay.content.nights, int)
    assert_type(ctx.step("number", lambda: 4711), int)
    assert_type(ctx.sample("Hello").text, str)
    ctx.report_progress(1)
    ctx.warning("Waiting")
    ctx.raise_if_cancelled()
    try:
        print(ctx.elicit("Name?", str).content.upper())
    except NotAccepted as refused:
        print(refused.action)
    except Cancelled:
        raise
    return [
        Image(b"png", "image/png"),
        Audio(b"wav"),
        File(b"pdf", "application/pdf", name="report.pdf"),
        File(Path("report.pdf")),
        EmbeddedResource(ResourceContents("file:///a", blob=b"a")),
    ]


@server.tool
async def remember(ctx: Context) -> int:
    assert_type(await ctx.user_state.get("stay", Stay), Stay | None)
    assert_type(await ctx.user_state.get("stay", Stay, Stay(3)), Stay)
    await ctx.user_state.set("stay", Stay(2), ttl=3600)
    assert_type(await ctx.user_state.update("stay", lambda stay: stay or Stay(1), Stay, ttl=60), Stay)
    visits: int = await ctx.session_state.update("visits", lambda visits: (visits or 0) + 1, int)
    assert_type(await ctx.session_state.delete("visits"), bool)
    untyped: dict[str, int] = await ctx.session_state.get("counts", default={})
    return visits + len(untyped)


async def remembered(ctx: Context) -> int:
    return await remember(ctx)


@server.tool
def remember_blocking(ctx: BlockingContext) -> int:
    assert_type(ctx.user_state.get("stay", Stay), Stay | None)
    assert_type(ctx.user_state.get("stay", Stay, Stay(3)), Stay)
    ctx.user_state.set("stay", Stay(2), ttl=3600)
    assert_type(ctx.user_state.update("stay", lambda stay: stay or Stay(1), Stay, ttl=60), Stay)
    assert_type(ctx.session_state.delete("visits"), bool)
    return ctx.session_state.update("visits", lambda visits: (visits or 0) + 1, int)


def of_tenant(state: HandlerState | BlockingHandlerState, key: StateKey) -> None:
    print(state, key, Server("tenants", state_key=key, store=Memory()))


@server.tool("picture", annotations={"readOnlyHint": True})
def picture() -> ImageContent:
    raise UrlElicitationRequired([{"message": "Please sign in", "url": "https://example.com"}])


@server.prompt("review", description="Reviews code.")
def review(code: str, tone: str = "kind") -> str:
    if not code:
        raise InvalidParams("There is no code")
    return f"{tone}: {code}"


@server.resource("users://{user_id}/avatar", mime_type="image/png", annotations={"priority": 0.5})
def avatar(user_id: str) -> bytes:
    if user_id == "0":
        raise ResourceNotFound(f"users://{user_id}/avatar")
    return b"png"


@avatar.complete("user_id")
def users(value: str, arguments: dict[str, str]) -> list[str]:
    return [value, *arguments]


@server.method("acme/add")
def acme(a: int, b: int) -> int:
    if a < 0:
        raise RpcError(-31999, "Too cold", {"a": a})
    return a + b


@server.on_subscribe
async def subscribed(uri: str, ctx: Context) -> None:
    await ctx.debug(uri)


@server.on_list_resources
def listed() -> list[Resource]:
    return [Config()]


def who(request: HttpRequest) -> str | None:
    return request.headers.get("x-user")


def built(request: HttpRequest) -> Server:
    return Server(request.path)


def asking() -> list[Elicit[Stay] | ElicitUrl | Sample | ListRoots]:
    return [Elicit("How long?", Stay), ElicitUrl("Go", "https://example.com"), Sample("Hi"), ListRoots()]


def serve() -> None:
    server.log("info", {"ready": True})
    server.notify_tools_list_changed()
    server.notify_resource_updated("config://app")
    LogHandler(server)
    OutputSchema({"type": "object"}).validate_result({})
    reply: HttpReply = server.handle_http("POST", {"content-type": "application/json"}, b"{}", server_context=1)
    print(reply.status, server.handle_json("{}"), server.handle({"jsonrpc": "2.0"}))
    server.asgi(auth=who)
    server.asgi("/mcp", auth=lambda request: Identity(request.path))
    server.wsgi(server_context=lambda environ: environ)
    asgi(built)
    try:
        server.run("http", host="127.0.0.1", port=0, workers=2, allowed_hosts="example.com")
    except DefinitionError:
        server.run("stdio")
