"""A page of the inspector, without a browser: it calls verbs over HTTP and reads the socket of events."""

import asyncio
import json
import sys
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
from aiohttp import web

from dragoman.inspector.inspector import Inspector
from dragoman.inspector.targets import targets_of
from dragoman.inspector.verbs.traffic import MAX_ROWS
from dragoman.inspector.web import InspectorSite

DEADLINE = 60
SERVER = [sys.executable, str(Path(__file__).with_name("inspected_server.py"))]
COMMAND = {"command": SERVER[0], "args": SERVER[1:]}
STATELESS = {"command": SERVER[0], "args": [*SERVER[1:], "stateless"]}


class Refused(AssertionError):
    """What the backend answered instead of a result."""

    def __init__(self, status, error):
        super().__init__(f"{status}: {error}")
        self.status, self.error = status, error


class Page:
    """A page that is open."""

    def __init__(self, origin, token, session):
        self.origin, self.token, self.session = origin, token, session
        self.events = []
        self._arrived = asyncio.Condition()

    async def post(self, verb, body=None, *, headers=None, data=None):
        """Post to a verb, and return the response with its body."""
        own = {"X-Dragoman-Token": self.token, **(headers or {})}
        sent = {"data": data} if data is not None else {"json": body or {}}
        async with self.session.post(f"{self.origin}/api/{verb}", headers=own, **sent) as response:
            return response, await response.read()

    async def call(self, verb, **body):
        """Return the result of a verb."""
        response, data = await self.post(verb, body)
        if response.status != 200:
            raise Refused(response.status, json.loads(data)["error"])
        return json.loads(data)

    async def refused(self, verb, **body):
        """Return why a verb is refused."""
        try:
            found = await self.call(verb, **body)
        except Refused as refused:
            return refused
        raise AssertionError(f"{verb} was not refused: {found}")

    @asynccontextmanager
    async def another(self):
        """Open another page."""
        page = Page(self.origin, self.token, self.session)
        async with page.listening():
            yield page

    @asynccontextmanager
    async def listening(self):
        """Read events in the background."""
        async with self.session.ws_connect(f"{self.origin}/api/events") as socket:
            await socket.send_json({"token": self.token})
            reading = asyncio.get_running_loop().create_task(self.read_events(socket))
            try:
                await self.event("hello")
                yield
            finally:
                await socket.close()
                await reading

    async def read_events(self, socket):
        async for message in socket:
            async with self._arrived:
                self.events.append(message.json())
                self._arrived.notify_all()

    async def event(self, kind, fits=lambda event: True):
        """Return the first event of a kind that fits, and wait for it."""

        def found():
            return next((event for event in self.events if event["event"] == kind and fits(event)), None)

        async with self._arrived, asyncio.timeout(DEADLINE):
            await self._arrived.wait_for(found)
        return found()

    async def row(self, filter):
        """Return the first row that matches, and wait for it."""
        async with asyncio.timeout(DEADLINE):
            while True:
                heard = len(self.events)
                if rows := (await self.call("traffic/rows", filter=filter, limit=MAX_ROWS))["rows"]:
                    return rows[0]
                async with self._arrived:
                    if len(self.events) == heard:
                        await self._arrived.wait()

    async def added(self, target):
        """Add a server, and return its facts."""
        [server] = (await self.call("servers/add", target=target))["servers"]
        return server

    async def connected(self, target=None, **options):
        """Add a server, connect it, and return its id."""
        server = await self.added(target or COMMAND)
        await self.call("servers/connect", server=server["id"], **options)
        return server["id"]

    async def tool(self, server, name, arguments=None, key="k"):
        """Return the outcome of a call of a tool."""
        params = {"name": name, "arguments": arguments or {}}
        return await self.call("explore/request", server=server, method="tools/call", params=params, key=key)


@asynccontextmanager
async def open_page(*targets, static=None):
    """Serve an inspector, and open a page of it."""
    inspector = Inspector()
    given = {} if static is None else {"static": static}
    async with InspectorSite(inspector, **given) as site, aiohttp.ClientSession() as session:
        for target in targets:
            inspector.add(targets_of(target))
        page = Page(site.origin, site.token, session)
        page.inspector = inspector
        async with page.listening():
            yield page


@asynccontextmanager
async def connected_page(target=None, **options):
    """Open a page, connect a server, and return the page and the id of the server."""
    async with open_page() as page:
        yield page, await page.connected(target, **options)


@asynccontextmanager
async def serving(handler):
    """Serve HTTP on a free port with one handler, and return the URL of MCP."""
    application = web.Application(client_max_size=64 * 1024 * 1024)
    application.router.add_route("*", "/{path:.*}", handler)
    runner = web.AppRunner(application, access_log=None, shutdown_timeout=1)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        yield f"http://127.0.0.1:{runner.addresses[0][1]}/mcp"
    finally:
        await runner.cleanup()


@asynccontextmanager
async def serving_mcp(server):
    """Serve a server over HTTP; each answer is one JSON body."""

    async def handle(request):
        if request.method != "POST":
            return web.Response(status=405)
        answer = await server.handle_json_async(await request.read())
        if answer is None:
            return web.Response(status=202)
        return web.Response(body=answer, content_type="application/json")

    async with serving(handle) as url:
        yield url
