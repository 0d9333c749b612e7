"""The machines that have a table of states: every row, by what leads there, and that nothing else may happen."""

import asyncio
import inspect
import re
from itertools import product
from types import SimpleNamespace

import pytest

from dragoman import Server
from dragoman.client.connect import connection as client_connection
from dragoman.client.connect import reconnect
from dragoman.client.connect.connection import CONNECTION_LIFE
from dragoman.client.connect.connection import ServerConnection as ClientConnection
from dragoman.client.connect.reconnect import RECONNECTION, Connections
from dragoman.errors import ConnectError, TransportError
from dragoman.protocol.eras import Caller
from dragoman.protocol.extensions import CORE
from dragoman.protocol.versions import LATEST_HANDSHAKE
from dragoman.server import duplex as connection
from dragoman.server.duplex import LIFE, DuplexConnection
from dragoman.server.http import channels, streams
from dragoman.server.http import session as http_session
from dragoman.server.http.channels import CHANNEL_LIFE, ResumableChannel
from dragoman.server.http.session import SESSION_LIFE, LiveSession, SessionData
from dragoman.server.http.sessions import SessionRegistry
from dragoman.server.http.streams import STREAM_LIFE, Retention
from dragoman.server.http.workers import Workers
from dragoman.transports.contract import FunctionSink
from dragoman.transports.http import http1_parser
from dragoman.transports.http.http1_parser import PARSER_LIFE
from scenarios.client_peer import scenario
from scenarios.http_peer import SECRET
from unit.client.connect.test_reconnect import Connection as ScriptedConnection
from unit.client.connect.test_reconnect import Maker
from unit.server.http.test_streams import Reader, stream_alone

TABLES = {
    connection: LIFE,
    http_session: SESSION_LIFE,
    streams: STREAM_LIFE,
    channels: CHANNEL_LIFE,
    http1_parser: PARSER_LIFE,
    client_connection: CONNECTION_LIFE,
    reconnect: RECONNECTION,
}
ROWS = [
    (table, state, event)
    for table in TABLES.values()
    for state, event in product(sorted({state for state, _ in table}), sorted({event for _, event in table}))  # type: ignore[attr-defined]
]


@pytest.mark.parametrize(("table", "state", "event"), [row for row in ROWS if row[1:] not in row[0]])
def test_what_the_table_lacks_must_not_happen(table, state, event):
    with pytest.raises(RuntimeError, match=f"'{event}' must not happen in the state '{state}'"):
        table[state, event]


@pytest.mark.parametrize(("module", "table"), TABLES.items(), ids=lambda value: getattr(value, "__name__", ""))
def test_every_state_can_be_reached_and_is_explained_at_the_head_of_its_file(module, table):
    states = {state for state, _ in table} | set(table.values())
    begins = {"open", "new", "idle", "alive", "unopened"}
    assert states - begins <= set(table.values())
    assert not [state for state in states if not re.search(rf"\b{state}\b", inspect.getdoc(module))]


@scenario
@pytest.mark.parametrize(
    ("happens", "states"),
    [
        (["end", "end", "close", "close"], ["ending", "ending", "closed", "closed"]),
        (["close", "close", "end"], ["closed", "closed", "closed"]),
    ],
)
async def test_a_connection_of_a_server_ends_its_input_and_is_closed(happens, states):
    one, seen = DuplexConnection(Server().dispatcher, FunctionSink(lambda data: None)), []
    assert one._state == "open"
    for event in happens:
        one.receive_end() if event == "end" else one.close()
        seen.append(one._state)
        with pytest.raises(TransportError, match="gone"):
            await one.request("roots/list", {}, 5)
    assert seen == states


@scenario
@pytest.mark.parametrize("uses", [0, 1, 2])
async def test_a_session_is_new_used_and_ended(uses):
    server = Server(secret=SECRET)
    sessions = SessionRegistry(server.dispatcher)
    id = sessions.begin(SessionData(Caller(LATEST_HANDSHAKE)))
    session = sessions._local[id]
    assert session.state == "new"
    for _ in range(uses):
        assert sessions.find_local(id) is session
        assert session.state == "used"
    sessions._remove(id, was_ended=True)
    assert session.state == "ended"
    with pytest.raises(TransportError, match="The session has ended"):
        await session.ask(stream_alone(), "roots/list", {}, 5)


