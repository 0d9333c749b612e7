"""Session files in the traffic."""

import asyncio
import os
import sqlite3
from contextlib import closing

import pytest

from dragoman.compose.session_file import SessionWriter
from dragoman.errors import SessionFileError
from dragoman.inspector.inspector import Inspector
from dragoman.inspector.sessions import BATCH, ReadSession
from dragoman.inspector.traffic.rows import Traffic


def recorded(path, count):
    with SessionWriter(path, target="python server.py") as writer:
        for number in range(count):
            writer.write("client", "message", b'{"id":%d,"method":"ping"}' % number)
    return path


class Told:
    """What the pages are told: how much traffic there was after each batch, and how often the facts changed."""

    def __init__(self, traffic):
        self.traffic, self.batches, self.changes = traffic, [], asyncio.Queue()

    def push_traffic(self):
        self.batches.append(len(self.traffic))

    def push(self, event, *, session):
        self.changes.put_nowait(session)


def opened(path, traffic, **options):
    told = Told(traffic)
    return ReadSession("f1", path, traffic, told, **options), told


async def test_a_file_of_several_batches_is_read_whole(tmp_path):
    traffic = Traffic()
    path = recorded(tmp_path / "a.mcpsession", BATCH + 3)
    session, told = opened(path, traffic)
    await session.load()
    await session.close()
    assert (session.records, told.batches, told.changes.qsize()) == (BATCH + 3, [BATCH, BATCH + 3], 1)
    facts = session.facts()
    assert (facts["name"], facts["target"], facts["following"]) == ("a.mcpsession", "python server.py", False)
    assert facts["begun"] > 0


async def test_a_file_that_is_damaged_while_it_is_followed_says_so_and_is_left(tmp_path):
    path = recorded(tmp_path / "a.mcpsession", 2000)
    traffic = Traffic()
    session, told = opened(path, traffic, is_following=True)
    await session.load()
    await told.changes.get()
    os.truncate(path, 10_000)
    async with asyncio.timeout(60):
        await told.changes.get()
    await session.close()
    facts = session.facts()
    assert (facts["following"], facts["failure"]["kind"]) == (False, "SessionFileError")


async def test_an_uploaded_file_is_deleted_at_the_end(tmp_path):
    path = recorded(tmp_path / "a.mcpsession", 1)
    session, _ = opened(path, Traffic(), name="mine.mcpsession")
    await session.load()
    assert (session.facts()["name"], session.facts()["path"]) == ("mine.mcpsession", None)
    await session.close()
    assert not path.exists()


@pytest.mark.parametrize(
    "column", ["head = 'no json'", "head = '[]'", "data = 'a text'", "time = 'noon'", "exchange = 'x'"]
)
async def test_a_record_that_no_tap_wrote_ends_the_reading_and_keeps_what_was_read(tmp_path, column):
    path = recorded(tmp_path / "a.mcpsession", 5)
    with closing(sqlite3.connect(path)) as database, database:
        database.execute(f"UPDATE records SET {column} WHERE number = 3")
    traffic = Traffic()
    session, _ = opened(path, traffic, is_following=True)
    await session.load()
    await session.close()
    assert session.facts()["failure"]["kind"] == "SessionFileError"
    assert "damaged after record 2" in session.facts()["failure"]["message"]
    assert len(traffic) <= 2


async def test_a_file_without_its_time_is_refused_before_a_page_gets_it(tmp_path):
    path = recorded(tmp_path / "a.mcpsession", 1)
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("UPDATE session SET value = 'x' WHERE key = 'begun'")
    inspector = Inspector()
    with pytest.raises(SessionFileError, match="has no start time"):
        await inspector.open(path)
    assert inspector.sessions == {}


async def test_the_target_of_a_file_is_shown_without_its_secrets(tmp_path):
    path = recorded(tmp_path / "a.mcpsession", 1)
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("UPDATE session SET value = 'npx a --token abc' WHERE key = 'target'")
    session, _ = opened(path, Traffic())
    assert session.facts()["target"] == "npx a --token ***"
