"""What a server tells while it serves: log messages and progress; and what it makes of a client's notifications."""

import asyncio
import logging
import threading
from typing import Any

import pytest

from dragoman import BlockingContext, Context, RpcError, Server, TransportError, ValidationError, types
from dragoman.errors import MethodNotFound
from dragoman.server import LogHandler
from dragoman.testing import WirePeer
from scenarios.wire import DEADLINE

LEVELS = ["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"]
MESSAGE = "notifications/message"
PROGRESS = "notifications/progress"
HANDSHAKE_VERSIONS = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"]


def params_of(peer: WirePeer, method: str) -> list[types.Json]:
    return [message["params"] for message in peer.received if message.get("method") == method]


async def call(peer: WirePeer, name: str = "work", **meta: Any) -> types.Json:
    given = {"logLevel": types.LOG_LEVEL, "progressToken": "progressToken"}
    return await peer.request("tools/call", {"name": name, "_meta": {given[key]: meta[key] for key in meta}})


def log_all(server: Server) -> None:
    @server.tool
    async def work(ctx: Context) -> None:
        for level in LEVELS:
            await ctx.log(level, level)

    @server.tool
    def blocking_work(ctx: BlockingContext) -> None:
        for level in LEVELS:
            ctx.log(level, level)

    @server.tool(inline=True)
    def inline_work(ctx: BlockingContext) -> None:
        for level in LEVELS:
            getattr(ctx, level)(level)

    @server.tool
    async def named_work(ctx: Context) -> None:
        for level in LEVELS:
            await getattr(ctx, level)(level)


WORK = pytest.mark.parametrize("name", ["work", "blocking_work", "inline_work", "named_work"])


# Log messages.


@pytest.mark.covers("LOG-01", "LOG-02", "LOG-05")
@WORK
@pytest.mark.parametrize("threshold", LEVELS)
async def test_a_session_is_sent_what_is_at_least_as_severe_as_the_level_that_it_set(threshold, name):
    server = Server()
    log_all(server)
    async with WirePeer(server) as peer:
        response = await peer.request("logging/setLevel", {"level": threshold})
        assert response["result"] == {}
        await call(peer, name)
        told = params_of(peer, MESSAGE)
        assert told == [{"level": level, "data": level} for level in LEVELS[LEVELS.index(threshold) :]]


@pytest.mark.covers("LOG-10")
@WORK
@pytest.mark.parametrize("threshold", LEVELS)
async def test_a_stateless_request_is_sent_what_is_at_least_as_severe_as_its_own_level(threshold, name):
    server = Server()
    log_all(server)
    async with WirePeer(server, "stateless") as peer:
        await call(peer, name, logLevel=threshold)
        told = [params["level"] for params in params_of(peer, MESSAGE)]
        assert told == LEVELS[LEVELS.index(threshold) :]
        peer.received.clear()
        await call(peer, name)
        assert peer.received == []


@pytest.mark.covers("LOG-03")
@WORK
@pytest.mark.parametrize("era", ["none", "2024-11-05", "handshake", "stateless"])
async def test_without_a_level_nothing_is_sent(era, name):
    server = Server()
    log_all(server)
    async with WirePeer(server, era) as peer:
        assert "result" in await call(peer, name)
        server.log("emergency", "for everyone")
        assert peer.received == []


@pytest.mark.covers("LOG-10")
async def test_the_level_of_a_session_means_nothing_to_stateless_requests_and_the_other_way_round():
    server = Server()
    log_all(server)
    async with WirePeer(server) as peer:
        await peer.request("logging/setLevel", {"level": "emergency"})
        envelope = {
            types.PROTOCOL_VERSION: "2026-07-28",
            types.CLIENT_CAPABILITIES: {},
        }
        await peer.request("tools/call", {"name": "work", "_meta": envelope})
        assert peer.received == []
        await peer.request("tools/call", {"name": "work", "_meta": {**envelope, types.LOG_LEVEL: "alert"}})
        assert [params["level"] for params in params_of(peer, MESSAGE)] == ["alert", "emergency"]
        peer.received.clear()
        await call(peer)
        assert [params["level"] for params in params_of(peer, MESSAGE)] == ["emergency"]


