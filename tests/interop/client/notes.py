"""What a client sees of `notes_server.py` on either of the Python SDKs."""

from __future__ import annotations

import asyncio
from typing import Any

from dragoman import Client
from interop.client.visit import PAGE, Recipes, Told, Unseen, Visit, every_page, names, some, wire

NOTES = Recipes()
PIXEL = "R0lGODlhAQABAAAAACwAAAAAAQABAAA="
MOTTO = "note://motto"
TOOLS = [
    *("greet", "add", "weather", "picture", "embedded", "link", "fail", "count", "talk", "wait", "was_given_up"),
    *("book", "think", "where", "sign_in", "touch", "grow"),
]
CALLS = 32


def by_server(**expected: Any) -> Any:
    return lambda server, version: expected[server]


@NOTES.shows(lambda server, version: ["Notes", "1.2", "Keep notes.", version, True])
async def connects(visit: Visit) -> Any:
    client = visit.client
    assert client.server_info is not None
    info = client.server_info
    return [info.name, info.version, client.instructions, client.protocol_version, await client.ping()]


@NOTES.shows(lambda server, version: [name for name in TOOLS if name != "touch" or server != "fastmcp"])
async def tools(visit: Visit) -> Any:
    return names(await visit.client.tools())


@NOTES.shows(["note://motto", "note://pixel"])
async def resources(visit: Visit) -> Any:
    return [resource.uri for resource in some(await visit.client.resources())]


@NOTES.shows(["note://about/{topic}"])
async def resource_templates(visit: Visit) -> Any:
    return [template.uri_template for template in some(await visit.client.resource_templates())]


@NOTES.shows({"welcome": [("name", True), ("tone", False)], "sketch": []})
async def prompts(visit: Visit) -> Any:
    found = some(await visit.client.prompts())
    return {prompt.name: [(part.name, bool(part.required)) for part in prompt.arguments] for prompt in found}


@NOTES.shows([5, 5, 5, 1])
async def pages(visit: Visit) -> Any:
    sizes = [len(page.tools) for page in await every_page(visit)]
    if len(sizes) == 1:
        raise Unseen("there is one page")
    return sizes


@NOTES.shows("Hello Jo")
async def text(visit: Visit) -> Any:
    return await visit.call("greet", name="Jo")


@NOTES.shows({"city": "Oslo", "degrees": 7.5})
async def structured_object(visit: Visit) -> Any:
    return (await visit.client.call_tool("weather", {"city": "Oslo"})).structured


@NOTES.shows(by_server(mcp={"result": 42}, fastmcp=42, typescript={"result": 42}))
async def structured_number(visit: Visit) -> Any:
    return (await visit.client.call_tool("add", {"a": 40, "b": 2})).structured


@NOTES.shows([{"type": "image", "data": PIXEL, "mimeType": "image/gif"}])
async def image(visit: Visit) -> Any:
    return await visit.content("picture")


@NOTES.shows([{"type": "resource", "resource": {"uri": MOTTO, "text": "Onwards"}}])
async def embedded_resource(visit: Visit) -> Any:
    return await visit.content("embedded")


@NOTES.shows([{"type": "resource_link", "uri": MOTTO, "name": "motto"}])
async def resource_link(visit: Visit) -> Any:
    return await visit.content("link")


@NOTES.shows([{"type": "text"}])
async def annotations(visit: Visit) -> Any:
    sent = await visit.content("greet", name="Jo")
    if not any("annotations" in block for block in sent):
        raise Unseen("nothing is annotated")
    return sent


@NOTES.shows(
    by_server(
        mcp=("ToolError", "Error executing tool fail: Out of ink"),
        fastmcp=("ToolError", "Out of ink"),
        typescript=("ToolError", "Out of ink"),
    )
)
async def failed_tool(visit: Visit) -> Any:
    return await visit.failure(visit.call("fail"))


@NOTES.shows(("ToolError", True))
async def wrong_arguments(visit: Visit) -> Any:
    kind, said = await visit.failure(visit.call("add", a="x", b=1))
    return kind, "integer" in said or "expected number" in said


