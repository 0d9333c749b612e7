"""Methods of a server's own that a client sends as notifications: they run, and nothing is answered."""

import asyncio
import json

import pytest

from dragoman import Configuration, Context, RpcError, Server, types
from dragoman.protocol.jsonrpc import encode
from dragoman.server.http import post as http_post
from dragoman.testing import WirePeer
from scenarios.http_carriers import CARRIERS, carrier
from scenarios.http_peer import BATCHING, NEWEST, SECRET, STATELESS, HttpPeer, serve
from scenarios.http_travels import Gate
from scenarios.wire import DEADLINE

ERAS = ["none", "2024-11-05", NEWEST, STATELESS]


class Acme:
    """A server that notes what it is notified of."""

    def __init__(self) -> None:
        self.noted: asyncio.Queue[object] = asyncio.Queue()
        self.reports: list[tuple[BaseException, types.Json]] = []
        configuration = Configuration(exception_reporter=lambda *report: self.reports.append(report))
        self.server = Server("acme", secret=SECRET, configuration=configuration)
        self.gate = Gate()

        @self.server.method("acme/note")
        async def note(text: str, ctx: Context) -> str:
            await ctx.info(text)
            self.noted.put_nowait((text, ctx.request_id))
            return text

        @self.server.method("notifications/acme/tick")
        async def tick() -> None:
            self.noted.put_nowait("tick")

        @self.server.method("acme/fail")
        async def fail(how: str) -> None:
            self.noted.put_nowait(how)
            raise RpcError(-32000, "refused") if how == "refused" else ValueError(how)

        @self.server.method("acme/wait")
        async def wait() -> None:
            await self.gate.wait()
            self.noted.put_nowait("waited")

    async def next(self) -> object:
        return await asyncio.wait_for(self.noted.get(), DEADLINE)


def notification(method: str, **params: object) -> types.Json:
    return {"jsonrpc": "2.0", "method": method, "params": params}


def post(peer: HttpPeer, method: str, **params: object):
    if peer.version == STATELESS:
        return peer.post(notification(method, **params, _meta=peer.meta()), {"mcp-protocol-version": STATELESS})
    return peer.post(notification(method, **params))


@pytest.mark.covers("CUS-02")
@pytest.mark.parametrize("era", ERAS)
async def test_it_runs_over_a_connection_and_nothing_is_answered(era):
    acme = Acme()
    async with WirePeer(acme.server, era) as peer:
        peer.notify("acme/note", {"text": "hello"})
        peer.notify("notifications/acme/tick")
        peer.notify("acme/unknown")
        assert [await acme.next(), await acme.next()] == [("hello", ""), "tick"]
        assert (await peer.request("acme/note", {"text": "asked"}))["result"]
        assert not [message for message in peer.received if message.get("id") == ""]
    assert not acme.reports


@pytest.mark.parametrize("how", ["crash", "refused"])
async def test_what_it_raises_is_reported_with_the_notification(how):
    acme = Acme()
    async with WirePeer(acme.server, NEWEST) as peer:
        peer.notify("acme/fail", {"how": how})
        peer.notify("acme/fail", {"wrong": 1})
        assert await acme.next() == how
        await peer.request("ping")
    errors = [(type(error), info) for error, info in acme.reports]
    assert errors[0] == ((RpcError if how == "refused" else ValueError), {"notification": "acme/fail"})
    assert "how" in str(acme.reports[1][0])


async def test_one_that_is_served_at_the_end_of_the_input_is_waited_for():
    acme = Acme()
    connection = acme.server.connect(lambda _: None)
    connection.receive(encode(notification("acme/wait")) + b"\n")
    connection.receive_end()
    await acme.gate.was_reached()
    draining = asyncio.ensure_future(connection.drain())
    acme.gate.opened.set()
    await asyncio.wait_for(draining, DEADLINE)
    assert await acme.next() == "waited"
    connection.close()


async def test_one_that_is_served_when_the_connection_closes_is_cancelled():
    acme = Acme()
    async with WirePeer(acme.server, NEWEST) as peer:
        peer.notify("acme/wait")
        await acme.gate.was_reached()
    await acme.gate.was_cancelled()
    assert not acme.reports


@pytest.mark.parametrize("version", [None, NEWEST, STATELESS])
def test_it_runs_by_handle_before_that_returns(version):
    acme = Acme()
    if version is not None:
        acme.server.configuration = Configuration(protocol_version=version)
    assert acme.server.handle(notification("acme/note", text="hello")) is None
    assert acme.server.handle_json(json.dumps(notification("acme/fail", how="crash"))) is None
    assert acme.noted.get_nowait() == ("hello", "")


def test_it_runs_by_a_view_before_that_returns():
    acme = Acme()
    headers = {"content-type": "application/json", "mcp-protocol-version": STATELESS}
    reply = acme.server.handle_http("POST", headers, json.dumps(notification("acme/note", text="hello")))
    assert (reply.status, reply.body) == (202, b"")
    assert acme.noted.get_nowait() == ("hello", "")


@pytest.mark.parametrize("carried_by", CARRIERS)
@pytest.mark.parametrize("version", [STATELESS, NEWEST, BATCHING])
@pytest.mark.parametrize("keeps_sessions", [True, False])
async def test_it_is_accepted_over_http_and_then_served(carried_by, version, keeps_sessions):
    carrier.set(carried_by)
    acme = Acme()
    peer = HttpPeer(serve(acme.server, sessions=keeps_sessions), version)
    if version != STATELESS and keeps_sessions:
        await peer.initialize()
    accepted = post(peer, "acme/wait")
    await acme.gate.was_reached()
    await accepted.until(lambda exchange: exchange.messages)
    assert accepted.status == 202
    acme.gate.opened.set()
    assert await acme.next() == "waited"
    assert (await accepted.end()).body == b""
    assert (await post(peer, "acme/fail", how="crash").end()).status == 202
    assert await acme.next() == "crash"
    assert [info for _, info in acme.reports] == [{"notification": "acme/fail"}]


async def test_it_runs_in_a_batch_too():
    acme = Acme()
    peer = HttpPeer(serve(acme.server), BATCHING)
    await peer.initialize()
    batch = [notification("acme/note", text="a"), {"jsonrpc": "2.0", "id": 1, "method": "ping"}]
    assert (await peer.post(batch).end()).json == [{"jsonrpc": "2.0", "id": 1, "result": {}}]
    assert await acme.next() == ("a", "")


async def test_a_client_that_sends_too_many_waits_until_they_are_served(monkeypatch):
    monkeypatch.setattr(http_post, "MAX_ACCEPTED_AHEAD", 1)
    acme = Acme()
    peer = HttpPeer(serve(acme.server), STATELESS)
    first, second = post(peer, "acme/wait"), post(peer, "acme/wait")
    await first.until(lambda exchange: exchange.messages)
    await acme.gate.was_reached()
    assert not second.messages
    acme.gate.opened.set()
    assert (await second.end()).status == 202
    await first.end()
