"""A server is checked against a recorded conversation."""

import pytest

from dragoman import AsyncClient, Server, ToolError
from dragoman.testing import cassette


def shop(text):
    server = Server("shop")

    @server.tool
    async def fail() -> str:
        raise ToolError(text)

    return server


async def test_a_server_that_answers_otherwise_fails_the_check_with_the_difference(tmp_path):
    path = tmp_path / "shop.jsonl"
    with cassette(path, shop("no luck")) as tape:
        async with AsyncClient(tape, mode="handshake") as client:
            await client.call_tool("fail", raise_on_error=False)
    await cassette(path).check(shop("no luck"))
    with pytest.raises(AssertionError, match="bad luck"):
        await cassette(path).check(shop("bad luck"))
