"""How often JSON is read and written for one request, and how deep in the stack a tool is called."""

import asyncio
import gc
import sys

import msgspec
import pytest

from budgets.test_calls import CALLS
from dragoman import Server

DECODED = {"handshake": ["envelope", "params", "arguments"], "stateless": ["envelope", "params", "_meta", "arguments"]}


def json_calls(work):
    """Return how often msgspec decodes and encodes."""
    counted, before = {"decode": 0, "encode": 0}, sys.getprofile()

    def note(_, event, called):
        if event == "c_call" and isinstance(
            getattr(called, "__self__", None), msgspec.json.Decoder | msgspec.json.Encoder
        ):
            counted[called.__name__] += 1

    gc.disable()
    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(before)
        gc.enable()
    return counted


async def served(era):
    server, sent = Server(), []

    @server.tool(inline=True)
    def add(a: int, b: int) -> str:
        return str(a + b)

    connection = server.connect(sent.append)
    for id in range(3):
        connection.receive(CALLS[era] % id)
    counted = json_calls(lambda: connection.receive(CALLS[era] % 3))
    assert b'"text":"3"' in sent[-1]
    connection.close()
    return counted


@pytest.mark.parametrize("era", CALLS)
def test_each_slice_of_a_request_is_decoded_once_and_its_answer_encoded_once(era):
    assert asyncio.run(served(era)) == {"decode": len(DECODED[era]), "encode": 1}
