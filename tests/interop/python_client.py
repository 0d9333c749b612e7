"""The official Python client uses a server; run in the environment of the peers.

    python python_client.py (handshake|stateless) stdio COMMAND [ARGUMENT ...]
    python python_client.py (handshake|stateless) (http|http-unkept) URL_OF_MAIN URL_OF_ROUTED URL_OF_CONVERSING
    python python_client.py sessions COUNT URL_OF_CONVERSING

With `http-unkept` each request has a connection of its own, which any worker may take. Each feature is one line of
JSON: what was seen, or why it was not. Extra fields of the stateless era that every result carries are left out of what
was seen, except by the features that are about them.
"""

from __future__ import annotations

import asyncio
import json
import sys
import warnings
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import anyio
import httpx2
import mcp_types
from mcp.client import Client
from mcp.client.stdio import StdioServerParameters
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError
from pydantic import BaseModel, ConfigDict

MODES = {"handshake": "legacy", "stateless": "2026-07-28"}
SERVER_INFO = "io.modelcontextprotocol/serverInfo"
REQUESTS = json.loads(Path(__file__).with_name("requests.json").read_text(encoding="utf-8"))
SECONDS = 30.0
BURSTS, CALLS = 20, 16

Feature = Callable[[Client], Awaitable[Any]]


class Unseen(Exception):
    """The feature did not show."""


def wire(result: BaseModel) -> dict[str, Any]:
    """Return what the server sent."""
    return result.model_dump(by_alias=True, mode="json", exclude_unset=True)


def seen(result: BaseModel) -> dict[str, Any]:
    """Return what the server sent, without what every result of the stateless era carries."""
    sent = wire(result)
    meta = {key: value for key, value in (sent.pop("_meta", None) or {}).items() if key != SERVER_INFO}
    for name in ("resultType", "ttlMs", "cacheScope"):
        sent.pop(name, None)
    return sent | ({"_meta": meta} if meta else {})


async def outcome(request: Awaitable[BaseModel]) -> dict[str, Any]:
    """Return the result of a request, or the error that the server answered with."""
    try:
        return seen(await request)
    except MCPError as refusal:
        return {"error": refusal.error.model_dump(mode="json", exclude_unset=True)}


async def call_tool(client: Client, params: dict[str, Any]) -> Any:
    return await outcome(client.call_tool(params["name"], params.get("arguments"), meta=params.get("_meta")))


async def get_prompt(client: Client, params: dict[str, Any]) -> Any:
    return await outcome(client.get_prompt(params["name"], params.get("arguments")))


async def read_resource(client: Client, params: dict[str, Any]) -> Any:
    return await outcome(client.read_resource(params["uri"]))


async def complete(client: Client, params: dict[str, Any]) -> Any:
    kinds = {"ref/prompt": mcp_types.PromptReference, "ref/resource": mcp_types.ResourceTemplateReference}
    ref = kinds[params["ref"]["type"]](**params["ref"])
    return await outcome(client.complete(ref, params["argument"], params.get("context", {}).get("arguments")))


VERBS = {"callTool": call_tool, "getPrompt": get_prompt, "readResource": read_resource, "complete": complete}


async def connected(client: Client) -> Any:
    initialized = client.session.initialize_result
    if initialized is None:
        raise Unseen("there was no handshake")
    return wire(initialized)


async def discovered(client: Client) -> Any:
    if client.session.initialize_result is not None:
        raise Unseen("the client does not discover after a handshake")
    return await client.session.send_discover(MODES["stateless"])


async def listed_tools(client: Client) -> Any:
    return [wire(tool) for page in await pages(client.list_tools) for tool in page.tools]


async def listed_prompts(client: Client) -> Any:
    return [wire(prompt) for page in await pages(client.list_prompts) for prompt in page.prompts]


async def listed_resources(client: Client) -> Any:
    return [wire(resource) for page in await pages(client.list_resources) for resource in page.resources]


async def listed_templates(client: Client) -> Any:
    listed = await pages(client.list_resource_templates)
    return [wire(template) for page in listed for template in page.resource_templates]


async def pages(list_page: Callable[..., Awaitable[Any]]) -> list[Any]:
    """Return every page of a list."""
    listed = [await list_page()]
    while listed[-1].next_cursor is not None:
        listed.append(await list_page(cursor=listed[-1].next_cursor))
    return listed


async def paginated(client: Client) -> Any:
    return [
        {"names": [resource.name for resource in page.resources], "nextCursor": page.next_cursor}
        for page in await pages(client.list_resources)
    ]