@pytest.mark.covers("LOG-02")
@pytest.mark.parametrize("level", ["loud", "", "Debug", 3, None, {}], ids=repr)
async def test_an_unknown_level_is_refused_and_changes_nothing(level):
    server = Server()
    log_all(server)
    async with WirePeer(server) as peer:
        await peer.request("logging/setLevel", {"level": "alert"})
        refused = await peer.request("logging/setLevel", {"level": level})
        assert refused["error"]["code"] == -32602
        assert (await peer.request("logging/setLevel"))["error"]["code"] == -32602
        await call(peer)
        assert [params["level"] for params in params_of(peer, MESSAGE)] == ["alert", "emergency"]


@pytest.mark.covers("LOG-10")
async def test_a_stateless_request_with_an_unknown_level_is_refused():
    server = Server()
    log_all(server)
    async with WirePeer(server, "stateless") as peer:
        response = await call(peer, logLevel="loud")
        assert response["error"]["code"] == -32602
        assert (await peer.request("logging/setLevel", {"level": "info"}))["error"]["code"] == -32601


@pytest.mark.covers("LOG-03")
async def test_a_server_that_does_not_declare_logging_sends_no_messages_and_has_no_level():
    server = Server(capabilities={"logging": False})
    log_all(server)
    async with WirePeer(server) as peer, WirePeer(server, "stateless") as stateless:
        assert (await peer.request("logging/setLevel", {"level": "debug"}))["error"]["code"] == -32601
        assert "result" in await call(peer)
        assert "result" in await call(stateless, logLevel="debug")
        server.log("emergency", "for everyone")
        assert peer.received == stateless.received == []


@pytest.mark.covers("LOG-04")
@pytest.mark.parametrize("data", ["text", 1, 2.5, True, None, [1, "two"], {"deep": [{"er": None}]}, ""], ids=repr)
@pytest.mark.parametrize("logger", [None, "weather.station"])
async def test_the_data_of_a_message_is_any_json_and_its_logger_is_named_if_given(data, logger):
    server = Server()

    @server.tool
    async def work(ctx: Context) -> None:
        await ctx.log("info", data, logger)

    async with WirePeer(server) as peer:
        await peer.request("logging/setLevel", {"level": "info"})
        await call(peer)
        server.log("error", data, logger)
        named = {} if logger is None else {"logger": logger}
        assert params_of(peer, MESSAGE) == [
            {"level": "info", "data": data, **named},
            {"level": "error", "data": data, **named},
        ]


@pytest.mark.covers("LOG-04")
async def test_what_cannot_be_logged_fails_where_it_is_logged():
    server = Server()
    failures: list[Exception] = []

    @server.tool
    async def work(ctx: Context) -> None:
        for level, data in [("info", object()), ("info", "\ud800"), ("loud", "text")]:
            try:
                await ctx.log(level, data)
            except Exception as error:
                failures.append(error)

    async with WirePeer(server) as peer:
        await peer.request("logging/setLevel", {"level": "info"})
        assert "result" in await call(peer)
        assert peer.received == []
        with pytest.raises(ValidationError):
            server.log("info", object())
    assert [type(failure) for failure in failures] == [ValidationError, ValidationError, ValueError]
    assert str(failures[2]) == f"There is no log level 'loud'; there are {', '.join(LEVELS)}"


@pytest.mark.covers("LOG-06", "LOG-07", "NOT-02")
async def test_each_session_has_its_own_level_and_a_request_logs_to_its_own_client_only():
    server = Server()
    log_all(server)
    async with WirePeer(server) as quiet, WirePeer(server) as chatty, WirePeer(server) as silent:
        await chatty.request("logging/setLevel", {"level": "debug"})
        await quiet.request("logging/setLevel", {"level": "alert"})
        await call(chatty)
        assert len(chatty.received) == 8
        assert quiet.received == silent.received == []
        chatty.received.clear()
        await call(quiet)
        assert len(quiet.received) == 2
        assert chatty.received == silent.received == []


@pytest.mark.covers("LOG-06", "LOG-07")
async def test_what_the_server_logs_goes_to_every_session_whose_own_level_wants_it():
    server = Server()
    async with (
        WirePeer(server) as chatty,
        WirePeer(server) as quiet,
        WirePeer(server) as unset,
        WirePeer(server, "stateless") as stateless,
        WirePeer(server, "none") as unknown,
    ):
        await chatty.request("logging/setLevel", {"level": "debug"})
        await quiet.request("logging/setLevel", {"level": "critical"})
        server.log("error", "one")
        await asyncio.to_thread(server.log, "emergency", "two", "from.a.thread")
        assert (await chatty.receive())["params"] == {"level": "error", "data": "one"}
        expected = {"level": "emergency", "data": "two", "logger": "from.a.thread"}
        assert (await chatty.receive())["params"] == (await quiet.receive())["params"] == expected
        assert unset.received == stateless.received == unknown.received == []


