"""Uses a store in all its parts, and writes what blocked the loop meanwhile.

python loop_witness.py local <folder> | redis <port>

What blocks is a connection or a name that is waited for, a process, a sleep, and any statement of SQLite. It writes
JSON: what was `blocked` in the loop, what was done `elsewhere`, and what the witness has `seen` of a deliberate wait.
"""

import asyncio
import json
import socket
import sqlite3
import sys
import threading
from functools import partial
from pathlib import Path

from dragoman.stores import Local, Redis
from redis_store import use_everything

WAITING = {"socket.getaddrinfo", "socket.gethostbyname", "sqlite3.connect", "subprocess.Popen", "time.sleep"}
LOOP = threading.get_ident()
blocked: list[str] = []
elsewhere: list[str] = []


def witness(event: str, arguments: tuple[object, ...]) -> None:
    """Note an event of the interpreter that stands for a wait."""
    waits = event in WAITING
    if event == "socket.connect":
        connecting = arguments[0]
        assert isinstance(connecting, socket.socket)
        waits = connecting.gettimeout() != 0
    if waits:
        note(event)


def note(event: str) -> None:
    (blocked if threading.get_ident() == LOOP else elsewhere).append(event)


class WatchedConnection(sqlite3.Connection):
    """A connection to a database that notes its statements."""

    def execute(self, statement: str, *parameters: object) -> sqlite3.Cursor:
        """Run a statement."""
        note("sqlite3.execute")
        return super().execute(statement, *parameters)  # type: ignore[arg-type]


async def main(kind: str, where: str) -> None:
    store = Local(Path(where)) if kind == "local" else Redis(f"redis://localhost:{where}/0")
    await use_everything(store)
    await store.close()


sqlite3.connect = partial(sqlite3.connect, factory=WatchedConnection)
sys.addaudithook(witness)
asyncio.run(main(*sys.argv[1:]))
said = {"blocked": blocked.copy(), "elsewhere": elsewhere.copy()}
sqlite3.connect(":memory:").execute("SELECT 1")
sys.stdout.write(json.dumps(said | {"seen": blocked[len(said["blocked"]) :]}))
