"""One connection: requests in flight and their clocks, over a link that is scripted message by message."""

import asyncio
import contextlib
import json
import logging

import msgspec
import pytest
from msgspec import Raw

from budgets.test_garbage import left_by
from dragoman import types
from dragoman.client.connect import connection as connections
from dragoman.client.connect.connection import ServerConnection, connection_error
from dragoman.client.options import RequestOptions
from dragoman.errors import (
    ConnectError,
    InternalError,
    RpcError,
    ServerCrashed,
    SessionExpired,
    Timeout,
    TransportError,
    ValidationError,
)
from dragoman.protocol.extensions import CORE
from dragoman.protocol.headers import HeaderPlan
from dragoman.protocol.versions import LATEST_HANDSHAKE, LATEST_STATELESS
from scenarios.client_peer import scenario, until


class Link:
    """A link that answers nothing by itself."""

    def __init__(self, is_http=False):
        self.is_http = is_http
        self.version = None
        self.sent = []
        self.fails = None
        self.closed = 0

    async def open(self, receive, closed):
        self.receive, self.lose = receive, closed

    async def send(self, message):
        if self.fails is not None:
            raise self.fails
        self.sent.append(json.loads(message.data))
        if self.is_http and message.id is not None:
            await until(message.answered)

    def say(self, **message):
        self.receive(json.dumps({"jsonrpc": "2.0", **message}).encode())

    def open_standalone_stream(self):
        pass

    async def close(self):
        self.closed += 1


class Owner:
    """A client that notes what it is told."""

    info = types.Implementation("owner", "1")
    table = CORE
    max_server_requests = 100

    def __init__(self):
        self.progress, self.notes, self.losses, self.reopened = [], [], [], []
        self.answers = {}

    def capabilities_for(self, version):
        return types.ClientCapabilities()

    def log_level_for(self, version):
        return "info" if version.stateless else None

    def answer(self, request):
        return self.answers[request.method]

    def notification_received(self, notification):
        self.notes.append(notification.method)

    def progress_received(self, on_progress, params):
        self.progress.append((on_progress, params.progress))

    def connection_lost(self, connection, error):
        self.losses.append(error)

    def stream_reopened(self, connection):
        self.reopened.append(connection)


async def opened(**options):
    link, owner = Link(**options), Owner()
    connection = ServerConnection(link, owner)
    await connection.open()
    connection.use_version(LATEST_HANDSHAKE)
    return connection, link, owner


MIRRORED = HeaderPlan.of({"type": "object", "properties": {"n": {"type": "integer", "x-mcp-header": "N"}}})


def start(connection, method="tools/call", **options):
    return asyncio.create_task(connection.request(method, {}, RequestOptions(**options)))


@pytest.mark.parametrize(
    ("params", "options", "kind"),
    [
        ({"arguments": {"n": 2**60}}, {"mirrored": MIRRORED}, ValidationError),
        ({"arguments": {"n": 1}, "odd": object()}, {"mirrored": MIRRORED}, ValidationError),
    ],
    ids=["a header cannot carry it", "it cannot be JSON"],
)
@scenario
async def test_nothing_is_left_of_a_request_that_cannot_be_sent(params, options, kind):
    connection, link, _ = await opened(is_http=True)
    connection.use_version(LATEST_STATELESS)
    for _ in range(2):
        with pytest.raises(kind):
            await connection.request(
                "tools/call", params, RequestOptions(progress_token="mine", **{"timeout": 0.01} | options)
            )
    assert link.sent == []
    await asyncio.wait_for(connection.drained(), 1)
    await connection.close()
    assert asyncio.current_task().cancelling() == 0
    assert connection._peer.waiting == []


@pytest.mark.covers("CTR-04")
@scenario
async def test_answers_find_their_requests_in_any_order():
    connection, link, _ = await opened()
    tasks = [start(connection) for _ in range(5)]
    await until(lambda: len(link.sent) == 5)
    for message in reversed(link.sent):
        link.say(id=message["id"], result={"n": message["id"]})
    assert [msgspec.json.decode(await task)["n"] for task in tasks] == [m["id"] for m in link.sent]
    await connection.close()
    assert link.closed == 1


@pytest.mark.covers("CTM-04")
@scenario
async def test_what_is_given_up_is_told_unless_it_must_not_be():
    connection, link, _ = await opened()
    with pytest.raises(Timeout) as caught:
        await connection.request("initialize", {}, RequestOptions(timeout=0.01), may_cancel=False)
    assert caught.value.request_id == link.sent[0]["id"]
    with pytest.raises(Timeout):
        await connection.request("tools/call", {}, RequestOptions(timeout=0.01))
    await until(lambda: len(link.sent) == 3)
    assert link.sent[2]["params"] == {"requestId": link.sent[1]["id"], "reason": "Request timed out"}
    link.say(id=link.sent[1]["id"], result={})
    await connection.close()


