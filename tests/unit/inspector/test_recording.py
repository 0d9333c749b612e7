"""What the inspector records of its own clients over HTTP: heads, bodies, events, and failures."""

from aiohttp import web

from dragoman import Server
from scenarios.inspector_page import connected_page, open_page, serving, serving_mcp


def shop():
    server = Server("shop", version="1")

    @server.tool
    async def add(a: int, b: int) -> int:
        """Adds."""
        return a + b

    return server


async def test_heads_and_bodies_of_http_are_recorded_with_their_secrets_masked():
    async with serving_mcp(shop()) as url, open_page() as page:
        own = {"X-Tenant-Secret": "another-secret"}
        given = {"target": url, "token": "a-very-secret-token", "headers": own}
        [added] = (await page.call("servers/add", **given))["servers"]
        await page.call("servers/connect", server=added["id"])
        outcome = await page.tool(added["id"], "add", {"a": 1, "b": 2})
        assert outcome["result"]["structuredContent"] == {"result": 3}
        rows = (await page.call("traffic/rows", filter="kind:*"))["rows"]
        exchange = next(row["exchange"] for row in rows if row["number"] == outcome["row"])
        own = [row for row in rows if row["exchange"] == exchange]
        assert [(row["sender"], row["kind"]) for row in own] == [
            ("client", "request"),
            ("client", "message"),
            ("server", "response"),
            ("server", "message"),
        ]
        assert own[0]["summary"] == "POST /mcp"
        head = (await page.call("traffic/message", number=own[0]["number"]))["head"]
        sent = {name.lower(): value for name, value in head["headers"]}
        assert (sent["authorization"], sent["mcp-protocol-version"]) == ("Bearer ***", "2026-07-28")
        assert (await page.call("traffic/message", number=own[2]["number"]))["head"]["status"] == 200
        _, saved = await page.post("traffic/save")
        assert b"a-very-secret-token" not in saved
        assert (sent["x-tenant-secret"], b"another-secret" in saved) == ("***", False)


EVENTS = b"""id: 7
data: {"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"hello"}}

data: {"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":"done"}]}}

"""


async def test_events_of_a_stream_are_recorded_one_by_one_and_belong_to_their_call():
    server = shop()

    async def handle(request):
        if request.method != "POST":
            return web.Response(status=405)
        message = await request.json()
        if message.get("method") != "tools/call":
            answer = await server.handle_json_async(await request.read())
            return web.Response(status=202 if answer is None else 200, body=answer, content_type="application/json")
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        for part in EVENTS.replace(b"%s", str(message["id"]).encode()).splitlines(keepends=True):
            await response.write(part)
        return response

    async with serving(handle) as url, connected_page(url) as (page, id):
        outcome = await page.tool(id, "add", {"a": 1, "b": 2})
        assert outcome["result"]["content"][0]["text"] == "done"
        call = (await page.call("traffic/message", number=outcome["row"]))["row"]
        rows = (await page.call("traffic/rows", filter=f"span:{call['span']}"))["rows"]
        assert [(row["what"], row["method"], row["event"]) for row in rows] == [
            ("request", "tools/call", None),
            ("notification", "notifications/message", "7"),
            ("response", "tools/call", None),
        ]


async def test_a_server_that_ends_the_connection_leaves_a_note():
    async def handle(request):
        request.transport.abort()
        return web.Response()

    async with serving(handle) as url, open_page() as page:
        added = await page.added(url)
        refused = await page.refused("servers/connect", server=added["id"])
        assert refused.status == 502
        notes = (await page.call("traffic/rows", filter="kind:note error"))["rows"]
        assert "there is no response" in notes[0]["summary"]


async def test_a_status_that_refuses_is_an_error_of_the_traffic():
    async def handle(request):
        return web.Response(status=503, text="closed for today")

    async with serving(handle) as url, open_page() as page:
        added = await page.added(url)
        refused = await page.refused("servers/connect", server=added["id"])
        assert (refused.error["kind"], refused.error["status"]) == ("HttpError", 503)
        rows = (await page.call("traffic/rows", filter="kind:response error"))["rows"]
        assert rows[0]["summary"] == "status 503"
        texts = (await page.call("traffic/rows", filter='"closed for today"'))["rows"]
        assert {row["kind"] for row in texts} == {"text"}
