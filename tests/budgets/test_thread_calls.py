"""What a `def` costs over stdio: tasks, changes of threads, and wake-ups of the loop."""

import asyncio
import threading

from dragoman import Server
from dragoman.runtime import offload

DEADLINE = 60
CALLS = 500
MOST_HUNTS = MOST_WAKE_UPS = CALLS // 5
"""A busy machine changes threads more often than an idle one, which needs about one in a hundred calls."""
CALL = b'{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"work","arguments":{}}}\n'


class Conversation:
    """A connection, and the end of all its calls."""

    def __init__(self, work):
        server = Server()
        server.tool(work, name="work")
        self.sent = []
        self.ended = asyncio.Event()
        self.connection = server.connect(self._note)

    def _note(self, data):
        self.sent.append(data)
        if len(self.sent) == CALLS:
            self.ended.set()

    async def call(self):
        self.connection.receive(b"".join(CALL % number for number in range(CALLS)))
        async with asyncio.timeout(DEADLINE):
            await self.ended.wait()


async def test_calls_in_one_go_change_threads_and_wake_the_loop_seldom(monkeypatch):
    hunts, wake_ups = [], []
    end_hunt, waker = offload._Threads.end_hunt, offload.waker

    def note_hunt(threads):
        hunts.append(threading.get_ident())
        return end_hunt(threads)

    def noting_waker(loop, function):
        wake = waker(loop, function)
        return lambda: (wake_ups.append(function), wake())

    monkeypatch.setattr(offload._Threads, "end_hunt", note_hunt)
    monkeypatch.setattr(offload, "waker", noting_waker)
    conversation = Conversation(lambda: "done")
    await conversation.call()
    assert all(b'"text":"done"' in answer for answer in conversation.sent)
    assert 1 <= len(hunts) <= MOST_HUNTS
    assert 1 <= len(wake_ups) <= MOST_WAKE_UPS
    conversation.connection.close()
