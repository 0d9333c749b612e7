"""How a connection begins: what a client is willing to speak, what it remembers, and that it closes what it opens."""

import asyncio
import json

import pytest

from dragoman import types
from dragoman.client.connect import handshake
from dragoman.client.connect.endpoint import Endpoint
from dragoman.client.connect.handshake import Connector, offered_versions
from dragoman.errors import AuthRequired, ConnectError, HttpError, ServerCrashed, Timeout, TransportError
from dragoman.protocol.extensions import CORE
from dragoman.protocol.jsonrpc import DEFAULT_LIMITS
from dragoman.protocol.versions import LATEST_HANDSHAKE, LATEST_STATELESS, VERSIONS
from scenarios.client_peer import NEWEST, OLDER, STATELESS, discovered, error, initialized, scenario


class Owner:
    info = types.Implementation("host", "1")
    table = CORE

    def capabilities_for(self, version):
        return types.ClientCapabilities()

    def log_level_for(self, version):
        return None

    def connection_lost(self, connection, error):
        pass


class Link:
    """A link whose every message is given to a function, which returns an answer or raises."""

    def __init__(self, react, *, is_http=False, opens=None):
        self.react, self.is_http, self.opens = react, is_http, opens
        self.version = None
        self.streams = self.closed = 0

    async def open(self, receive, closed):
        self.receive, self.lose = receive, closed
        if self.opens is not None:
            await self.opens()

    async def send(self, message):
        answer = self.react(self, json.loads(message.data))
        if answer is not None:
            self.receive(json.dumps(answer).encode())

    def open_standalone_stream(self):
        self.streams += 1

    async def close(self):
        self.closed += 1


class Server:
    """Makes links to what `react` does, and keeps them."""

    def __init__(self, react, **options):
        self.react, self.options = react, options
        self.links = []
        self.methods = []

    def link(self):
        self.links.append(Link(self.seen, **self.options))
        return self.links[-1]

    def seen(self, link, message):
        self.methods.append(message["method"])
        return self.react(link, message)

    def connector(self, *, fallback=None, key="server", versions=None, timeout=5, **endpoint):
        made = Endpoint(key=key, link=self.link, fallback=fallback, **endpoint)
        return Connector(made, Owner(), versions or offered_versions(), DEFAULT_LIMITS, timeout=timeout)


def greets(link, message):
    if message["method"] == "server/discover":
        return error(message, -32601)
    return initialized(message) if message["method"] == "initialize" else None


@pytest.mark.covers("CLF-02")
def test_modes_and_pins_leave_versions():
    assert offered_versions() == VERSIONS
    assert offered_versions("stateless") == (LATEST_STATELESS,)
    assert LATEST_STATELESS not in offered_versions("handshake")
    assert offered_versions("auto", OLDER)[0].name == OLDER
    assert offered_versions("handshake", NEWEST) == (LATEST_HANDSHAKE,)
    for mode, version in [("handshake", STATELESS), ("stateless", OLDER), ("auto", "x"), ("none", None)]:
        with pytest.raises(ValueError, match=r"mode must be|is not available"):
            offered_versions(mode, version)


@pytest.mark.covers("CLF-10")
@scenario
async def test_what_is_remembered_is_shared_by_those_who_know_the_name_and_has_a_bound(monkeypatch):
    monkeypatch.setattr(handshake, "MAX_REMEMBERED", 2)
    server = Server(greets)
    for key, probed in [("a", True), ("a", False), (None, True), (None, True), ("b", True), ("c", True), ("a", True)]:
        server.methods.clear()
        await (await server.connector(key=key).connect()).close()
        assert ("server/discover" in server.methods) is probed
        assert len(handshake._handshake_servers) <= 2