async def foreign_cursor(client: Client) -> Any:
    return await outcome(client.list_tools(cursor="elsewhere"))


async def cache_hints(client: Client) -> Any:
    hinted = {
        "tools/list": await client.list_tools(cache_mode="bypass"),
        "prompts/list": await client.list_prompts(cache_mode="bypass"),
        "resources/list": await client.list_resources(cache_mode="bypass"),
        "resources/templates/list": await client.list_resource_templates(cache_mode="bypass"),
        "resources/read": await client.read_resource("docs://readme", cache_mode="bypass"),
    }
    sent = {method: wire(result) for method, result in hinted.items()}
    if not any("ttlMs" in result or "cacheScope" in result for result in sent.values()):
        raise Unseen("no result carries a cache hint")
    return {method: [result["ttlMs"], result["cacheScope"]] for method, result in sent.items()}


async def identity_in_results(client: Client) -> Any:
    sent = wire(await client.call_tool("whisper", {"text": "A"}))
    if SERVER_INFO not in (sent.get("_meta") or {}):
        raise Unseen("the result does not name its server")
    return {"serverInfo": sent["_meta"][SERVER_INFO], "resultType": sent["resultType"]}


class AcmeRequest(mcp_types.Request[dict[str, Any], str]):
    """A request of a method that the protocol does not have."""


class AcmeResult(mcp_types.Result):
    """Whatever such a method answers."""

    model_config = ConfigDict(extra="allow")


async def custom_method(client: Client) -> Any:
    request = AcmeRequest(method="acme/add", params={"a": 2, "b": 40})
    return await outcome(client.session.send_request(request, AcmeResult))


async def custom_method_refuses(client: Client) -> Any:
    request = AcmeRequest(method="acme/refuse", params={"reason": "tired"})
    return await outcome(client.session.send_request(request, AcmeResult))


async def unknown_method(client: Client) -> Any:
    request = AcmeRequest(method="acme/no_such_method", params={})
    return await outcome(client.session.send_request(request, AcmeResult))


async def ping(client: Client) -> Any:
    return seen(await client.send_ping())


async def set_log_level(client: Client) -> Any:
    return seen(await client.set_logging_level("warning"))


async def cancelled(client: Client) -> Any:
    async with asyncio.timeout(SECONDS):
        abandoned = asyncio.ensure_future(client.call_tool("hold", {"key": "first"}))
        held = seen(await client.call_tool("held", {"key": "first"}))
        abandoned.cancel()
        released = seen(await client.call_tool("released", {"key": "first"}))
    await asyncio.wait([abandoned])
    return [held["content"][0]["text"], released["content"][0]["text"], abandoned.cancelled()]


async def timed_out(client: Client) -> Any:
    try:
        await client.call_tool("hold", {"key": "second"}, read_timeout_seconds=0.1)
    except MCPError as error:
        released = seen(await client.call_tool("released", {"key": "second"}))
        return [error.code, released["content"][0]["text"]]
    raise Unseen("the call did not time out")


async def concurrent_calls(client: Client) -> Any:
    calls = [client.call_tool("add", {"a": number, "b": 0}) for number in range(100)]
    return [result.content[0].text for result in await asyncio.gather(*calls)]


async def large_message(client: Client) -> Any:
    result = await client.call_tool("repeat", {"text": "é" * 1000, "times": 2000})
    return [len(result.content[0].text), set(result.content[0].text) == {"é"}]


SPECIAL: dict[str, Feature] = {
    "handshake": connected,
    "discover": discovered,
    "list_tools": listed_tools,
    "list_prompts": listed_prompts,
    "list_resources": listed_resources,
    "list_resource_templates": listed_templates,
    "pagination": paginated,
    "foreign_cursor": foreign_cursor,
    "cache_hints": cache_hints,
    "identity_in_results": identity_in_results,
    "custom_method": custom_method,
    "custom_method_refuses": custom_method_refuses,
    "unknown_method": unknown_method,
    "ping": ping,
    "log_level": set_log_level,
    "cancellation": cancelled,
    "time_out": timed_out,
    "concurrent_calls": concurrent_calls,
    "large_message": large_message,
}


def features() -> Iterator[tuple[str, Feature]]:
    for name, (verb, params) in REQUESTS.items():
        yield name, lambda client, verb=verb, params=params: VERBS[verb](client, params)
    yield from SPECIAL.items()


async def report(name: str, feature: Callable[[], Awaitable[Any]]) -> None:
    """Print what became of a feature."""
    try:
        async with asyncio.timeout(SECONDS):
            line = {"feature": name, "saw": await feature()}
    except Exception as error:
        line = {"feature": name, "failed": f"{type(error).__name__}: {error}"}
    sys.stdout.write(json.dumps(line) + "\n")