@scenario
async def test_who_waits_for_a_client_is_told_that_the_session_ended():
    server = Server(secret=SECRET)
    data = SessionData(Caller(LATEST_HANDSHAKE), "s")
    session = LiveSession(server.dispatcher, data, workers=Workers(server.dispatcher), retention=Retention())
    asking = asyncio.create_task(session.ask(stream_alone(), "roots/list", {}, 5))
    await asyncio.sleep(0)
    session.end()
    with pytest.raises(TransportError, match="The session has ended"):
        await asking


@scenario
async def test_a_stream_is_read_let_go_finished_and_read_again():
    stream, seen = stream_alone(), []
    for step in (
        lambda: stream.attach(Reader()),
        stream.detach,
        stream.detach,
        lambda: stream.attach(Reader()),
        lambda: stream.attach(Reader()),
        lambda: stream.add(b"{}"),
        lambda: stream.add(b"{}", last=True),
        stream.detach,
        lambda: stream.attach(Reader(), 0),
        lambda: stream.add(b"{}"),
    ):
        step()
        seen.append((stream.state, stream.is_finished, stream.reader is not None))
    read, finishing = ("read", False, True), ("finishing", True, True)
    idle, finished = ("idle", False, False), ("finished", True, False)
    assert seen == [read, idle, idle, read, read, read, finishing, finished, finishing, finishing]
    reader = stream.reader.exchange
    await stream.flush()
    assert (stream.state, reader.ended, reader.numbers) == ("finished", True, [1, 2])
    await stream.close()
    unread = stream_alone()
    unread.add(b"{}", last=True)
    assert unread.state == "finished"


@scenario
@pytest.mark.parametrize("steps", [["open", "end"], ["end", "open", "end"]])
async def test_a_channel_of_a_session_opens_its_stream_at_most_once_and_is_over_when_it_has_answered(steps):
    server = Server(secret=SECRET)
    data = SessionData(Caller(LATEST_HANDSHAKE), "s")
    session = LiveSession(server.dispatcher, data, workers=Workers(server.dispatcher), retention=Retention())
    channel = ResumableChannel(session, Reader(), 1, can_stream=True)
    assert channel._state == "unopened"
    for step in steps:
        channel.stream if step == "open" else channel.close()
        assert channel._state == ("over" if "end" in steps[: steps.index(step) + 1] else "opened")
    assert channel.stream is channel.opened


class Link:
    is_http = False
    closed = 0

    async def close(self):
        self.closed += 1


@scenario
@pytest.mark.parametrize("happens", [["lose", "lose", "close", "close", "lose"], ["close", "lose", "close"]])
async def test_a_connection_of_a_client_is_lost_once_and_closed_as_often_as_anybody_likes(happens):
    told = []
    host = SimpleNamespace(connection_lost=lambda one, error: told.append(error), table=CORE)
    one = ClientConnection(Link(), host)
    assert (one.state, one.is_alive) == ("alive", True)
    expected = "alive"
    for event in happens:
        if event == "lose":
            one.lost(TransportError("gone"))
            expected = "lost" if expected == "alive" else expected
        else:
            await one.close()
            expected = "closed"
        assert (one.state, one.is_alive) == (expected, False)
    assert len(told) == (happens[0] == "lose")
    assert one.link.closed == happens.count("close")


@scenario
async def test_a_client_connects_loses_fails_stops_and_begins_anew():
    maker, seen = Maker(None, None, ConnectError("no"), None), []
    line = Connections(maker.connect, maker.prepare)

    async def connected():
        try:
            await line.connection()
        except ConnectError:
            return

    def lose():
        maker.made[-1].error = TransportError("gone")
        line.lose(maker.made[-1])

    async def closed():
        await maker.made[-1].close()

    for step in (
        connected,
        lose,
        connected,
        closed,
        line.stop,
        line.stop,
        line.abandon,
        line.restart,
        connected,
        connected,
        closed,
        line.abandon,
    ):
        outcome = step()
        if outcome is not None:
            await outcome
        seen.append(line.status)
    first = ["ready", "lost", "ready", "ready", "stopped", "stopped", "stopped", "new"]
    assert seen == [*first, "failed", "ready", "ready", "new"]


@scenario
async def test_an_attempt_that_succeeds_while_its_client_is_stopped_leaves_it_stopped():
    begun = asyncio.Event()

    async def connect():
        begun.set()
        try:
            await asyncio.sleep(5)
        except asyncio.CancelledError:
            return ScriptedConnection()

    async def welcome(_, __):
        pass

    line = Connections(connect, welcome)
    connecting = asyncio.ensure_future(line.connection())
    await begun.wait()
    assert line.status == "connecting"
    await line.stop()
    assert (line.status, line.latest) == ("stopped", None)
    assert (await connecting).closed == 1
