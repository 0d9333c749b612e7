"""How often JSON is read and written for one request, and how deep in the stack a tool is called."""

import asyncio
import gc
import sys

import msgspec
import pytest

from budgets.test_calls import CALLS
from dragoman import Server

DECODED = ["envelope", "params", "arguments"]
"""Of a request whose `_meta`, if it has one, came before."""
FRAMES = 8
"""From the chunk that came in to the tool."""


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


def depth():
    frame, count = sys._getframe(1), 0
    while frame is not None:
        frame, count = frame.f_back, count + 1
    return count


async def served(era):
    server, sent, depths = Server(), [], []

    @server.tool(inline=True)
    def add(a: int, b: int) -> str:
        depths.append(depth())
        return str(a + b)

    connection = server.connect(sent.append)
    for id in range(3):
        connection.receive(CALLS[era] % id)
    counted = json_calls(lambda: connection.receive(CALLS[era] % 3))
    depths.clear()
    connection.receive(CALLS[era] % 4)
    assert b'"text":"3"' in sent[-1]
    connection.close()
    return counted, depths[0] - depth()


@pytest.mark.parametrize("era", CALLS)
def test_each_slice_of_a_request_is_decoded_once_and_its_answer_encoded_once(era):
    counted, _ = asyncio.run(served(era))
    assert counted == {"decode": len(DECODED), "encode": 1}


@pytest.mark.parametrize("era", CALLS)
def test_a_tool_is_called_few_frames_below_the_chunk_that_asked_for_it(era):
    _, frames = asyncio.run(served(era))
    assert frames <= FRAMES