class Place:
    """Where the servers are: a command that starts them, or their addresses."""

    def __init__(self, transport: str, *where: str) -> None:
        self._transport = transport
        self._where = where

    def find(self, server: str) -> Any:
        if self._transport == "stdio":
            command, *arguments = self._where
            return StdioServerParameters(command=command, args=[*arguments, server])
        url = self._where[("main", "routed", "conversing").index(server)]
        if self._transport == "http":
            return url
        limits = httpx2.Limits(max_keepalive_connections=0)
        return streamable_http_client(url, http_client=httpx2.AsyncClient(limits=limits, timeout=SECONDS))


def connect(mode: str, place: Place, server: str = "main", **options: Any) -> Client:
    return Client(
        place.find(server),
        mode=mode,
        read_timeout_seconds=SECONDS,
        client_info=mcp_types.Implementation(name="python-peer", version="7"),
        **options,
    )


class Conversation:
    """A connection to a server that talks: what it was asked and told, and what it answers."""

    def __init__(self, era: str, place: Place) -> None:
        self.era = era
        self.asked: list[Any] = []
        self.notices: asyncio.Queue[Any] = asyncio.Queue()
        self.waiting = asyncio.Event()
        self.client = connect(
            MODES[era],
            place,
            "conversing",
            elicitation_callback=self.elicit,
            sampling_callback=self.sample,
            list_roots_callback=self.list_roots,
            logging_callback=self.log,
            message_handler=self.hear,
            log_level="info",
        )

    async def elicit(self, context: Any, params: Any) -> mcp_types.ElicitResult:
        self.asked.append([params.message, params.requested_schema])
        if params.message == "Wait":
            self.waiting.set()
            await asyncio.Event().wait()
        if params.message == "Really Oslo?":
            return mcp_types.ElicitResult(action="accept", content={"sure": True, "seats": 2})
        return mcp_types.ElicitResult(action="decline")

    async def sample(self, context: Any, params: Any) -> mcp_types.CreateMessageResult:
        self.asked.append([params.messages[0].content.text, params.max_tokens, params.system_prompt])
        content = mcp_types.TextContent(type="text", text="short")
        return mcp_types.CreateMessageResult(role="assistant", content=content, model="peer-model")

    async def list_roots(self, context: Any) -> mcp_types.ListRootsResult:
        self.asked.append("roots")
        return mcp_types.ListRootsResult(roots=[mcp_types.Root(uri="file:///home/ada", name="home")])

    async def log(self, params: Any) -> None:
        self.notices.put_nowait([params.level, params.data, params.logger])

    async def hear(self, message: Any) -> None:
        method = getattr(message, "method", "")
        if method.endswith(("changed", "updated")):
            self.notices.put_nowait([method, getattr(message.params, "uri", None)])

    async def say(self, tool: str, **arguments: Any) -> str:
        result = await self.client.call_tool(tool, arguments)
        return result.content[0].text

    async def asking(self, tool: str, **arguments: Any) -> Any:
        """Return what a tool asked, and what it made of the answers."""
        self.asked.clear()
        said = await self.say(tool, **arguments)
        return [sorted(self.asked, key=str), said]


async def progress(conversation: Conversation, tool: str = "count") -> Any:
    steps = []

    async def on_progress(progress: float, total: float | None, message: str | None) -> None:
        steps.append([progress, total, message])
        if progress == total:
            await conversation.say("go_on", key=tool)

    await conversation.client.call_tool(tool, {"to": 3, "key": tool}, progress_callback=on_progress)
    return steps


async def logged(conversation: Conversation) -> Any:
    if conversation.era == "handshake":
        await conversation.client.set_logging_level("info")
    await conversation.say("chatter")
    return [await conversation.notices.get() for _ in range(2)]


async def prompt_asks(conversation: Conversation) -> Any:
    return (await conversation.client.get_prompt("asking_prompt")).messages[0].content.text


async def resource_asks(conversation: Conversation) -> Any:
    return (await conversation.client.read_resource("asking://resource")).contents[0].text


async def list_changed(conversation: Conversation) -> Any:
    if conversation.era == "handshake":
        await conversation.say("grow")
        heard, _ = await conversation.notices.get()
    else:
        async with conversation.client.listen(tools_list_changed=True) as events:
            await conversation.say("grow")
            heard = type(await anext(aiter(events))).__name__
    listed = await conversation.client.list_tools(cache_mode="refresh")
    assert heard in {"notifications/tools/list_changed", "ToolsListChanged"}
    return [tool.name for tool in listed.tools if tool.name == "grown"]