@pytest.mark.covers("LOG-04")
async def test_what_changes_after_it_was_logged_is_sent_as_it_was():
    server = Server()
    async with WirePeer(server) as peer:
        await peer.request("logging/setLevel", {"level": "info"})
        data = {"step": 1}

        def log() -> None:
            server.log("info", data)
            data["step"] = 2

        await asyncio.to_thread(log)
        assert (await peer.receive())["params"]["data"] == {"step": 1}


@pytest.mark.covers("LOG-04")
async def test_pythons_own_logging_is_sent_to_the_clients_of_a_server():
    server = Server()
    logger = logging.getLogger("scenario.weather")
    logger.setLevel(logging.DEBUG)
    handler = LogHandler(server)
    logger.addHandler(handler)
    try:
        async with WirePeer(server) as peer, WirePeer(server) as unset:
            await peer.request("logging/setLevel", {"level": "debug"})
            for number in [5, 10, 20, 25, 30, 40, 50, 60]:
                logger.log(number, "level %d", number)
            await asyncio.to_thread(logger.warning, "from a thread")
            told = [(await peer.receive())["params"] for _ in range(8)]
            assert unset.received == []
    finally:
        logger.removeHandler(handler)
    assert [params["level"] for params in told] == [
        *("debug", "info", "info", "warning", "error", "critical", "critical"),
        "warning",
    ]
    assert told[0] == {"level": "debug", "data": "level 10", "logger": "scenario.weather"}


@pytest.mark.covers("LOG-04", "LOG-06")
@pytest.mark.parametrize("kind", ["async", "thread", "inline"])
async def test_pythons_own_logging_is_sent_to_the_client_of_a_request(kind):
    server = Server()
    logger = logging.getLogger("scenario.request")

    def log(context: Any) -> None:
        handler = LogHandler(context)
        logger.addHandler(handler)
        try:
            logger.warning("careful")
        finally:
            logger.removeHandler(handler)

    async def asynchronous(ctx: Context) -> None:
        log(ctx)

    def blocking(ctx: BlockingContext) -> None:
        log(ctx)

    server.tool(name="work", inline=kind == "inline")(asynchronous if kind == "async" else blocking)
    async with WirePeer(server) as peer, WirePeer(server) as other:
        for each in (peer, other):
            await each.request("logging/setLevel", {"level": "info"})
        await call(peer)
        assert params_of(peer, MESSAGE) == [{"level": "warning", "data": "careful", "logger": "scenario.request"}]
        assert other.received == []


@pytest.mark.covers("LOG-04")
async def test_logging_from_a_thread_does_not_wait_for_a_loop_that_logs_as_well():
    server = Server()
    logger = logging.getLogger("scenario.both")
    loop_logs = threading.Event()

    def log_in_the_loop() -> None:
        loop_logs.set()
        logger.warning("from the loop")

    class Holding(LogHandler):
        def format(self, record: logging.LogRecord) -> str:
            # The handler's lock is held here, and the loop begins to wait for it.
            if not loop_logs.is_set():
                loop.call_soon_threadsafe(log_in_the_loop)
                assert loop_logs.wait(DEADLINE)
            return super().format(record)

    @server.tool
    def work(ctx: BlockingContext) -> None:
        handler = Holding(ctx)
        logger.addHandler(handler)
        try:
            logger.warning("from the thread")
        finally:
            logger.removeHandler(handler)

    loop = asyncio.get_running_loop()
    async with WirePeer(server) as peer:
        await peer.request("logging/setLevel", {"level": "info"})
        await call(peer)
        assert "from the thread" in [params["data"] for params in params_of(peer, MESSAGE)]


# Progress.


@pytest.mark.covers("PRG-01", "PRG-07")
@pytest.mark.parametrize("era", [*HANDSHAKE_VERSIONS, "stateless", "none"])
@pytest.mark.parametrize("token", ["token", "", 0, 7, -1, "7"], ids=repr)
@pytest.mark.parametrize("kind", ["async", "thread", "inline"])
async def test_progress_is_told_before_the_response_with_the_token_as_the_client_chose_it(kind, token, era):
    server = Server()

    async def asynchronous(ctx: Context) -> None:
        await ctx.report_progress(0)
        await ctx.report_progress(0.5, total=2)
        await ctx.report_progress(2, 2, "done")

    def blocking(ctx: BlockingContext) -> None:
        ctx.report_progress(0)
        ctx.report_progress(0.5, total=2)
        ctx.report_progress(2, 2, "done")

    server.tool(name="work", inline=kind == "inline")(asynchronous if kind == "async" else blocking)
    async with WirePeer(server, era) as peer:
        await call(peer, progressToken=token)
        said = {} if era == "2024-11-05" else {"message": "done"}
        told = params_of(peer, PROGRESS)
        assert told == [
            {"progressToken": token, "progress": 0},
            {"progressToken": token, "progress": 0.5, "total": 2},
            {"progressToken": token, "progress": 2, "total": 2, **said},
        ]
        assert {type(params["progressToken"]) for params in told} == {type(token)}


