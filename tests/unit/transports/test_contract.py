"""What a connection needs of its way out."""

import asyncio

from dragoman.transports.contract import FunctionSink


def test_a_plain_function_takes_every_message_whole_and_at_once():
    sent = []
    sink = FunctionSink(sent.append)
    sink.send(b"whole")
    assert sent == [b"whole"]
    assert sink.has_room
    asyncio.run(sink.wait_for_room())