@pytest.mark.covers("CCN-06")
@scenario
async def test_over_stateless_http_nothing_is_told():
    connection, link, _ = await opened(is_http=True)
    connection.use_version(LATEST_STATELESS)
    with pytest.raises(Timeout):
        await connection.request("tools/call", {}, RequestOptions(timeout=0.01))
    task = start(connection)
    await until(lambda: len(link.sent) == 2)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    await connection.close()
    assert [m["method"] for m in link.sent] == ["tools/call"] * 2


@pytest.mark.covers("CTM-02")
@scenario
async def test_every_clock_stands_still_until_the_last_question_is_answered():
    connection, link, owner = await opened()
    loop = asyncio.get_running_loop()
    answers = [asyncio.Event(), asyncio.Event()]
    waiting = iter(answers)

    async def answer():
        await next(waiting).wait()
        return {}

    owner.answers["elicitation/create"] = answer
    task = start(connection, timeout=300)
    await until(lambda: link.sent)
    (pending,) = connection._clocks.running
    before = pending.deadline
    link.say(id="a", method="elicitation/create", params={})
    link.say(id="b", method="elicitation/create", params={})
    await until(lambda: connection._pauses == 2)
    assert pending.deadline is None
    link.say(method="notifications/progress", params={"progressToken": link.sent[0]["id"], "progress": 1})
    assert pending.deadline is None
    late = start(connection, timeout=300)
    await until(lambda: len(link.sent) == 2)
    assert [p.deadline for p in connection._clocks.running] == [None, None]
    answers[0].set()
    await until(lambda: connection._pauses == 1)
    assert pending.deadline is None
    answers[1].set()
    await until(lambda: connection._pauses == 0)
    assert before <= pending.deadline <= loop.time() + 300
    for task_ in (task, late):
        task_.cancel()
    await asyncio.gather(task, late, return_exceptions=True)
    await connection.close()


@pytest.mark.covers("CTM-01")
@scenario
async def test_progress_winds_the_clock_of_its_request_alone():
    connection, link, owner = await opened()
    tasks = [start(connection, timeout=300, on_progress=n) for n in range(2)]
    await until(lambda: len(link.sent) == 2)
    first, second = sorted(connection._clocks.running, key=lambda clock: tasks.index(clock.task))
    before = second.deadline
    was = first.deadline
    await asyncio.sleep(0.01)
    link.say(method="notifications/progress", params={"progressToken": link.sent[0]["id"], "progress": 1})
    assert first.deadline > was
    assert second.deadline == before
    assert owner.progress == [(0, 1)]
    await connection.close()
    await asyncio.gather(*tasks, return_exceptions=True)


@pytest.mark.covers("CTM-06")
@scenario
async def test_the_end_fails_each_request_with_an_error_of_its_own():
    connection, link, owner = await opened()
    tasks = [start(connection) for _ in range(3)]
    await until(lambda: len(link.sent) == 3)
    link.lose(ServerCrashed("died", 3, "tail"))
    link.lose(None)
    errors = await asyncio.gather(*tasks, return_exceptions=True)
    assert {type(error) for error in errors} == {ServerCrashed}
    assert len({id(error) for error in errors}) == 3
    assert [error.stderr_tail for error in errors] == ["tail"] * 3
    assert len(owner.losses) == 1
    with pytest.raises(ConnectError, match="has ended: died"):
        await connection.request("ping", {}, RequestOptions())
    await connection.close()


@pytest.mark.covers("HEAL-10")
@scenario
async def test_over_http_what_is_under_way_may_still_be_answered_after_the_session_ended():
    connection, link, owner = await opened(is_http=True)
    task = start(connection)
    await until(lambda: link.sent)
    link.lose(SessionExpired("old"))
    assert len(owner.losses) == 1
    draining = asyncio.create_task(connection.drained())
    await asyncio.sleep(0)
    assert not draining.done()
    link.say(id=link.sent[0]["id"], result={})
    assert msgspec.json.decode(await task) == {}
    await asyncio.wait_for(draining, 10)
    await connection.close()


@pytest.mark.covers("HEAL-10")
@scenario
async def test_an_answer_that_came_before_the_exchange_broke_counts():
    connection, link, _ = await opened()

    async def send(message):
        link.say(id=message.id, result={"n": 1})
        raise TransportError("broke")

    link.send = send
    assert msgspec.json.decode(await connection.request("tools/call", {}, RequestOptions())) == {"n": 1}
    await connection.close()