@pytest.mark.covers("PRG-02")
@pytest.mark.parametrize("era", ["none", "handshake", "stateless"])
async def test_without_a_token_no_progress_is_told(era):
    server = Server()

    @server.tool
    async def work(ctx: Context) -> str:
        await ctx.report_progress(1)
        return "done"

    async with WirePeer(server, era) as peer:
        assert (await call(peer))["result"]["content"][0]["text"] == "done"
        assert peer.received == []
    reply = await server.handle_async(
        {
            "jsonrpc": "2.0",
            "id": 1,
            "method": "tools/call",
            "params": {"name": "work", "_meta": {"progressToken": 1}},
        }
    )
    assert reply is not None
    assert reply["result"]["content"][0]["text"] == "done"


@pytest.mark.covers("PRG-01")
async def test_progress_that_does_not_increase_or_is_no_number_of_json_is_dropped():
    server = Server()

    @server.tool
    async def work(ctx: Context) -> None:
        for progress in [1, 1, 0.5, -1, float("nan"), 2, 1.5, float("inf"), float("-inf"), 3]:
            await ctx.report_progress(progress, total=float("inf"))

    async with WirePeer(server) as peer:
        await call(peer, progressToken="t")
        assert params_of(peer, PROGRESS) == [{"progressToken": "t", "progress": progress} for progress in [1, 2, 3]]


@pytest.mark.covers("PRG-01")
@pytest.mark.parametrize("era", ["handshake", "stateless"])
async def test_nothing_is_told_of_a_request_after_its_response(era):
    server = Server()
    kept: list[Context] = []

    @server.tool
    async def work(ctx: Context) -> None:
        kept.append(ctx)
        await ctx.report_progress(1)

    async with WirePeer(server, era) as peer:
        if era == "handshake":
            await peer.request("logging/setLevel", {"level": "debug"})
        level = {"logLevel": "debug"} if era == "stateless" else {}
        await call(peer, progressToken=1, **level)
        peer.received.clear()
        await kept[0].report_progress(2)
        await kept[0].emergency("too late")
        assert peer.received == []


@pytest.mark.covers("PRG-03", "NOT-02")
async def test_progress_goes_to_the_client_that_asked_only():
    server = Server()

    @server.tool
    async def work(ctx: Context) -> None:
        await ctx.report_progress(1)

    async with WirePeer(server) as asking, WirePeer(server) as other, WirePeer(server, "stateless") as stateless:
        await call(asking, progressToken="same")
        assert len(asking.received) == 1
        assert other.received == stateless.received == []
        await call(stateless, progressToken="same")
        assert len(stateless.received) == 1
        assert other.received == []


@pytest.mark.covers("PRG-04", "LOG-06")
@pytest.mark.parametrize("era", ["handshake", "stateless"])
@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("prompts/get", {"name": "prompt"}),
        ("resources/read", {"uri": "fixed://one"}),
        ("resources/read", {"uri": "template://one"}),
        (
            "completion/complete",
            {"ref": {"type": "ref/prompt", "name": "prompt"}, "argument": {"name": "a", "value": ""}},
        ),
        ("resources/list", {}),
        ("acme/work", {}),
    ],
)
async def test_every_handler_may_tell_progress_and_log(method, params, era):
    server = Server()

    async def tell(ctx: Context) -> None:
        await ctx.report_progress(1)
        await ctx.info("working")

    @server.prompt
    async def prompt(ctx: Context, a: str = "") -> str:
        await tell(ctx)
        return a

    @prompt.complete("a")
    async def complete(value: str, ctx: Context) -> list[str]:
        await tell(ctx)
        return [value]

    @server.resource("fixed://one")
    async def fixed(ctx: Context) -> str:
        await tell(ctx)
        return "one"

    @server.resource("template://{name}")
    async def template(name: str, ctx: Context) -> str:
        await tell(ctx)
        return name

    @server.on_list_resources
    async def listed(ctx: Context) -> list[types.Resource]:
        await tell(ctx)
        return []

    @server.method("acme/work")
    async def work(ctx: Context) -> None:
        await tell(ctx)

    async with WirePeer(server, era) as peer:
        if era == "handshake":
            await peer.request("logging/setLevel", {"level": "info"})
        meta = {"progressToken": 1, types.LOG_LEVEL: "info"}
        response = await peer.request(method, {**params, "_meta": meta})
        assert "result" in response
        assert params_of(peer, PROGRESS) == [{"progressToken": 1, "progress": 1}]
        assert params_of(peer, MESSAGE) == [{"level": "info", "data": "working"}]