@pytest.mark.covers("CLF-11")
@scenario
async def test_a_silent_server_is_remembered_for_other_processes_and_a_look_up_leaves_no_files(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    connector = Server(greets).connector()
    assert await connector.remembered() is None
    await connector.forget()
    assert not (tmp_path / "state").exists()
    await connector.remember_silent(LATEST_HANDSHAKE)
    assert await connector.remembered() is LATEST_HANDSHAKE
    assert await Server(greets).connector(key="another").remembered() is None
    await Server(greets).connector(key=None).remember_silent(LATEST_HANDSHAKE)
    await connector.forget()
    assert await connector.remembered() is None


@pytest.mark.covers("CLF-11")
@scenario
async def test_a_store_that_cannot_be_used_costs_a_warning_and_no_connection(tmp_path, monkeypatch, caplog):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "file"))
    connector = Server(greets).connector()
    await connector.remember_silent(LATEST_HANDSHAKE)
    assert await connector.remembered() is None
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert "cannot remember which servers" in caplog.text


@pytest.mark.covers("CLF-10")
@scenario
async def test_who_has_no_name_is_remembered_by_its_own_client():
    server = Server(greets)
    connector = server.connector(key=None)
    for _ in range(2):
        await (await connector.connect()).close()
    assert server.methods.count("server/discover") == 1
    assert not handshake._handshake_servers


@pytest.mark.covers("CLF-10")
@scenario
async def test_what_is_remembered_does_not_bind_who_speaks_something_else():
    server = Server(greets)
    await (await server.connector().connect()).close()
    pinned = server.connector(versions=offered_versions("handshake", OLDER))
    connection = await pinned.connect()
    assert connection.version.name == OLDER
    await connection.close()


@pytest.mark.covers("CLF-13")
@pytest.mark.parametrize(
    ("error", "is_kept"),
    [
        (HttpError("busy", 503), True),
        (AuthRequired("who?"), True),
        (ConnectError("no"), True),
        (ServerCrashed("died"), False),
        (TransportError("broke"), False),
    ],
)
@scenario
async def test_trouble_with_a_known_server_is_raised_and_forgets_it_only_if_it_may_contradict(error, is_kept):
    server = Server(greets)
    await (await server.connector().connect()).close()

    def fail(link, message):
        raise error

    server.react = fail
    with pytest.raises(type(error)):
        await server.connector().connect()
    assert bool(handshake._handshake_servers) is is_kept
    assert [link.closed > 0 for link in server.links] == [True, True]


@pytest.mark.covers("CLF-01")
@scenario
async def test_every_link_that_was_opened_in_vain_is_closed():
    def dies(link, message):
        if message["method"] == "server/discover":
            link.lose(ServerCrashed("died of the probe"))
            raise ServerCrashed("died of the probe")
        raise ServerCrashed("died of initialize")

    server = Server(dies)
    with pytest.raises(ServerCrashed, match="initialize"):
        await server.connector().connect()
    assert [link.closed > 0 for link in server.links] == [True, True]


@pytest.mark.covers("CIN-03")
@pytest.mark.parametrize("mode", ["auto", "handshake", "stateless"])
@scenario
async def test_a_server_that_ended_before_the_first_request_is_reported_with_its_own_error(mode):
    class EndedLink(Link):
        async def open(self, receive, closed):
            closed(ServerCrashed("died at its start", 1, "no key"))

    server = Server(greets)
    server.link = lambda: EndedLink(greets)
    with pytest.raises(ServerCrashed, match="died at its start") as raised:
        await server.connector(versions=offered_versions(mode)).connect()
    assert (raised.value.exit_code, raised.value.stderr_tail) == (1, "no key")


@pytest.mark.covers("CLF-12")
@pytest.mark.parametrize("other", ["answers", "fails", "is not there"])
@scenario
async def test_where_initialize_finds_nobody_the_older_transport_is_tried(other):
    def refuses(link, message):
        raise HttpError("no", 405)

    def older(link, message):
        if other == "fails":
            raise TransportError("no again")
        return greets(link, message)

    async def absent():
        raise ConnectError("no stream")

    server = Server(refuses, is_http=True)
    fallback = Server(older, opens=absent if other == "is not there" else None)
    connector = server.connector(fallback=fallback.link)
    if other == "answers":
        connection = await connector.connect()
        assert connection.link is fallback.links[0]
        assert fallback.methods == ["initialize", "notifications/initialized"]
        await connection.close()
    else:
        kind, text = (TransportError, "no again") if other == "fails" else (HttpError, "no")
        with pytest.raises(kind, match=text):
            await connector.connect()
    assert all(link.closed for link in (*server.links, *fallback.links))


