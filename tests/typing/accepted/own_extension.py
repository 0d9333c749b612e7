"""An extension of an author's own, on both sides, with types."""

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import msgspec
from msgspec import Raw

from dragoman import (
    AsyncClient,
    Context,
    DefinitionError,
    InvalidParams,
    Resource,
    ResourceTemplate,
    Server,
    Tool,
    types,
)
from dragoman.client import (
    AnswerNext,
    ClientExtension,
    ExtendedRequest,
    ExtensionClient,
    FurtherResult,
    ReceivedRequest,
)
from dragoman.client import ExtensionHandler as ClientHandler
from dragoman.server import (
    AnyDefinition,
    DetachedCall,
    ExtensionHandler,
    ExtensionRow,
    Method,
    NextCall,
    OfferedTask,
    Outcome,
    ServerExtension,
    SubscriptionField,
    Wanted,
)

CHANGED = "notifications/quotes/changed"


class GetQuoteParams(types.Params):
    tool: str


class Quote(types.Result):
    tool: str
    price: int


class Accepting(msgspec.Struct, rename="camel"):
    accepted_price: int | None = None


class Priced(msgspec.Struct, rename="camel"):
    price: int | None = None


ROW = ExtensionRow(
    id="com.example/quotes",
    since="2025-06-18",
    until="2026-07-28",
    methods=(
        Method(name="quotes/get", params=GetQuoteParams, result=Quote, name_from="tool", since="2025-11-25"),
        Method(name=CHANGED, sender=("server",)),
    ),
    params={"tools/call": Accepting},
    entries={"tools/list": Priced},
    result_types={"quote": ("tools/call",)},
    subscriptions=(SubscriptionField(name="quoted_tools", method=CHANGED),),
)


class Quotes(ServerExtension):
    rows = (ROW,)
    tool_options = {"price": int}  # noqa: RUF012
    resource_options = {"price": int}  # noqa: RUF012
    around_methods = ("tools/call", "resources/read")

    def __init__(self) -> None:
        self.prices: dict[str, int] = {}
        self.calls: list[DetachedCall] = []

    def bind(self, server: Server) -> None:
        self.server = server

    @asynccontextmanager
    async def serving(self, server: Server) -> AsyncGenerator[None, None]:
        task = asyncio.create_task(self.run_later())
        yield
        task.cancel()

    def define_tool(self, tool: Tool[..., Any], options: Mapping[str, Any]) -> None:
        price: int = options["price"]
        if price < 0:
            raise DefinitionError(f"The price of {tool.name!r} must not be negative")
        self.prices[tool.name] = price

    def define_resource(
        self, resource: Resource[..., Any] | ResourceTemplate[..., Any], options: Mapping[str, Any]
    ) -> None:
        self.prices[resource.name] = options["price"]

    def forget(self, definition: AnyDefinition) -> None:
        self.prices.pop(definition.name, None)

    def shows(self, ctx: Context, definition: AnyDefinition) -> bool:
        return definition.name in self.prices or ctx.client.extension(ROW.id) is not None

    def capability_settings(self, row: ExtensionRow) -> types.Json | None:
        return row.settings

    def entry(self, definition: AnyDefinition) -> Priced | None:
        return Priced(self.prices.get(definition.name))

    def handlers(self) -> Mapping[str, ExtensionHandler]:
        return {"quotes/get": self.get}

    async def get(self, ctx: Context, params: GetQuoteParams) -> Quote:
        if params.tool not in self.prices:
            raise InvalidParams(f"The tool {params.tool!r} has no price")
        await ctx.notify(CHANGED, {"tool": params.tool})
        return Quote(tool=params.tool, price=self.prices[params.tool])

    async def around_call(self, ctx: Context, call_next: NextCall) -> Outcome:
        params = ctx.params
        if not isinstance(params, types.CallToolRequestParams):
            return await call_next()
        if params.name == "later":
            self.calls.append(DetachedCall.of(ctx))
            return {"resultType": "quote", "price": 0}
        confirmed = await ctx.request("quotes/confirm", {"tool": params.name}, timeout=5)
        if confirmed.get("accepted"):
            return await call_next()
        return Quote(tool=params.name, price=self.prices[params.name], result_type="quote")

    async def run_later(self) -> None:
        for call in self.calls:
            outcome: Outcome = await self.run_detached(
                self.server, call, task=OfferedTask("1"), on_progress=self.progress, on_step=self.note
            )
            if isinstance(outcome, types.InputRequiredResult):
                call.recording.answer({key: Raw(b"{}") for key in outcome.input_requests or {}})

    def progress(self, progress: float, total: float | None, message: str | None) -> None:
        print(progress, total, message)

    async def note(self, name: str, value: Raw | None) -> None:
        print(name, value)

    async def honour(self, ctx: Context, field: str, wanted: Wanted) -> Wanted | None:
        return wanted if isinstance(wanted, bool) else [name for name in wanted if name in self.prices]


class Buying(ClientExtension):
    rows = (ROW,)

    def __init__(self, client: ExtensionClient | None = None) -> None:
        self.client = client
        self.changes: list[types.Json] = []

    def bind(self, client: ExtensionClient) -> "Buying":
        return Buying(client)

    def params(self, request: ExtendedRequest) -> Mapping[str, Any]:
        return {"acceptedPrice": 3} if request.method == "tools/call" else {}

    async def finish(self, request: ExtendedRequest, result: types.Json) -> types.Json:
        return await request.send("tools/call", {**request.params, "acceptedPrice": result["price"]})

    async def around_answer(self, request: ReceivedRequest, call_next: AnswerNext) -> object:
        return {"action": "decline"} if "task" in request.params else await call_next()

    def requests(self) -> Mapping[str, ClientHandler]:
        return {}

    def notifications(self) -> Mapping[str, ClientHandler]:
        return {CHANGED: self.changed}

    async def changed(self, params: types.Json) -> None:
        self.changes.append(params)
        if self.client is not None:
            await self.client.send("quotes/get", {"tool": params["tool"]})


server = Server("painter", extensions=[Quotes()])


@server.tool
async def paint(color: str, ctx: Context) -> str:
    await ctx.task.begin()
    return f"The house is {color}."


async def main() -> None:
    async with AsyncClient(server, extensions=[Buying()]) as client:
        result = await client.call_tool_unfinished("paint", {"color": "red"}, timeout=5)
        if isinstance(result, FurtherResult):
            print(result.result_type, result.fields["price"])
        else:
            print(result.text)
