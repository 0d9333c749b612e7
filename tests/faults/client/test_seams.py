"""A client at its seams: ends, time-outs and answers that meet, and answers that nobody can read."""

import asyncio
import gc
import json
import re
import sys
import traceback
import weakref

import aiohttp
import pytest

from dragoman import AsyncClient
from dragoman.client.answer.elicitation import ElicitationRequest
from dragoman.errors import InternalError, Timeout, TransportError, ValidationError
from dragoman.runtime.network import Network
from dragoman.transports.web.legacy_sse import LegacySse
from scenarios.http_peer import DEADLINE
from scenarios.raw_http import answering, chunk, classic, event, modern, reply, stream_head
from scenarios.scripted_server import HOLD, ScriptedServer

DONE = {"content": [{"type": "text", "text": "done"}]}


async def no_headers() -> dict[str, str]:
    return {}


class Stuck:
    """A transport of one method, whose tools never return."""

    def __init__(self) -> None:
        self.is_stuck = asyncio.Event()

    async def send_request(self, request):
        if request["method"] == "initialize":
            info = {"name": "stuck", "version": "1"}
            return {"result": {"protocolVersion": "2025-06-18", "capabilities": {}, "serverInfo": info}}
        self.is_stuck.set()
        return await asyncio.Event().wait()


@pytest.mark.parametrize("serve", [modern, classic])
async def test_a_call_without_any_response_ends_when_the_client_stops_though_the_session_is_the_authors(serve):
    asked = asyncio.Event()

    async def silent(request, writer):
        asked.set()
        await asyncio.Event().wait()

    async with answering(serve(silent)) as server, aiohttp.ClientSession() as session:
        client = AsyncClient(server.url, network=Network(session=session))
        call = asyncio.create_task(client.call_tool("any"))
        await asyncio.wait_for(asked.wait(), DEADLINE)
        await client.stop()
        with pytest.raises(TransportError, match="closed while a request waited"):
            await asyncio.wait_for(call, DEADLINE)
        assert not call.cancelled()


@pytest.mark.parametrize("mode", ["handshake", "stateless", "sse"])
async def test_an_answer_that_is_no_http_puts_no_secret_of_the_address_into_a_traceback(mode):
    async def garble(reader, writer):
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"\x00 garbled")
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(garble, "127.0.0.1", 0)
    url = f"http://ada:the-password@127.0.0.1:{server.sockets[0].getsockname()[1]}/mcp?key=the-key"
    target = {"url": url, "type": "sse"} if mode == "sse" else url
    client = AsyncClient(target, **({} if mode == "sse" else {"mode": mode}), headers={"X-Key": "the-header"})
    async with server:
        with pytest.raises(TransportError) as raised:
            await client.start()
        await client.stop()
    told = "".join(traceback.format_exception(raised.value))
    assert not re.search("the-password|the-key|the-header", told), told


async def test_a_call_that_is_stuck_in_an_authors_transport_ends_when_the_client_stops():
    transport = Stuck()
    client = AsyncClient(transport, mode="handshake")
    call = asyncio.create_task(client.call_tool("any"))
    await asyncio.wait_for(transport.is_stuck.wait(), DEADLINE)
    await client.stop()
    with pytest.raises(TransportError, match="closed while a request waited"):
        await asyncio.wait_for(call, DEADLINE)


@pytest.mark.parametrize("serve", [modern, classic])
async def test_a_client_that_was_stopped_while_a_stream_was_read_is_collected(serve):
    begun = asyncio.Event()

    async def silent(request, writer):
        writer.write(stream_head() + chunk(event({"jsonrpc": "2.0", "method": "notifications/begun"})))
        await asyncio.Event().wait()

    async with answering(serve(silent)) as server:
        client = AsyncClient(server.url, on_notification=lambda _: begun.set())
        gone = weakref.ref(client)
        call = asyncio.create_task(client.call_tool("any"))
        await asyncio.wait_for(begun.wait(), DEADLINE)
        await client.stop()
        await asyncio.wait([call])
        assert isinstance(call.exception(), TransportError)
        del call, client
        await asyncio.sleep(0)
        gc.collect()
        assert gone() is None


async def test_what_was_posted_to_an_old_server_is_not_kept():
    async def script(request, writer):
        if request.verb == "GET":
            writer.write(stream_head() + chunk(event("/messages", name="endpoint")))
            await asyncio.Event().wait()
        return reply(202, b"Accepted", "text/plain")

    async with answering(script) as server:
        transport = LegacySse(server.url, no_headers)
        await transport.open(pytest.fail, pytest.fail)
        for _ in range(5):
            await transport.send(b'{"jsonrpc": "2.0", "method": "notifications/initialized"}')
        assert len(transport._http._open) == 1
        await transport.close()


def malformed(id: int, value: str) -> list[str]:
    """Answers that are no JSON, as servers of several languages would write them."""
    return [
        f'{{"jsonrpc":"2.0","id":{id},"result":{{"structuredContent":{value}}}}}',
        f'{{"result":{{"structuredContent":{value}}},"jsonrpc":"2.0","id":{id}}}',
        f'{{ "result": {{"structuredContent": {value}}}, "id": {id}, "jsonrpc": "2.0" }}',
    ]