@pytest.mark.covers("CTM-04")
@scenario
async def test_a_transport_that_does_not_open_is_a_time_out():
    server = Server(greets, opens=asyncio.Event().wait)
    with pytest.raises(Timeout, match=r"could not be opened within 0\.05 seconds"):
        await server.connector(timeout=0.05).connect()
    assert server.links[0].closed


@pytest.mark.covers("CLF-14")
@scenario
async def test_a_stateless_server_says_who_it_is():
    def discovers(link, message):
        answer = discovered(message, STATELESS, tools={})
        info = {"name": "s", "version": "2"} if message["id"] == 1 else "nobody"
        return answer | {"result": answer["result"] | {"instructions": "hi", "_meta": {types.SERVER_INFO: info}}}

    server = Server(discovers)
    connection = await server.connector().connect()
    assert connection.knows_capabilities
    assert (connection.server_info.name, connection.instructions) == ("s", "hi")
    assert connection.capabilities.tools is not None
    assert server.links[0].streams == 1
    await connection.close()


@pytest.mark.covers("CTR-01")
@pytest.mark.parametrize(
    ("versions", "version"),
    [
        (offered_versions(), NEWEST),
        (offered_versions("stateless"), STATELESS),
        (offered_versions("auto", OLDER), OLDER),
    ],
)
@scenario
async def test_where_nothing_is_said_first_a_version_is_assumed(versions, version):
    server = Server(greets)
    connection = await server.connector(versions=versions, negotiates=False).connect()
    assert connection.version.name == version
    assert not connection.knows_capabilities
    assert server.methods == []
    await connection.close()


@pytest.mark.covers("CLF-02")
@scenario
async def test_an_endpoint_that_is_known_to_want_a_handshake_is_not_probed():
    server = Server(greets)
    await (await server.connector(is_handshake=True).connect()).close()
    assert server.methods == ["initialize", "notifications/initialized"]


@pytest.mark.covers("CTM-04")
@scenario
async def test_all_steps_of_connecting_share_one_time():
    class Slow(Link):
        async def send(self, message):
            # The last step alone would be in time.
            await asyncio.sleep(0.9 if OLDER in str(message) else 0.1)
            await super().send(message)

    def reluctant(link, message):
        if message["method"] == "server/discover":
            return error(message, -32601)
        if message["params"]["protocolVersion"] == NEWEST:
            return error(message, -32022, {"supported": [OLDER], "requested": NEWEST})
        return initialized(message)

    server = Server(reluctant)
    server.link = lambda: Slow(server.seen, is_http=True, opens=lambda: asyncio.sleep(0.1))
    with pytest.raises(Timeout, match="did not answer initialize within 1 second"):
        await server.connector(key=None, timeout=1).connect()


class Login(Link):
    """A link that lets a person log in before each request."""

    seconds = 0.3

    async def send(self, message):
        if message.id is not None:
            with message.paused_clocks():
                await asyncio.sleep(self.seconds)
        await super().send(message)


@pytest.mark.covers("CTM-04")
@scenario
async def test_a_login_does_not_count_as_time_of_connecting():
    server = Server(greets)
    server.link = lambda: Login(server.seen, is_http=True)
    connection = await server.connector(key=None, timeout=0.2).connect()
    assert connection.knows_capabilities
    await connection.close()


@scenario
async def test_connecting_may_be_given_up_while_a_person_logs_in():
    server = Server(greets)
    links = []

    def link():
        links.append(Login(server.seen, is_http=True))
        links[-1].seconds = 30
        return links[-1]

    server.link = link
    connecting = asyncio.create_task(server.connector(key=None, timeout=0.2).connect())
    await asyncio.sleep(0.05)
    connecting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(connecting, 5)
    assert links[0].closed
