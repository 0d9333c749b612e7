"""The shortcuts of a server do what the plain ways do."""

import asyncio
import logging
from dataclasses import dataclass
from typing import Any, TypedDict

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman import BlockingContext, Configuration, Server
from dragoman.protocol.versions import VERSIONS
from dragoman.testing import WirePeer

DEADLINE = 60


class Place(TypedDict):
    name: str
    height: float


@dataclass
class Person:
    name: str
    age: int


ANNOTATIONS = (str, int, float, bool, dict, dict[str, int], list[int], list[str], None, int | None, str | None, Place)
ANNOTATIONS += (Person, Any, str | list[str], bytes, object)
plain_values = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5)
values = (
    plain_values
    | st.lists(plain_values, max_size=3)
    | st.dictionaries(st.text(max_size=3), plain_values, max_size=3)
    | st.builds(Person, st.text(max_size=3), st.integers(0, 99))
    | st.fixed_dictionaries({"name": st.text(max_size=3), "height": st.floats()})
    | st.binary(max_size=3)
)


def run(work):
    async def limited():
        async with asyncio.timeout(DEADLINE):
            return await work

    return asyncio.run(limited())


@pytest.mark.parametrize("kind", ["inline", "async"])
@pytest.mark.parametrize("version", VERSIONS, ids=lambda version: version.name)
@given(st.sampled_from(ANNOTATIONS), st.lists(values, min_size=1, max_size=5), st.booleans())
@settings(max_examples=60, deadline=None)
def test_a_plain_result_is_the_one_that_is_looked_at_closely(version, kind, annotation, returned, validates):
    reports = []
    server = Server(
        configuration=Configuration(
            exception_reporter=lambda *_: reports.append(0), validate_tool_call_results=validates
        )
    )
    rest: list[Any] = []

    async def give_later() -> annotation:  # type: ignore[valid-type]
        return rest.pop()

    def give() -> annotation:  # type: ignore[valid-type]
        return rest.pop()

    async def answers(*, is_plain: bool):
        if not is_plain:
            server.registry.tools["give"].output._exact_types = frozenset()
        rest.extend(returned)
        async with WirePeer(server, version.name) as peer:
            return [await peer.request("tools/call", {"name": "give", "arguments": {}}) for _ in returned]

    server.tool(give, name="give", inline=True) if kind == "inline" else server.tool(give_later, name="give")
    fast = run(answers(is_plain=True))
    reported = len(reports)
    assert repr(run(answers(is_plain=False))) == repr(fast)
    assert len(reports) == 2 * reported


said = st.one_of(
    st.tuples(st.just("report_progress"), st.tuples(st.integers(0, 9))),
    st.tuples(st.just("log"), st.tuples(st.sampled_from(["debug", "info", "error"]), st.text(max_size=5))),
    st.tuples(st.just("raise_if_cancelled"), st.just(())),
    st.tuples(st.just("close_stream"), st.just(())),
)


@pytest.mark.parametrize("era", ["handshake", "stateless"])
@given(st.lists(said, max_size=6))
@settings(max_examples=40, deadline=None)
def test_an_inline_handler_says_what_one_in_a_thread_says(era, script):
    async def heard(*, inline: bool):
        server = Server()

        @server.tool(inline=inline)
        def say(ctx: BlockingContext) -> str:
            for what, arguments in script:
                getattr(ctx, what)(*arguments)
            return "said"

        async with WirePeer(server, era) as peer:
            await peer.request("ping")
            peer.received.clear()
            meta = {"progressToken": 1, "io.modelcontextprotocol/logLevel": "debug"}
            response = await peer.request("tools/call", {"name": "say", "_meta": meta})
            return response, peer.received

    assert run(heard(inline=True)) == run(heard(inline=False))


logging.getLogger("dragoman").addHandler(logging.NullHandler())