# What clients notify.


@pytest.mark.covers("PRG-06", "NOT-03")
@pytest.mark.parametrize(
    "message",
    [
        {"method": "notifications/progress", "params": {"progressToken": 1, "progress": 1}},
        {"method": "notifications/progress", "params": {"nonsense": True}},
        {"method": "notifications/message", "params": {"level": "info", "data": 1}},
        {"method": "notifications/tools/list_changed"},
        {"method": "notifications/nothing/we/know", "params": {"a": 1}},
        {"method": "notifications/roots/list_changed"},
        {"method": "notifications/initialized"},
    ],
    ids=lambda message: message["method"],
)
@pytest.mark.parametrize("era", ["none", "handshake", "stateless"])
async def test_a_notification_that_means_nothing_to_us_is_ignored(message, era, caplog):
    server = Server()
    async with WirePeer(server, era) as peer:
        peer.send({"jsonrpc": "2.0", **message})
        assert "result" in await peer.request("tools/list")
        assert peer.received == []
    assert caplog.records == []


# Ping.


@pytest.mark.covers("PNG-01", "PNG-05", "SRV-22")
@pytest.mark.parametrize(("era", "answer"), [("none", {}), *((version, {}) for version in HANDSHAKE_VERSIONS)])
async def test_a_ping_is_answered_with_nothing(era, answer):
    async with WirePeer(Server(capabilities={}), era) as peer:
        assert (await peer.request("ping"))["result"] == answer


@pytest.mark.covers("PNG-05")
async def test_the_stateless_era_has_no_ping_in_either_direction():
    server = Server()
    raised: list[Exception] = []

    @server.tool
    async def work(ctx: Context) -> None:
        try:
            await ctx.ping()
        except MethodNotFound as error:
            raised.append(error)

    async with WirePeer(server, "stateless") as peer:
        assert (await peer.request("ping"))["error"]["code"] == -32601
        await call(peer)
        assert len(raised) == 1
        assert peer.received == []


@pytest.mark.covers("PNG-02")
@pytest.mark.parametrize("kind", ["async", "thread"])
@pytest.mark.parametrize("error", [None, {"code": -32001, "message": "not now"}])
async def test_a_server_pings_its_client_and_hears_its_refusal(error, kind):
    server = Server()

    async def asynchronous(ctx: Context) -> str:
        try:
            await ctx.ping(timeout=DEADLINE)
        except RpcError as refused:
            return refused.message
        return "there"

    def blocking(ctx: BlockingContext) -> str:
        try:
            ctx.ping(timeout=DEADLINE)
        except RpcError as refused:
            return refused.message
        return "there"

    server.tool(name="work")(asynchronous if kind == "async" else blocking)
    async with WirePeer(server) as peer:
        id = peer.start("tools/call", {"name": "work"})
        asked = await peer.receive("ping")
        peer.answer(asked["id"], {}, error=error)
        response = await peer.response(id)
        assert response["result"]["content"][0]["text"] == ("there" if error is None else "not now")


@pytest.mark.covers("PNG-02")
async def test_a_client_whose_input_ended_is_not_asked_any_more():
    server = Server()
    started, released = asyncio.Event(), asyncio.Event()
    raised: list[str] = []

    @server.tool
    async def work(ctx: Context) -> None:
        started.set()
        await released.wait()
        try:
            await ctx.ping()
        except TransportError as error:
            raised.append(str(error))

    sent: list[bytes] = []
    connection = server.connect(sent.append)
    connection.receive(b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"work"}}\n')
    await asyncio.wait_for(started.wait(), DEADLINE)
    connection.receive_end()
    released.set()
    await asyncio.wait_for(connection.drain(), DEADLINE)
    connection.close()
    assert raised == ["The client is gone, and will not answer"]
    assert len(sent) == 1
