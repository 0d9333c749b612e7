"""An inline handler does what a handler in a thread does."""

import asyncio
import logging

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman import BlockingContext, Server
from dragoman.testing import WirePeer

DEADLINE = 60


def run(work):
    async def limited():
        async with asyncio.timeout(DEADLINE):
            return await work

    return asyncio.run(limited())


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
