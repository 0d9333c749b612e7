"""What a client sees of the server-everything, one of the reference servers."""

from __future__ import annotations

import asyncio
import base64
import gzip
import json
from typing import Any

from dragoman import Client, UrlElicitationRequired
from interop.client.visit import PAGE, Recipes, Told, Unseen, Visit, names, wire

EVERYTHING = Recipes()
CALLS = 32

DOCUMENTS = "demo://resource/static/document/"
TEXTS, BLOBS = "demo://resource/dynamic/text/{resourceId}", "demo://resource/dynamic/blob/{resourceId}"
FIRST = "demo://resource/dynamic/text/1"


@EVERYTHING.shows(lambda server, version: ["mcp-servers/everything", "2.0.0", True, version, True])
async def connects(visit: Visit) -> Any:
    client = visit.client
    assert client.server_info is not None
    info = client.server_info
    return [info.name, info.version, bool(client.instructions), client.protocol_version, await client.ping()]


@EVERYTHING.shows(
    [
        *("echo", "get-annotated-message", "get-env", "get-resource-links", "get-resource-reference"),
        *("get-structured-content", "get-sum", "get-tiny-image", "gzip-file-as-resource", "toggle-simulated-logging"),
        *("toggle-subscriber-updates", "trigger-long-running-operation", "get-roots-list"),
        *("trigger-elicitation-request", "trigger-url-elicitation", "trigger-sampling-request"),
        *("simulate-research-query", "trigger-sampling-request-async", "trigger-elicitation-request-async"),
    ]
)
async def tools(visit: Visit) -> Any:
    return names(await visit.client.tools())


@EVERYTHING.shows(
    [
        *("architecture.md", "extension.md", "features.md", "how-it-works.md", "instructions.md", "startup.md"),
        "structure.md",
    ]
)
async def resources(visit: Visit) -> Any:
    return [resource.uri.removeprefix(DOCUMENTS) for resource in await visit.client.resources()]


@EVERYTHING.shows([TEXTS, BLOBS])
async def resource_templates(visit: Visit) -> Any:
    return [template.uri_template for template in await visit.client.resource_templates()]


@EVERYTHING.shows(
    {
        "simple-prompt": [],
        "args-prompt": [("city", True), ("state", False)],
        "completable-prompt": [("department", True), ("name", True)],
        "resource-prompt": [("resourceType", True), ("resourceId", True)],
    }
)
async def prompts(visit: Visit) -> Any:
    found = await visit.client.prompts()
    return {prompt.name: [(part.name, bool(part.required)) for part in prompt.arguments] for prompt in found}


@EVERYTHING.shows(["Echo: Jo", "The sum of 40 and 2 is 42.", True])
async def text(visit: Visit) -> Any:
    environment = json.loads(await visit.call("get-env"))
    return [await visit.call("echo", message="Jo"), await visit.call("get-sum", a=40, b=2), "PATH" in environment]


@EVERYTHING.shows({"temperature": 36, "conditions": "Light rain / drizzle", "humidity": 82})
async def structured_object(visit: Visit) -> Any:
    return (await visit.client.call_tool("get-structured-content", {"location": "Chicago"})).structured


@EVERYTHING.shows([("text", None), ("image", b"\x89PNG"), ("text", None)])
async def image(visit: Visit) -> Any:
    sent = await visit.content("get-tiny-image")
    return [(block["type"], base64.b64decode(block["data"])[:4] if "data" in block else None) for block in sent]


@EVERYTHING.shows(
    [(FIRST, "text"), ("demo://resource/dynamic/blob/2", "blob"), ("demo://resource/session/b.gz", "blob")]
)
async def embedded_resource(visit: Visit) -> Any:
    sent = [
        *await visit.content("get-resource-reference"),
        *await visit.content("get-resource-reference", resourceType="Blob", resourceId=2),
        *await visit.content("gzip-file-as-resource", name="b.gz", data="data:text/plain,hi", outputType="resource"),
    ]
    held = [block["resource"] for block in sent if block["type"] == "resource"]
    return [(resource["uri"], "text" if "text" in resource else "blob") for resource in held]


@EVERYTHING.shows(["Blob Resource 1", "Text Resource 2"])
async def resource_link(visit: Visit) -> Any:
    sent = await visit.content("get-resource-links", count=2)
    return [block["name"] for block in sent if block["type"] == "resource_link"]


@EVERYTHING.shows([{"priority": 1, "audience": ["user", "assistant"]}, {"priority": 0.5, "audience": ["user"]}])
async def annotations(visit: Visit) -> Any:
    sent = await visit.content("get-annotated-message", messageType="error", includeImage=True)
    return [block["annotations"] for block in sent]


@EVERYTHING.shows(("ToolError", True))
async def failed_tool(visit: Visit) -> Any:
    kind, said = await visit.failure(visit.call("gzip-file-as-resource", data="ftp://example.com/x"))
    return kind, "Unsupported URL protocol" in said


