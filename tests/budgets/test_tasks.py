"""What a task that has nothing to do costs the store `Local`, without a clock: transactions and statements."""

import sqlite3
from typing import Any

import pytest

from dragoman import Server
from dragoman.stores import Local
from scenarios.task_peer import GENERATIONS, task_peer

TASKS = 10
WRITES = 2
"""A task is made and begun in one transaction, and ended in another."""
STATEMENTS = 12
"""There are 11 in both, besides BEGIN and COMMIT and without those of triggers; expired things are removed at times."""


@pytest.mark.parametrize("generation", GENERATIONS)
async def test_a_task_with_nothing_to_do_costs_two_transactions_that_write(generation, tmp_path, monkeypatch):
    statements: list[str] = []
    connect = sqlite3.connect

    def traced(*args: Any, **options: Any) -> sqlite3.Connection:
        connection = connect(*args, **options)
        connection.set_trace_callback(statements.append)
        return connection

    monkeypatch.setattr(sqlite3, "connect", traced)
    server = Server("shop", store=Local(tmp_path), secret="a secret of sixteen")

    @server.tool(task=True)
    async def nothing() -> str:
        return "done"

    async with task_peer(server, generation) as peer:
        for counts in (False, True):
            if counts:
                statements.clear()
            for _ in range(TASKS):
                task = await peer.start("nothing")
                await peer.until(task["taskId"], "completed")
        said = list(statements)
    writing = _of_writing_transactions(said)
    assert said.count("BEGIN IMMEDIATE") == WRITES * TASKS
    assert len(writing) <= STATEMENTS * TASKS, writing[: STATEMENTS * 2]


def _of_writing_transactions(said: list[str]) -> list[str]:
    """Return the statements of the transactions that write; a trigger repeats the statement that fires it."""
    found, is_writing = [], False
    for before, statement in zip(["", *said], said, strict=False):
        if statement in ("BEGIN", "BEGIN IMMEDIATE", "COMMIT"):
            is_writing = statement == "BEGIN IMMEDIATE"
        elif is_writing and statement != before:
            found.append(statement)
    return found