class Slow(Link):
    """A link that takes several turns to send, and tells how that ended."""

    ended = None
    turns = 3
    answers = False

    async def send(self, message):
        try:
            for _ in range(self.turns):
                await asyncio.sleep(0)
            if self.answers:
                self.say(id=message.id, result={})
            await (asyncio.Event().wait() if self.fails is None else self.fails(message))
        except BaseException as error:
            self.ended = type(error)
            raise


async def slow(**attributes):
    link = Slow()
    vars(link).update(attributes)
    connection = ServerConnection(link, Owner())
    await connection.open()
    return connection, link


@pytest.mark.parametrize("turns", [0, 1, 4])
@scenario
async def test_what_cancels_a_request_that_is_being_sent_reaches_the_link(turns):
    connection, link = await slow(turns=2)
    request = start(connection)
    for _ in range(turns):
        await asyncio.sleep(0)
    request.cancel()
    with pytest.raises(asyncio.CancelledError):
        await request
    assert link.ended is (None if turns == 0 else asyncio.CancelledError)
    assert connection._peer.waiting == []
    assert connection._clocks.running == set()
    await connection.close()


@pytest.mark.parametrize("turns", [0, 2])
@scenario
async def test_a_request_that_is_not_sent_in_time_is_given_up(turns):
    connection, link = await slow(turns=turns)
    with pytest.raises(Timeout, match=r"the server was silent for 0\.01 seconds"):
        await connection.request("tools/call", {}, RequestOptions(timeout=0.01))
    assert link.ended is asyncio.CancelledError
    assert asyncio.current_task().cancelling() == 0
    await connection.close()


@pytest.mark.parametrize("answers", [False, True])
@scenario
async def test_no_cancellation_is_left_when_time_is_up_just_as_sending_fails(answers):
    connection, link = await slow(turns=1, answers=answers)

    async def fail(message):
        for clock in connection._clocks.running:
            clock.expire()
        raise ServerCrashed("broke")

    link.fails = fail
    request = start(connection, timeout=60)
    (outcome,) = await asyncio.gather(request, return_exceptions=True)
    assert link.ended is ServerCrashed
    assert bytes(outcome) == b"{}" if answers else isinstance(outcome, ServerCrashed)
    assert request.cancelling() == 0
    await connection.close()


@scenario
async def test_a_cancellation_that_the_link_took_in_does_not_hide_one_that_comes_with_the_end_of_time():
    connection, link = await slow()
    task = None

    async def send(message):
        if message.id is None:
            return
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.sleep(0)
        task.uncancel()
        await asyncio.Event().wait()

    link.send = send
    task = start(connection, timeout=60)
    for _ in range(3):
        await asyncio.sleep(0)
    (clock,) = connection._clocks.running
    task.cancel()
    clock.expire()
    with pytest.raises(asyncio.CancelledError):
        await task
    await connection.close()


@scenario
async def test_a_request_that_is_cancelled_while_it_is_sent_leaves_no_cycle():
    connection, link = await slow()

    async def send(message):
        if message.id is not None:
            await asyncio.Event().wait()

    async def cancelled():
        request = start(connection)
        await asyncio.sleep(0)
        request.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await request
        await connection.cancellations_sent()

    link.send = send
    assert await left_by(cancelled) == 0
    await connection.close()


@scenario
async def test_a_request_that_nobody_awaits_any_more_ends_what_is_being_sent():
    connection, link = await slow()
    request = connection.request("tools/call", {}, RequestOptions())
    request.send(None)
    request.close()
    assert link.ended is GeneratorExit
    assert connection._clocks.running == set()
    await connection.close()


@pytest.mark.covers("LTR-05")
@scenario
async def test_a_time_out_of_the_transport_is_not_one_of_the_request():
    connection, link, _ = await opened()
    link.fails = TimeoutError()
    with pytest.raises(TransportError, match="could not be sent") as caught:
        await connection.request("tools/call", {}, RequestOptions(timeout=5))
    assert not isinstance(caught.value, Timeout)
    await connection.close()


@pytest.mark.covers("CSR-01")
@scenario
async def test_whatever_becomes_of_a_request_of_the_server_it_is_answered_once(caplog):
    connection, link, owner = await opened()

    async def fail():
        raise RuntimeError("secret")

    async def refuse():
        raise RpcError(-5, "no", object())

    owner.answers = {"fails": fail, "refuses": refuse, "unsendable": object(), "fine": {}}
    with caplog.at_level(logging.CRITICAL, "dragoman.client"):
        for method in owner.answers:
            link.say(id=method, method=method, params={})
        await until(lambda: len(link.sent) == 4)
    said = {m["id"]: m.get("result", m.get("error")) for m in link.sent}
    assert said == {
        "fails": {"code": -32603, "message": "Internal error"},
        "refuses": {"code": -5, "message": "no"},
        "unsendable": {"code": -32603, "message": "Internal error"},
        "fine": {},
    }
    await connection.close()