@EVERYTHING.shows(("ToolError", True))
async def wrong_arguments(visit: Visit) -> Any:
    kind, said = await visit.failure(visit.call("get-sum", a="x", b=1))
    return kind, "expected number" in said


@EVERYTHING.shows(("ToolError", "MCP error -32602: Tool nope not found"))
async def unknown_tool(visit: Visit) -> Any:
    return await visit.failure(visit.call("nope"))


@EVERYTHING.shows(7)
async def resource_text(visit: Visit) -> Any:
    return len([await found.content() for found in await visit.client.resources() if found.uri.startswith(DOCUMENTS)])


@EVERYTHING.shows(["a.gz", b"hello"])
async def resource_blob(visit: Visit) -> Any:
    [link] = await visit.content("gzip-file-as-resource", name="a.gz", data="data:text/plain,hello")
    read = await visit.client.read_resource(link["uri"])
    return [link["name"], gzip.decompress(base64.b64decode(read.contents[0].blob or ""))]


@EVERYTHING.shows([True, True])
async def resource_from_template(visit: Visit) -> Any:
    written = await (await visit.client.resource_template(TEXTS)).fetch(resourceId=1)
    blob = await (await visit.client.resource_template(BLOBS)).fetch(resourceId=2)
    return [
        isinstance(written, str) and written.startswith("Resource 1:"),
        isinstance(blob, bytes) and blob.startswith(b"Resource 2:"),
    ]


@EVERYTHING.shows(("InvalidParams", True))
async def missing_resource(visit: Visit) -> Any:
    kind, said = await visit.failure(visit.client.read_resource("demo://nothing"))
    return kind, "demo://nothing" in said


@EVERYTHING.shows(
    [
        "This is a simple prompt without arguments.",
        "What's weather in Oslo?",
        "Please promote David to the head of the Sales team.",
    ]
)
async def prompt(visit: Visit) -> Any:
    got = [
        await visit.client.get_prompt("simple-prompt"),
        await visit.client.get_prompt("args-prompt", {"city": "Oslo"}),
        await visit.client.get_prompt("completable-prompt", {"department": "Sales", "name": "David"}),
    ]
    return [wire(result.messages)[0]["content"]["text"] for result in got]


@EVERYTHING.shows(["text", "resource"])
async def prompt_with_media(visit: Visit) -> Any:
    got = await visit.client.get_prompt("resource-prompt", {"resourceType": "Text", "resourceId": 1})
    return [message["content"]["type"] for message in wire(got.messages)]


@EVERYTHING.shows([["Sales", "Support"], ["David"]])
async def completion_of_prompt(visit: Visit) -> Any:
    prompt = await visit.client.prompt("completable-prompt")
    first = await prompt.complete("department", "S")
    return [first.values, (await prompt.complete("name", "D", {"department": "Sales"})).values]


@EVERYTHING.shows(["3"])
async def completion_of_template(visit: Visit) -> Any:
    return (await (await visit.client.resource_template(TEXTS)).complete("resourceId", "3")).values


@EVERYTHING.shows([(1, 3, None), (2, 3, None), (3, 3, None)])
async def progress(visit: Visit) -> Any:
    seen: list[Any] = []
    arguments = {"duration": 0.03, "steps": 3}
    await visit.client.call_tool("trigger-long-running-operation", arguments, on_progress=lambda *t: seen.append(t))
    return seen


@EVERYTHING.shows("info")
async def log_messages(visit: Visit) -> Any:
    visit.logs.clear()
    await visit.client.subscribe(FIRST)
    await visit.logs.until(lambda logs: any(FIRST in str(message.data) for message in logs))
    return next(message.level for message in visit.logs if FIRST in str(message.data))


@EVERYTHING.shows([])
async def log_level(visit: Visit) -> Any:
    await visit.client.set_log_level("error")
    visit.logs.clear()
    await visit.client.subscribe(FIRST)
    await visit.client.unsubscribe(FIRST)
    await visit.client.set_log_level("debug")
    await visit.client.unsubscribe(FIRST)
    await visit.logs.until(bool)
    return [message.data for message in visit.logs if "Received Subscribe" in str(message.data)]


@EVERYTHING.shows([f"Echo: {number}" for number in range(CALLS)])
async def concurrent_calls(visit: Visit) -> Any:
    return await asyncio.gather(*(visit.call("echo", message=str(number)) for number in range(CALLS)))


@EVERYTHING.shows("Echo: Jo")
async def cancellation(visit: Visit) -> Any:
    await visit.given_up("trigger-long-running-operation", duration=30, steps=300)
    return await visit.call("echo", message="Jo")