async def resource_updated(conversation: Conversation) -> Any:
    uri = "asking://resource"
    if conversation.era == "handshake":
        await conversation.client.subscribe_resource(uri)
        await conversation.say("touch", uri="other://one")
        await conversation.say("touch", uri=uri)
        return (await conversation.notices.get())[1]
    async with conversation.client.listen(resource_subscriptions=[uri]) as events:
        await conversation.say("touch", uri="other://one")
        await conversation.say("touch", uri=uri)
        return (await anext(aiter(events))).uri


async def cancelled_question(conversation: Conversation) -> Any:
    if conversation.era == "stateless":
        raise Unseen("the call ended with the question")
    abandoned = asyncio.ensure_future(conversation.say("ask_in_vain", key="third"))
    await conversation.waiting.wait()
    abandoned.cancel()
    released = await conversation.say("released", key="third")
    await asyncio.wait([abandoned])
    return released


async def several_workers(conversation: Conversation) -> Any:
    pids: set[str] = set()
    for _ in range(BURSTS):
        pids.update(await asyncio.gather(*(conversation.say("pid") for _ in range(CALLS))))
        if len(pids) > 1:
            return True
    raise Unseen(f"{pids} served every call")


CONVERSING: dict[str, Callable[[Conversation], Awaitable[Any]]] = {
    "progress": progress,
    "blocking_progress": lambda conversation: progress(conversation, "count_blocking"),
    "log_messages": logged,
    "elicitation_accepted": lambda conversation: conversation.asking("book", city="Oslo"),
    "elicitation_declined": lambda conversation: conversation.asking("book", city="Bergen"),
    "blocking_elicitation": lambda conversation: conversation.asking("book_blocking", city="Oslo"),
    "sampling": lambda conversation: conversation.asking("summarise", text="all"),
    "roots": lambda conversation: conversation.asking("folders"),
    "several_questions": lambda conversation: conversation.asking("several"),
    "explicit_question": lambda conversation: conversation.asking("explicit"),
    "prompt_that_asks": prompt_asks,
    "resource_that_asks": resource_asks,
    "list_changed": list_changed,
    "resource_updated": resource_updated,
    "cancelled_question": cancelled_question,
    "several_workers": several_workers,
}


async def converse(era: str, place: Place) -> None:
    conversation = Conversation(era, place)
    async with conversation.client:
        for name, feature in CONVERSING.items():
            await report(name, lambda feature=feature: feature(conversation))


async def routed_resources(era: str, place: Place) -> Any:
    """See resources that the author's own functions list and read."""
    async with connect(MODES[era], place, "routed") as client:
        uris = [resource.uri for page in await pages(client.list_resources) for resource in page.resources]
        return [uris, seen(await client.read_resource("any://9"))]


async def negotiated(era: str, place: Place) -> Any:
    """See which version the client finds by itself."""
    if era == "handshake":
        raise Unseen("a client that negotiates finds the stateless era")
    async with connect("auto", place) as client:
        assert client.server_info is not None
        return [client.protocol_version, client.server_info.name, client.instructions]


async def older_versions(era: str, place: Place) -> Any:
    raise Unseen("the client offers only the newest handshake version")


async def explore(era: str, *where: str) -> None:
    """Use every feature once."""
    place = Place(*where)
    async with connect(MODES[era], place) as client:
        for name, feature in features():
            await report(name, lambda feature=feature: feature(client))
    apart = {"routed_resources": routed_resources, "negotiation": negotiated, "older_versions": older_versions}
    for name, feature in apart.items():
        await report(name, lambda feature=feature: feature(era, place))
    await converse(era, place)


async def visit(place: Place) -> Any:
    """Use one session of the handshake era, and return what was listed, asked and answered, and by which processes."""
    conversation = Conversation("handshake", place)
    async with conversation.client as client:
        listed = {tool.name for tool in (await client.list_tools()).tools}
        pids = await asyncio.gather(*(conversation.say("pid") for _ in range(4)))
        _, said = await conversation.asking("book", city="Oslo")
        return {"lists": "book" in listed, "said": said, "pids": [*pids, await conversation.say("pid")]}


async def sessions(count: str, url: str) -> None:
    """Open, use and close many sessions, one after the other."""
    place = Place("http", "", "", url)
    for number in range(int(count)):
        await report(str(number), lambda: visit(place))


async def main(what: str, *where: str) -> None:
    await (sessions(*where) if what == "sessions" else explore(what, *where))


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    anyio.run(main, *sys.argv[1:])