@NOTES.shows(
    by_server(
        mcp=("ToolError", "Unknown tool: nope"),
        fastmcp=("ToolError", "Unknown tool: 'nope'"),
        typescript=("InvalidParams", "Tool nope not found"),
    )
)
async def unknown_tool(visit: Visit) -> Any:
    return await visit.failure(visit.call("nope"))


@NOTES.shows("Onwards")
async def resource_text(visit: Visit) -> Any:
    return await (await visit.client.resource("motto")).content()


@NOTES.shows(b"GIF89a")
async def resource_blob(visit: Visit) -> Any:
    sent = await (await visit.client.resource("note://pixel")).content()
    assert isinstance(sent, bytes)
    return sent[:6]


@NOTES.shows("All about tea")
async def resource_from_template(visit: Visit) -> Any:
    return await (await visit.client.resource_template("about")).fetch(topic="tea")


@NOTES.shows(("InvalidParams", True))
async def missing_resource(visit: Visit) -> Any:
    kind, said = await visit.failure(visit.client.read_resource("note://nothing"))
    if kind == "MethodNotFound":
        raise Unseen("the server has no resources")
    return kind, "note://nothing" in said


@NOTES.shows(["Welcome Jo in a wry tone", "Welcome Jo in a warm tone"])
async def prompt(visit: Visit) -> Any:
    welcome = await visit.client.prompt("welcome")
    got = [await welcome.fetch(name="Jo", tone="wry"), await welcome.fetch(name="Jo")]
    return [wire(result.messages)[0]["content"]["text"] for result in got]


@NOTES.shows(["text", "image"])
async def prompt_with_media(visit: Visit) -> Any:
    got = await visit.client.get_prompt("sketch")
    return [message["content"]["type"] for message in wire(got.messages)]


@NOTES.shows((["warm", "wry", "name=Jo"], 3, False))
async def completion_of_prompt(visit: Visit) -> Any:
    found = await (await visit.client.prompt("welcome")).complete("tone", "w", {"name": "Jo"})
    return found.values, found.total, found.has_more


@NOTES.shows(["tea", "time"])
async def completion_of_template(visit: Visit) -> Any:
    return (await (await visit.client.resource_template("about")).complete("topic", "t")).values


@NOTES.shows([(1, 3, "step 1"), (2, 3, "step 2"), (3, 3, "step 3"), "counted 3"])
async def progress(visit: Visit) -> Any:
    seen: list[Any] = []
    result = await visit.client.call_tool("count", {"steps": 3}, on_progress=lambda *told: seen.append(told))
    return [*seen, result.text]


@NOTES.shows(
    by_server(
        mcp=[("info", "quiet", "notes"), ("error", {"loud": True}, "notes")],
        typescript=[("info", "quiet", "notes"), ("error", {"loud": True}, "notes")],
        fastmcp=[
            ("info", {"msg": "quiet", "extra": None}, "notes"),
            ("error", {"msg": "loud", "extra": None}, "notes"),
        ],
    )
)
async def log_messages(visit: Visit) -> Any:
    visit.logs.clear()
    await visit.call("talk")
    await visit.logs.until(lambda logs: len(logs) >= 2)
    return [(message.level, message.data, message.logger) for message in visit.logs]


@NOTES.shows(["error"])
async def log_level(visit: Visit) -> Any:
    await visit.client.set_log_level("error")
    try:
        visit.logs.clear()
        await visit.call("talk")
        await visit.logs.until(lambda logs: any(message.level == "error" for message in logs))
        if len(visit.logs) > 1:
            raise Unseen("the level makes no difference")
        return [message.level for message in visit.logs]
    finally:
        await visit.client.set_log_level("debug")


@NOTES.shows([f"Hello {number}" for number in range(CALLS)])
async def concurrent_calls(visit: Visit) -> Any:
    return await asyncio.gather(*(visit.call("greet", name=str(number)) for number in range(CALLS)))


@NOTES.shows(["yes", "Hello Jo"])
async def cancellation(visit: Visit) -> Any:
    await visit.given_up("wait")
    return [await visit.call("was_given_up"), await visit.call("greet", name="Jo")]