@pytest.mark.covers("LNT-05")
@scenario
async def test_a_token_of_the_callers_own_is_never_an_id():
    connection, link, owner = await opened()
    first = start(connection, progress_token=2, on_progress="first")
    second = start(connection, on_progress="second")
    await until(lambda: len(link.sent) == 2)
    assert [m["id"] for m in link.sent] == [1, 3]
    assert [m["params"]["_meta"]["progressToken"] for m in link.sent] == [2, 3]
    for token in (2, 3, 1, "x", None):
        link.say(method="notifications/progress", params={"progressToken": token, "progress": 1})
    assert [who for who, _ in owner.progress] == ["first", "second", "first"]
    for token in (2, 3):
        with pytest.raises(ValueError, match="in use"):
            await connection.request("tools/call", {}, RequestOptions(progress_token=token))
    await connection.close()
    await asyncio.gather(first, second, return_exceptions=True)


@pytest.mark.covers("HEAL-07")
@scenario
async def test_an_answer_that_will_not_end_does_not_hold_up_the_close(monkeypatch):
    monkeypatch.setattr(connections, "CLOSE_SECONDS", 0.05)
    connection, link, owner = await opened()
    began, go = asyncio.Event(), asyncio.Event()

    async def stubborn():
        began.set()
        while not go.is_set():
            try:
                await go.wait()
            except asyncio.CancelledError:
                continue

    owner.answers["x"] = stubborn
    link.say(id=1, method="x", params={})
    await asyncio.wait_for(began.wait(), 10)
    await asyncio.wait_for(connection.close(), 10)
    assert link.closed == 1
    go.set()


@pytest.mark.covers("CLF-08")
@scenario
async def test_stateless_requests_carry_what_the_client_is():
    connection, link, _ = await opened()
    connection.use_version(LATEST_STATELESS)
    task = start(connection, meta={"a": 1})
    await until(lambda: link.sent)
    meta = link.sent[0]["params"]["_meta"]
    assert meta.pop("progressToken") == link.sent[0]["id"]
    assert meta == {
        "a": 1,
        types.PROTOCOL_VERSION: LATEST_STATELESS.name,
        types.CLIENT_CAPABILITIES: {},
        types.CLIENT_INFO: {"name": "owner", "version": "1"},
        types.LOG_LEVEL: "info",
    }
    assert connection._envelope[types.PROTOCOL_VERSION] == Raw(b'"2026-07-28"')
    await connection.close()
    await asyncio.gather(task, return_exceptions=True)


@pytest.mark.covers("LTR-05")
@pytest.mark.parametrize(
    ("error", "kind", "text"),
    [
        (OSError("cut"), TransportError, "broke: cut"),
        (OSError(), TransportError, "broke: OSError"),
        (ConnectError("x"), TransportError, "x"),
        (SessionExpired("x"), TransportError, "x"),
        (ServerCrashed("x", 1), ServerCrashed, "x"),
    ],
)
def test_the_end_of_a_connection_is_an_error_that_does_not_say_that_nothing_was_served(error, kind, text):
    fresh = connection_error(error)
    assert type(fresh) is kind
    assert fresh is not error
    assert str(fresh).endswith(text)
    assert not isinstance(fresh, InternalError)


@pytest.mark.covers("CTM-02")
@scenario
async def test_a_link_may_let_the_clocks_stand_still_while_it_waits_for_somebody_else():
    connection, link, _ = await opened()
    seen = []

    async def send(message):
        await asyncio.sleep(0)
        (pending,) = connection._clocks.running
        with message.paused_clocks():
            seen.append(pending.deadline)
        seen.append(pending.deadline is not None)
        link.say(id=message.id, result={})

    link.send = send
    await connection.request("tools/call", {}, RequestOptions(timeout=60))
    assert seen == [None, True]
    await connection.close()


@pytest.mark.parametrize("end", ["lost", "closed"])
async def test_a_stream_that_was_reopened_renews_nothing_after_the_connection_has_ended(end):
    connection, link, owner = await opened(is_http=True)
    link.on_reopened()
    assert owner.reopened == [connection]
    if end == "lost":
        link.lose(SessionExpired("gone"))
    else:
        await connection.close()
    link.on_reopened()
    assert owner.reopened == [connection]
    await connection.close()
