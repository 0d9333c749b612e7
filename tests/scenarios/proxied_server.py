"""A server with everything that a proxy passes, and programs that serve it and a proxy of it."""

import asyncio
import json
import sys
from typing import Any

from dragoman import AsyncClient, Configuration, Context, Server, ToolError
from dragoman.errors import DragomanError

HANDSHAKE, STATELESS = "2025-11-25", "2026-07-28"
ERAS = {"handshake": HANDSHAKE, "stateless": STATELESS}
STATELESS_MEMBERS = ("resultType", "ttlMs", "cacheScope")


def everything(version: str | None = None) -> Server:
    """Return a server with tools, prompts, resources and a method of its own; `version` is the only one it speaks."""
    server = Server("everything", version="7", instructions="Ask for one thing at a time.", page_size=3)
    if version is not None:
        server.configuration = Configuration(protocol_version=version)

    @server.tool(meta={"x-unknown": {"kept": [1, 2.50]}})
    async def add(a: int, b: int) -> int:
        return a + b

    @server.tool
    async def fail() -> str:
        raise ToolError("It failed")

    _add_asking(server)
    _add_others(server)
    return server


def _add_asking(server: Server) -> None:
    @server.tool
    async def steps(ctx: Context) -> str:
        for number in (1, 2):
            await ctx.report_progress(number, total=2, message=f"step {number}")
        await ctx.warning({"disk": "full"}, "storage")
        return "done"

    @server.tool
    async def ask(question: str, ctx: Context) -> str:
        answer = await ctx.elicit(question, str)
        return f"{answer.action}: {answer.content}"

    @server.tool
    async def roots(ctx: Context) -> list[str]:
        return [root.uri for root in await ctx.list_roots()]

    @server.tool
    async def sample(ctx: Context) -> str:
        return (await ctx.sample("Say something", max_tokens=10)).text

    @server.tool
    async def change() -> str:
        server.notify_resource_updated("config://app")
        server.notify_tools_list_changed()
        return "changed"

    @server.tool
    async def wait(ctx: Context) -> str:
        await ctx.report_progress(1)
        try:
            return str(await asyncio.Event().wait())
        finally:
            server.log("error", "cancelled")

    @server.tool
    async def client(ctx: Context) -> dict[str, Any]:
        return {"version": ctx.client.version.name, "sampling": ctx.client.capabilities.sampling is not None}


def _add_others(server: Server) -> None:
    @server.prompt
    def greet(name: str) -> str:
        return f"Greet {name}"

    @greet.complete("name")
    def names(value: str) -> list[str]:
        return [name for name in ("Ada", "Alan", "Bo") if name.startswith(value)]

    @server.resource("config://app", mime_type="application/json")
    def app() -> str:
        return '{"a": 1.0}'

    @server.resource("users://{id}")
    def user(id: str) -> str:
        return id

    @server.on_subscribe
    def subscribed(uri: str) -> None:
        assert uri

    @server.method("acme/add")
    def acme(a: int, b: int) -> dict[str, Any]:
        return {"sum": a + b, "exact": 1.0}


class Heard:
    """What a client was told and asked."""

    def __init__(self) -> None:
        self.logs: list[Any] = []
        self.progress: list[Any] = []
        self.updates: asyncio.Queue[str] = asyncio.Queue()
        self.changes: asyncio.Queue[str] = asyncio.Queue()

    def client(self, target: Any, **options: Any) -> AsyncClient:
        return AsyncClient(
            target,
            on_elicitation=lambda request: {"value": f"answer to {request.message}"},
            on_sampling=lambda _: "something",
            roots=["file:///project"],
            on_log=lambda message: self.logs.append([message.level, message.logger, message.data]),
            log_level="warning",
            on_resource_updated=self.updates.put_nowait,
            on_list_changed=self.changes.put_nowait,
            **options,
        )


def plain(result: Any) -> Any:
    """Return a result without what only stateless results have."""
    if not isinstance(result, dict):
        return result
    meta = {key: value for key, value in result.get("_meta", {}).items() if not key.endswith("serverInfo")}
    kept = {key: value for key, value in result.items() if key not in (*STATELESS_MEMBERS, "_meta")}
    return {**kept, "_meta": meta} if meta else kept


async def converse(target: Any, **options: Any) -> dict[str, Any]:
    """Use everything that the server has, and return all that was seen."""
    heard = Heard()
    seen: dict[str, Any] = {}

    async def note(method: str, **params: Any) -> Any:
        try:
            result = plain(await client.request(method, params))
        except DragomanError as error:
            # The eras have different codes for a resource that is not there.
            kind = type(error).__name__.replace("ResourceNotFound", "InvalidParams")
            result = [kind, str(error), getattr(error, "data", None)]
        seen[f"{method} {json.dumps(params)}"] = result
        return result

    async with heard.client(target, **options) as client:
        assert client.server_info is not None
        seen["server"] = [client.server_info.name, client.server_info.version, client.instructions]
        page = await note("tools/list")
        while "nextCursor" in page:
            page = await note("tools/list", cursor=page["nextCursor"])
        await note("prompts/list")
        await note("resources/list")
        await note("resources/templates/list")
        await note("tools/list", cursor="nonsense")
        await note("tools/call", name="add", arguments={"a": 1, "b": 2})
        await note("tools/call", name="add", arguments={"a": "x"})
        await note("tools/call", name="absent", arguments={})
        await note("tools/call", name="fail", arguments={})
        await note("tools/call", name="client", arguments={})
        await note("prompts/get", name="greet", arguments={"name": "Ada"})
        await note("resources/read", uri="config://app")
        await note("resources/read", uri="users://7")
        await note("resources/read", uri="absent://")
        ref = {"type": "ref/prompt", "name": "greet"}
        await note("completion/complete", ref=ref, argument={"name": "name", "value": "A"})
        await note("acme/add", a=1, b=2)
        await note("acme/absent")
        seen["ask"] = (await client.call_tool("ask", {"question": "Who?"})).text
        seen["roots"] = (await client.call_tool("roots")).structured
        seen["sample"] = (await client.call_tool("sample")).text
        await client.call_tool("steps", on_progress=lambda *values: heard.progress.append(list(values)))
        await client.subscribe("config://app")
        await client.call_tool("change")
        async with asyncio.timeout(60):
            seen["updated"] = await heard.updates.get()
            seen["changed"] = await heard.changes.get()
        await client.unsubscribe("config://app")
        seen["logs"], seen["progress"] = heard.logs, heard.progress
    return seen


def main() -> None:
    """Serve: `server VERSION [PORT]`, or `proxy TARGET [PORT]`; a target `memory:VERSION` is in this process."""
    kind, target, *port = sys.argv[1:]
    if kind == "server":
        server = everything(target)
    elif target.startswith("memory:"):
        server = Server.proxy(everything(target.removeprefix("memory:")))
    else:
        server = Server.proxy(target if "://" in target else json.loads(target))
    if port:
        server.run("http", port=int(port[0]))
    else:
        server.run()


if __name__ == "__main__":
    main()
