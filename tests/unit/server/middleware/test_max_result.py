"""MaxResult: what is cut, what is refused, and what is left alone."""

import json

import pytest

from dragoman import Image, Server, ToolResult, types
from dragoman.server.middleware import MaxResult
from dragoman.stores import Memory
from dragoman.testing import WirePeer
from scenarios.task_peer import SECOND, task_peer

pytestmark = pytest.mark.covers("MID-03")
MOST = 2000


def limited(**options):
    server = Server("shop", secret="a secret of sixteen", store=Memory())

    @server.tool
    def text(unit: str, count: int) -> str:
        return unit * count

    @server.tool
    def texts(unit: str, count: int) -> list[types.TextContent]:
        return [types.TextContent(unit) for _ in range(count)]

    @server.tool
    def picture(size: int, words: str) -> list[object]:
        return [words, Image(b"i" * size, mime_type="image/png"), words]

    @server.tool
    def rows(count: int) -> list[int]:
        return list(range(count))

    @server.tool
    def nonsense() -> str:
        return "\ud800"

    @server.tool
    def both(count: int) -> ToolResult:
        return ToolResult("a" * count, structured={"short": True})

    @server.resource("docs://{size}")
    def document(size: int) -> str:
        return "d" * size

    @server.prompt
    def review(code: str) -> str:
        return f"Review: {code}"

    server.middleware(MaxResult(MOST, **options))
    return server


def size_of(result):
    return len(json.dumps(result, ensure_ascii=False, separators=(",", ":")).encode())


async def called(server, name, era="handshake", **arguments):
    async with WirePeer(server, era) as peer:
        return (await peer.request("tools/call", {"name": name, "arguments": arguments}))["result"]


@pytest.mark.parametrize("unit", ["a", "é", "\n", '"', "𝄞", "\x00", "ab\\"])
async def test_a_text_is_cut_to_the_last_byte_and_a_note_says_how_much_is_missing(unit):
    result = await called(limited(), "text", unit=unit, count=5000)
    assert MOST - 10 < size_of(result) <= MOST
    shown, note = (block["text"] for block in result["content"])
    assert (unit * 5000).startswith(shown)
    total = len(unit) * 5000
    assert note == f"[The text was cut: {total - len(shown)} of {total} characters are left out.]"
    assert "isError" not in result


@pytest.mark.parametrize("unit", ["a", "é"])
async def test_a_result_that_fits_is_left_alone(unit):
    envelope = size_of({"content": [{"type": "text", "text": ""}]})
    count = (MOST - envelope) // len(unit.encode())
    assert (await called(limited(), "text", unit=unit, count=count))["content"] == [
        {"type": "text", "text": unit * count}
    ]
    assert len((await called(limited(), "text", unit=unit, count=count + 1))["content"]) == 2


async def test_the_first_of_many_texts_stay_whole():
    result = await called(limited(), "texts", unit="word", count=1000)
    assert size_of(result) <= MOST
    *shown, last, note = (block["text"] for block in result["content"])
    assert set(shown) == {"word"}
    assert "word".startswith(last)
    left_out = 4000 - 4 * len(shown) - len(last)
    assert note == f"[The text was cut: {left_out} of 4000 characters are left out.]"


async def test_a_picture_stays_if_it_fits_without_the_texts_and_is_refused_otherwise():
    result = await called(limited(), "picture", size=900, words="w" * 3000)
    assert size_of(result) <= MOST
    assert [block["type"] for block in result["content"]] == ["text", "image", "text"]
    assert result["content"][2]["text"].startswith("[The text was cut: ")
    refused = await called(limited(), "picture", size=9000, words="w")
    assert refused["isError"] is True
    assert "bytes, and at most 2000 are sent; ask for less" in refused["content"][0]["text"]


@pytest.mark.parametrize("era", ["handshake", "stateless"])
@pytest.mark.parametrize("tool", ["rows", "both"])
async def test_structured_content_is_refused_because_half_of_it_would_not_fit_its_schema(era, tool):
    result = await called(limited(), tool, era, count=3000)
    assert result["isError"] is True
    assert "structuredContent" not in result
    assert "ask for less" in result["content"][0]["text"]


async def test_every_result_may_be_refused_instead():
    result = await called(limited(cut=False), "text", unit="a", count=5000)
    assert result["isError"] is True
    assert (await called(limited(cut=False), "text", unit="a", count=5))["content"][0]["text"] == "aaaaa"


@pytest.mark.parametrize("era", ["handshake", "stateless"])
async def test_a_resource_and_a_prompt_that_are_too_large_are_errors_and_other_methods_are_not_limited(era):
    server = limited(methods=["resources/read", "prompts/get"])
    async with WirePeer(server, era) as peer:
        assert "result" in await peer.request("resources/read", {"uri": "docs://500"})
        for method, params in (
            ("resources/read", {"uri": "docs://5000"}),
            ("prompts/get", {"name": "review", "arguments": {"code": "c" * 5000}}),
        ):
            error = (await peer.request(method, params))["error"]
            assert error["code"] == -32603
            assert "at most 2000 are sent" in error["message"]
        whole = await peer.request("tools/call", {"name": "text", "arguments": {"unit": "a", "count": 5000}})
        assert len(whole["result"]["content"][0]["text"]) == 5000


async def test_a_result_that_is_no_json_fails_as_without_middleware(caplog):
    limits, none = limited(), limited()
    none.dispatcher.middlewares = ()
    none.dispatcher.derive()
    assert await called(limits, "nonsense") == await called(none, "nonsense")


async def test_a_dict_of_another_middleware_is_measured_too():
    server = limited()

    @server.middleware
    async def canned(ctx, call_next):
        if ctx.method == "tools/call":
            return {"content": [{"type": "text", "text": "a" * 5000}]}
        return await call_next()

    assert (await called(server, "rows", count=1))["isError"] is True


async def test_the_result_of_a_task_is_cut():
    server = limited()

    @server.tool(task=True)
    async def long() -> str:
        return "a" * 5000

    async with task_peer(server, SECOND) as peer:
        created = await peer.start("long")
        outcome = await peer.outcome(created["taskId"])
    assert "The text was cut" in outcome["result"]["content"][1]["text"]