@NOTES.shows(["Timeout", "Hello Jo"])
async def time_out(visit: Visit) -> Any:
    kind, _ = await visit.failure(visit.client.call_tool("wait", timeout=0.2))
    return [kind, await visit.call("greet", name="Jo")]


@NOTES.shows(["Are you sure?", "booked 3"])
async def elicitation_accepted(visit: Visit) -> Any:
    visit.asked.clear()
    visit.answer = {"sure": True, "seats": 3}
    said = await visit.call("book")
    return [*visit.asked, said]


@NOTES.shows("decline")
async def elicitation_declined(visit: Visit) -> Any:
    visit.answer = False
    return await visit.call("book")


@NOTES.shows([PAGE, "accept"])
async def page_to_visit(visit: Visit) -> Any:
    visit.asked.clear()
    said = await visit.call("sign_in")
    return [*visit.asked, said]


@NOTES.shows(("UrlElicitationRequired", PAGE))
async def page_as_an_error(visit: Visit) -> Any:
    raise Unseen("the server has no tool that refuses until a page was visited")


@NOTES.shows(["tea", "unknown says forty-two"])
async def sampling(visit: Visit) -> Any:
    visit.asked.clear()
    said = await visit.call("think", topic="tea")
    return [*visit.asked, said]


@NOTES.shows(True)
async def roots(visit: Visit) -> Any:
    return await visit.call("where") == visit.root.as_uri()


@NOTES.shows(True)
async def changed_roots(visit: Visit) -> Any:
    beside = visit.root / "beside"
    beside.mkdir()
    visit.client.roots.add(beside)
    try:
        return await visit.call("where") == f"{visit.root.as_uri()}, {beside.as_uri()}"
    finally:
        visit.client.roots.remove(beside)


@NOTES.shows([MOTTO, MOTTO])
async def subscription(visit: Visit) -> Any:
    told = Told()
    await visit.client.subscribe(MOTTO, told.take)
    await visit.call("touch", uri=MOTTO)
    await told.until(bool)
    await visit.updates.until(bool)
    return [told[0], visit.updates[0]]


@NOTES.shows("quiet")
async def end_of_subscription(visit: Visit) -> Any:
    visit.updates.clear()
    await visit.client.subscribe(MOTTO)
    await visit.call("touch", uri=MOTTO)
    await visit.updates.until(bool)
    await visit.client.unsubscribe(MOTTO)
    for _ in range(50):
        visit.updates.clear()
        await visit.call("touch", uri=MOTTO)
        await visit.call("greet", name="Jo")
        if not visit.updates:
            return "quiet"
    raise Unseen("updates go on")


@NOTES.shows(["grew", True])
async def list_changed(visit: Visit) -> Any:
    before = names(await visit.client.tools())
    if visit.client.capabilities.resources and visit.client.capabilities.resources.subscribe:
        await visit.client.subscribe(MOTTO)  # which returns when the server has acknowledged all that is wanted
    visit.changes.clear()
    said = await visit.call("grow")
    await visit.changes.until(lambda changes: "tools" in changes)
    return [said, names(await visit.client.tools()) == [*before, "grown"]]


@NOTES.shows("forty-two")
async def task(visit: Visit) -> Any:
    raise Unseen("the server has no tool that runs as a task")


def use_notes(client: Client) -> Any:
    seen: list[Any] = []
    said = client.call_tool("count", {"steps": 2}, on_progress=lambda *told: seen.append(told[0])).text
    motto, welcome = client.resource("motto").content(), client.prompt("welcome").fetch(name="Jo")
    asked = client.tool("book")().text
    return [client.tools()[0].name, seen, said, motto, wire(welcome.messages)[0]["content"]["text"], asked]


@NOTES.shows(["greet", [1, 2], "counted 2", "Onwards", "Welcome Jo in a warm tone", "booked 2"])
async def blocking_client(visit: Visit) -> Any:
    visit.answer = {"sure": True}
    return await visit.blocking(use_notes)
