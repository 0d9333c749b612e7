"""The audit: one record for each request, without contents, in a file or by a function."""

import asyncio
import json
import logging
import os
import subprocess
import sys
from datetime import UTC, datetime, timedelta

import pytest

from dragoman import AsyncClient, ConfigError, Configuration, Context, DefinitionError, Server, ToolError
from dragoman.server import Audit
from dragoman.server.dispatch.audit import MAX_CHARACTERS
from dragoman.server.middleware import RateLimit
from scenarios.endless_call import cancel_endless_call

SECRET = "a secret of sixteen"


def made(audit, **options):
    quiet = Configuration(exception_reporter=lambda error, info: None)
    server = Server("shop", audit=audit, secret=SECRET, configuration=quiet, **options)

    @server.tool
    def buy(item: str, count: int = 1) -> str:
        return f"{count} {item}"

    @server.tool
    def fail() -> str:
        raise ToolError("no luck")

    @server.prompt
    def broken() -> str:
        raise LookupError("hidden")

    return server


def asked(server, method, **params):
    server.handle_json(json.dumps({"jsonrpc": "2.0", "id": 7, "method": method, "params": params}))


def lines(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.mark.parametrize(
    ("method", "params", "expected"),
    [
        ("tools/call", {"name": "buy", "arguments": {"item": "tea"}}, {"name": "buy", "outcome": "ok"}),
        ("tools/call", {"name": "fail"}, {"name": "fail", "outcome": "tool_error"}),
        ("tools/call", {"name": "none"}, {"name": "none", "outcome": "error", "code": -32602}),
        ("prompts/get", {"name": "broken"}, {"name": "broken", "outcome": "error", "code": -32603}),
        ("resources/read", {"uri": "a://b"}, {"name": "a://b", "outcome": "error", "code": -32002}),
        ("acme/none", {}, {"outcome": "refused", "code": -32601}),
        ("tools/list", {}, {"outcome": "ok"}),
    ],
)
def test_a_request_is_one_line_that_says_what_was_asked_and_how_it_ended(method, params, expected, tmp_path):
    path = tmp_path / "audit.jsonl"
    asked(made(path), method, **params)
    (record,) = lines(path)
    assert datetime.now(UTC) - datetime.fromisoformat(record.pop("time")) < timedelta(minutes=1)
    assert 0 <= record.pop("duration_ms") < 60_000
    assert ("arguments_digest" in record) == ("arguments" in params)
    record.pop("arguments_digest", None)
    assert record == {"method": method, "request_id": 7, **expected}
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_record_has_no_contents_but_equal_arguments_can_be_recognized(tmp_path):
    server = made(tmp_path / "audit.jsonl")
    asked(server, "tools/call", name="buy", arguments={"item": "tea", "count": 2})
    asked(server, "tools/call", name="buy", arguments={"count": 2, "item": "tea"})
    asked(server, "tools/call", name="buy", arguments={"item": "coffee", "count": 2})
    text = (tmp_path / "audit.jsonl").read_text()
    assert "tea" not in text
    first, same, other = (record["arguments_digest"] for record in lines(tmp_path / "audit.jsonl"))
    assert first == same != other


def test_a_digest_cannot_be_computed_without_the_secret_of_the_server():
    digests = []
    for secret in (SECRET, SECRET, "another secret of sixteen"):
        records = []
        server = Server("shop", audit=records.append, secret=secret)
        server.tool(lambda item: item, name="buy")
        asked(server, "tools/call", name="buy", arguments={"item": "tea"})
        digests.append(records[0]["arguments_digest"])
    assert digests[0] == digests[1] != digests[2]


def test_the_arguments_are_recorded_if_that_is_wanted():
    records = []
    asked(made(Audit(records.append, arguments=True)), "tools/call", name="buy", arguments={"item": "tea"})
    assert records[0]["arguments"] == {"item": "tea"}


def test_a_text_that_a_client_invented_is_cut():
    records = []
    asked(made(records.append), "x" * 5000)
    asked(made(records.append), "tools/call", name="y" * 5000)
    assert [len(records[0]["method"]), len(records[1]["name"])] == [MAX_CHARACTERS] * 2


@pytest.mark.parametrize("is_async", [False, True])
async def test_a_function_gets_the_record_before_the_response_is_sent(is_async):
    records = []

    async def later(record):
        await asyncio.sleep(0)
        records.append(record)

    async with AsyncClient(made(later if is_async else records.append), name="tester", version="9") as mcp:
        await mcp.call_tool("buy", {"item": "tea"})
        (record,) = [record for record in records if record["method"] == "tools/call"]
    assert record["client"] == "tester 9"
    assert record["outcome"] == "ok"


@pytest.mark.parametrize("is_async", [False, True])
def test_a_failing_function_is_reported_and_the_call_succeeds(is_async, caplog):
    def fail(record):
        raise OSError("the database is away")

    async def fail_later(record):
        fail(record)

    server = Server("shop", audit=fail_later if is_async else fail, secret=SECRET)
    server.tool(lambda: "tea", name="buy")
    answer = server.handle_json('{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"buy"}}')
    assert b"tea" in answer
    (record,) = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert "the audit" in record.getMessage()


def test_a_file_that_cannot_be_opened_is_an_error_at_the_start(tmp_path):
    server = made(tmp_path / "missing" / "audit.jsonl")
    for start in (server.asgi, server.check, lambda: server.connect(print)):
        with pytest.raises(ConfigError, match=r"audit\.jsonl cannot be opened: .*; create its folder"):
            start()


def test_an_audit_says_where_it_writes():
    assert repr(Audit("audit.jsonl")) == "<Audit to PosixPath('audit.jsonl')>"


def test_what_is_no_audit_is_refused():
    with pytest.raises(DefinitionError, match="audit must be a path, a function of one record, or an Audit"):
        Server(audit=7)


def test_a_file_that_was_moved_is_made_again(tmp_path):
    path = tmp_path / "audit.jsonl"
    server = made(path)
    asked(server, "tools/list")
    path.rename(tmp_path / "audit.1")
    asked(server, "ping")
    assert [record["method"] for record in lines(path)] == ["ping"]


async def test_a_cancelled_call_is_recorded_as_such():
    records = []
    await cancel_endless_call(made(records.append))
    assert [record["outcome"] for record in records] == ["cancelled"]


async def test_each_round_of_the_stateless_era_is_a_record():
    records = []
    server = made(records.append)

    @server.tool
    async def book(ctx: Context) -> str:
        return (await ctx.elicit("Which city?", str)).content

    async with AsyncClient(server, mode="stateless", on_elicitation=lambda request: {"value": "Oslo"}) as mcp:
        await mcp.call_tool("book")
    assert [record["outcome"] for record in records if record.get("name") == "book"] == ["input_required", "ok"]


def test_a_record_names_the_trace(telemetry):
    records = []
    trace = "0af7651916cd43dd8448eb211c80319c"
    meta = {"traceparent": f"00-{trace}-b7ad6b7169203331-01"}
    asked(made(records.append), "tools/call", name="buy", arguments={"item": "tea"}, _meta=meta)
    assert records[0]["trace_id"] == trace


PROGRAM = """
import json, sys
from dragoman import Server
server = Server("shop", audit=sys.argv[1], secret="a secret of sixteen")
server.tool(lambda item: item, name="buy")
call = {"name": "buy", "arguments": {"item": "x"}, "_meta": {"pad": "x" * 10}}
for id in range(200):
    body = {"jsonrpc": "2.0", "id": f"{sys.argv[2]}-{id}", "method": "tools/call", "params": call}
    server.handle_json(json.dumps(body))
"""


def test_the_lines_of_several_processes_do_not_mix(tmp_path):
    path = tmp_path / "audit.jsonl"
    programs = [
        subprocess.Popen([sys.executable, "-c", PROGRAM, str(path), str(number)], env=dict(os.environ))
        for number in range(3)
    ]
    assert [program.wait(60) for program in programs] == [0, 0, 0]
    ids = [record["request_id"] for record in lines(path)]
    assert sorted(ids) == sorted(f"{number}-{id}" for number in range(3) for id in range(200))


async def test_the_run_of_a_task_has_a_record_that_names_its_task():
    records, both = [], asyncio.Event()

    async def note(record):
        if record["method"] == "tools/call":
            records.append(record)
        if len(records) == 2:
            both.set()

    server = Server("kitchen", audit=note)

    @server.tool(task=True)
    async def bake() -> str:
        return "bread"

    async with asyncio.timeout(60), AsyncClient(server, tasks=True) as client:
        task = await client.start_tool("bake")
        assert (await task.result()).text == "bread"
        await both.wait()
    made, ran = sorted(records, key=lambda record: "task" in record)  # a quick run may end before its request
    assert "task" not in made
    assert ran["task"] != task.id
    assert made["request_id"] == ran["request_id"]


def test_a_request_too_many_is_refused():
    records: list[dict[str, object]] = []
    server = made(records.append)
    server.middleware(RateLimit(1, seconds=60))
    asked(server, "tools/call", name="buy", arguments={"item": "tea"})
    asked(server, "tools/call", name="buy", arguments={"item": "tea"})
    assert [(record["outcome"], record.get("code")) for record in records] == [("ok", None), ("refused", -31029)]