@EVERYTHING.shows(["Timeout", "Echo: Jo"])
async def time_out(visit: Visit) -> Any:
    slow = visit.client.call_tool("trigger-long-running-operation", {"duration": 30, "steps": 1}, timeout=0.2)
    kind, _ = await visit.failure(slow)
    return [kind, await visit.call("echo", message="Jo")]


@EVERYTHING.shows(["Please provide inputs for the following fields:", "Jo", "It was a dark and stormy night.", 42])
async def elicitation_accepted(visit: Visit) -> Any:
    visit.asked.clear()
    visit.answer = {"name": "Jo"}
    said = await visit.call("trigger-elicitation-request")
    filled = json.loads(said.partition("Raw result: ")[2])["content"]
    return [*visit.asked, filled["name"], filled["firstLine"], filled["integer"]]


@EVERYTHING.shows("decline")
async def elicitation_declined(visit: Visit) -> Any:
    visit.answer = False
    said = await visit.call("trigger-elicitation-request")
    return json.loads(said.partition("Raw result: ")[2])["action"]


@EVERYTHING.shows([PAGE, True])
async def page_to_visit(visit: Visit) -> Any:
    visit.asked.clear()
    said = await visit.call("trigger-url-elicitation", url=PAGE)
    return [*visit.asked, "User completed the URL elicitation" in said]


@EVERYTHING.shows(["https://modelcontextprotocol.io", True])
async def page_as_an_error(visit: Visit) -> Any:
    arguments = {"url": PAGE, "errorPath": True}
    try:
        await visit.call("trigger-url-elicitation", **arguments)
    except UrlElicitationRequired as refusal:
        page = refusal.data["elicitations"][0]["url"]
        return [page, "User completed" in await visit.call("trigger-url-elicitation", **arguments)]
    raise Unseen("it was not refused")


@EVERYTHING.shows([True, "forty-two"])
async def sampling(visit: Visit) -> Any:
    visit.asked.clear()
    said = await visit.call("trigger-sampling-request", prompt="tea")
    return ["tea" in visit.asked[0], json.loads(said.partition("\n")[2])["content"]["text"]]


@EVERYTHING.shows(True)
async def roots(visit: Visit) -> Any:
    return visit.root.as_uri() in await visit.call("get-roots-list")


@EVERYTHING.shows([True, True])
async def changed_roots(visit: Visit) -> Any:
    await visit.call("get-roots-list")  # the server listens to changes when it has asked once
    beside = visit.root / "beside"
    beside.mkdir()
    visit.logs.clear()
    visit.client.roots.add(beside)
    await visit.logs.until(lambda logs: any("Roots updated: 2" in str(message.data) for message in logs))
    listed = await visit.call("get-roots-list")
    visit.client.roots.remove(beside)
    return [visit.root.as_uri() in listed, beside.as_uri() in listed]


@EVERYTHING.shows([FIRST, FIRST])
async def subscription(visit: Visit) -> Any:
    told = Told()
    await visit.client.subscribe(FIRST, told.take)
    await visit.call("toggle-subscriber-updates")
    await told.until(bool)
    await visit.updates.until(bool)
    await visit.call("toggle-subscriber-updates")
    return [told[0], visit.updates[0]]


@EVERYTHING.shows("quiet")
async def end_of_subscription(visit: Visit) -> Any:
    await visit.client.subscribe(FIRST)
    await visit.client.unsubscribe(FIRST)
    visit.updates.clear()
    await visit.call("toggle-subscriber-updates")  # which tells of everything subscribed, at once
    await visit.call("toggle-subscriber-updates")
    if visit.updates:
        raise Unseen("updates go on")
    return "quiet"


@EVERYTHING.shows(True)
async def list_changed(visit: Visit) -> Any:
    await visit.client.resources()
    visit.changes.clear()
    await visit.call("gzip-file-as-resource", name="c.gz", data="data:text/plain,new")
    await visit.changes.until(lambda changes: "resources" in changes)
    return "demo://resource/session/c.gz" in [resource.uri for resource in await visit.client.resources()]


@EVERYTHING.shows(True)
async def task(visit: Visit) -> Any:
    return "Research" in await visit.call("simulate-research-query", topic="tea")


def use_everything(client: Client) -> Any:
    seen: list[Any] = []
    arguments = {"duration": 0.02, "steps": 2}
    client.call_tool("trigger-long-running-operation", arguments, on_progress=lambda *told: seen.append(told[0]))
    question = client.tool("trigger-elicitation-request")().text
    simple = wire(client.get_prompt("simple-prompt").messages)[0]["content"]["text"]
    return [
        client.tool("echo")(message="Jo").text,
        seen,
        bool(client.resource("startup.md").content()),
        simple,
        question[2:15],
    ]


@EVERYTHING.shows(["Echo: Jo", [1, 2], True, "This is a simple prompt without arguments.", "User provided"])
async def blocking_client(visit: Visit) -> Any:
    visit.answer = {"name": "Jo"}
    return await visit.blocking(use_everything)
