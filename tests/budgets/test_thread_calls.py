"""How often calls of a `def` tool over stdio change threads."""

import asyncio
import threading

from dragoman import Server
from dragoman.runtime import offload

DEADLINE = 60
CALLS = 500
MOST_CHANGES = CALLS // 5
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


async def test_calls_in_one_go_change_threads_seldom(monkeypatch):
    changes = []
    first_job = offload._Workers._first_job

    def note_change(workers):
        changes.append(threading.get_ident())
        return first_job(workers)

    monkeypatch.setattr(offload._Workers, "_first_job", note_change)
    conversation = Conversation(lambda: "done")
    await conversation.call()
    assert all(b'"text":"done"' in answer for answer in conversation.sent)
    assert 1 <= len(changes) <= MOST_CHANGES
    conversation.connection.close()