@pytest.mark.parametrize("form", range(3))
@pytest.mark.parametrize("value", ["NaN", r'"\ud83d"', "[" * 200 + "]" * 200], ids=["nan", "surrogate", "depth"])
async def test_an_answer_that_cannot_be_read_fails_its_request_at_once(value, form):
    server = ScriptedServer({"tools/call": HOLD})
    async with AsyncClient(server, mode="handshake", timeout=3600) as client:
        call = asyncio.create_task(client.call_tool("any"))
        await server.until(lambda: server.sent("tools/call"))
        server._receive(malformed(server.received[-1]["id"], value)[form].encode())
        with pytest.raises(InternalError, match="malformed"):
            await asyncio.wait_for(call, DEADLINE)


@pytest.mark.parametrize(
    "said",
    [
        '{"jsonrpc":"2.0","id":%d,"method":"ping","params":{"a":NaN}}',
        '{"method":"ping","params":{"result":NaN},"jsonrpc":"2.0","id":%d}',
        '{"result":{"result":NaN,"x":{"id":%d}}}',
    ],
)
async def test_a_request_of_the_server_that_cannot_be_read_fails_none_of_the_client(said):
    server = ScriptedServer({"tools/call": HOLD})
    async with AsyncClient(server, mode="handshake") as client:
        call = asyncio.create_task(client.call_tool("any"))
        await server.until(lambda: server.sent("tools/call"))
        id = server.received[-1]["id"]
        server._receive((said % id).encode())
        server.answer(id, DONE)
        assert (await asyncio.wait_for(call, DEADLINE)).text == "done"


async def test_an_answer_counts_that_came_in_the_turn_in_which_its_time_was_up():
    server = ScriptedServer({"tools/call": HOLD})
    async with AsyncClient(server, mode="handshake") as client:
        call = asyncio.create_task(client.call_tool("any"))
        await server.until(lambda: server.sent("tools/call"))
        connection = client._session.connections.current
        (waiting,) = connection._clocks.running
        server._receive(json.dumps({"jsonrpc": "2.0", "id": server.received[-1]["id"], "result": DONE}).encode())
        waiting.expire()
        assert (await asyncio.wait_for(call, DEADLINE)).text == "done"
        assert not call.cancelling()


class Converting(ScriptedServer):
    """A transport that makes an error of its own of a cancellation."""

    async def send(self, message: bytes) -> None:
        await super().send(message)
        if json.loads(message).get("method") == "tools/call":
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                raise OSError("interrupted") from None


async def test_a_task_is_not_taken_for_cancelled_after_a_transport_made_an_error_of_a_time_out():
    async with AsyncClient(Converting({"tools/call": HOLD}), mode="handshake") as client:
        with pytest.raises(TransportError):
            await client.call_tool("any", timeout=0.01)
        assert not asyncio.current_task().cancelling()


async def test_a_time_out_inside_of_a_time_out_is_the_one_whose_time_was_up():
    async with AsyncClient(ScriptedServer({"tools/call": HOLD}), mode="handshake") as client:
        with pytest.raises(Timeout):
            async with asyncio.timeout(DEADLINE):
                await client.call_tool("any", timeout=0.01)
        with pytest.raises(TimeoutError) as caught:
            async with asyncio.timeout(0.01):
                await client.call_tool("any", timeout=DEADLINE)
        assert not isinstance(caught.value, Timeout)
        assert not asyncio.current_task().cancelling()


async def test_a_server_that_pings_all_the_time_does_not_keep_a_call_from_timing_out():
    class Pinging(ScriptedServer):
        pings = 0

        async def send(self, message: bytes) -> None:
            await super().send(message)
            if "result" in json.loads(message) or json.loads(message).get("method") == "tools/call":
                self.pings += 1
                self._loop.call_later(0.01, lambda: self.say("ping", id=f"ping {self.pings}"))

    server = Pinging({"tools/call": HOLD})
    async with AsyncClient(server, mode="handshake") as client:
        with pytest.raises(Timeout):
            await asyncio.wait_for(client.call_tool("any", timeout=0.2), DEADLINE)
        assert server.pings > 1


@pytest.mark.parametrize(
    "url",
    [
        "https://\n\x00evil.example/",
        "https://good.example/\x1b[2K\rhttps://evil.example",
        "https://good.example\\@evil.example/",
        "https://evil.example:99999999/",
        " https://evil.example/",
        "javascript:alert(1)//https://good.example",
    ],
)
def test_a_page_is_not_shown_whose_address_misleads(url):
    with pytest.raises(ValidationError, match="http or https url"):
        ElicitationRequest("Visit", mode="url", url=url)


@pytest.mark.skipif(sys.version_info < (3, 12), reason="tasks are eager from Python 3.12 on")
async def test_a_question_of_the_server_is_answered_where_tasks_are_eager():
    asyncio.get_running_loop().set_task_factory(asyncio.eager_task_factory)
    server = ScriptedServer()
    async with AsyncClient(server, mode="handshake", roots=["/"]):
        server.say("roots/list", id="q")
        await server.until(lambda: any("result" in message for message in server.received))
        assert [message["id"] for message in server.received if "result" in message] == ["q"]
