"""The session file: what is kept, what is masked, its bounds, and what a reader of a damaged file gets."""

import json
import multiprocessing
import sqlite3
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from dragoman.compose import session_file
from dragoman.compose.session_file import SessionFile, SessionWriter, kind_of, write_session
from dragoman.errors import SessionFileError

ENDLESS = "WITH RECURSIVE numbers(n) AS (SELECT 1 UNION ALL SELECT n FROM numbers) SELECT n FROM numbers"
PING = b'{"jsonrpc":"2.0","id":1,"method":"ping"}'


@pytest.fixture
def path(tmp_path):
    return tmp_path / "x.mcpsession"


def test_records_are_read_in_their_order_with_what_belongs_to_them(path):
    with SessionWriter(path, target="https://me:pw@example.com/mcp") as writer:
        head = {
            "method": "POST",
            "path": "/mcp?access_token=abcdefgh",
            "headers": [("Authorization", "Bearer abcdefgh")],
        }
        writer.write("client", "request", head=head, exchange=1)
        writer.write("client", "message", PING, exchange=1)
        writer.write("server", "message", b'{"password":"hunter22"}', {"id": "7"}, exchange=1)
        writer.write("server", "stderr", b"oh\nno")
    session = SessionFile(path)
    assert session.facts["target"] == "https://***@example.com/mcp"
    request, ping, answer, stderr = session.records()
    assert [record.number for record in session.records()] == [1, 2, 3, 4]
    assert request.head == {
        "method": "POST",
        "path": "/mcp?access_token=***",
        "headers": [["Authorization", "Bearer ***"]],
    }
    assert (ping.sender, ping.kind, ping.exchange, ping.data, ping.size) == ("client", "message", 1, PING, len(PING))
    assert ping.message() == {"jsonrpc": "2.0", "id": 1, "method": "ping"}
    assert answer.message() == {"password": "***"}
    assert answer.head == {"id": "7"}
    assert [record.summary() for record in (request, ping, stderr)] == [
        "POST /mcp?access_token=***",
        f"ping 1 {PING.decode()}",
        "stderr: oh no",
    ]
    assert json.loads(json.dumps(answer.as_json()))["data"] == {"password": "***"}
    assert b"hunter22" not in path.read_bytes()


def test_two_writers_share_a_file_and_their_records_are_told_apart(path):
    with SessionWriter(path) as one, SessionWriter(path) as other:
        one.write("client", "message", PING)
        other.write("client", "message", PING)
    assert {record.connection for record in SessionFile(path).records()} == {one.connection, other.connection}


def test_a_message_that_is_too_long_is_cut_and_says_so(path):
    with SessionWriter(path, max_data_bytes=10) as writer:
        writer.write("server", "message", b"[" + b"1," * 100 + b"1]")
    (record,) = SessionFile(path).records()
    assert (len(record.data), record.size, record.head["cut"], record.message()) == (10, 203, True, None)


def test_the_oldest_records_are_removed_when_the_file_is_full(path):
    with SessionWriter(path, max_file_bytes=400_000) as writer:
        for number in range(200):
            writer.write("server", "message", b'{"id":%d,"result":"%b"}' % (number, b"x" * 10_000))
    numbers = [record.number for record in SessionFile(path).records()]
    assert numbers[-1] == 200
    assert 1 not in numbers
    assert len(numbers) > 10
    assert path.stat().st_size < 3_000_000


def test_records_that_do_not_fit_the_queue_are_counted(path, monkeypatch):
    monkeypatch.setattr(session_file, "MAX_QUEUED_BYTES", 1_000)
    with SessionWriter(path) as writer:
        with writer._changed:  # the writer's thread waits
            writer._queued_bytes = 950
        writer.write("server", "message", PING * 10)
        writer._queued_bytes = 0
        writer.write("server", "message", PING)
    records = list(SessionFile(path).records())
    assert "1 records are lost" in [record.head.get("note") for record in records]


def test_a_reader_follows_what_is_written_later(path):
    with SessionWriter(path) as writer:
        writer.write("client", "message", PING)
        following = SessionFile(path).follow()
        assert next(following).number == 1
        writer.write("server", "message", b"{}")
        assert next(following).data == b"{}"


def write_and_wait(path, written):
    writer = SessionWriter(path)
    for _ in range(50):
        writer.write("client", "message", PING)
    while len(list(SessionFile(path).records())) < 50:
        pass
    written.set()
    multiprocessing.Event().wait()


def test_what_a_killed_writer_wrote_is_read(path):
    context = multiprocessing.get_context("spawn")
    written = context.Event()
    child = context.Process(target=write_and_wait, args=(path, written))
    child.start()
    assert written.wait(30)
    child.kill()
    child.join(30)
    assert len(list(SessionFile(path).records())) == 50


def test_a_file_that_is_cut_off_gives_its_beginning_and_then_an_error(path):
    with SessionWriter(path) as writer:
        for _ in range(500):
            writer.write("client", "message", PING * 20)
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    read = []
    with pytest.raises(SessionFileError, match=r"is damaged|malformed"):
        read.extend(record.number for record in SessionFile(path).records())
    assert read == list(range(1, len(read) + 1))


def test_files_of_others_are_refused_with_the_reason(path, tmp_path):
    with pytest.raises(SessionFileError, match="There is no file"):
        SessionFile(path)
    path.write_text("no database, but long enough to be one" * 100)
    for use in (SessionFile, SessionWriter):
        with pytest.raises(SessionFileError, match="not a database"):
            use(path)
    other = tmp_path / "other.db"
    with sqlite3.connect(other) as database:
        database.execute("CREATE TABLE t(x)")
    database.close()
    for use in (SessionFile, SessionWriter):
        with pytest.raises(SessionFileError, match="of another program"):
            use(other)
    with pytest.raises(SessionFileError, match="cannot be written"):
        SessionWriter(tmp_path / "missing" / "x.mcpsession")


def test_a_newer_format_is_refused(path):
    SessionWriter(path).close()
    with sqlite3.connect(path) as database:
        database.execute("UPDATE session SET value = '2' WHERE key = 'format'")
    database.close()
    with pytest.raises(SessionFileError, match="format 2"):
        SessionFile(path)


@pytest.mark.parametrize(
    "change",
    [
        f"DROP TABLE records; CREATE VIEW records AS {ENDLESS}",
        f"DROP TABLE session; CREATE VIEW session AS {ENDLESS}",
        "CREATE TRIGGER t AFTER INSERT ON records BEGIN DELETE FROM records; END",
        "CREATE TABLE more(x)",
    ],
)
def test_file_with_another_schema_is_refused(path, change):
    SessionWriter(path).close()
    with sqlite3.connect(path) as database:
        database.executescript(change)
    database.close()
    with pytest.raises(SessionFileError, match="other tables, views or triggers"):
        SessionFile(path)
    with pytest.raises(SessionFileError, match="other tables, views or triggers"):
        SessionWriter(path)


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("head", "'{'"),
        ("head", "'[]'"),
        ("head", "printf('%.*c', 100000, '[')"),
        ("data", "'text'"),
        ("sender", "'nobody'"),
        ("kind", "5"),
        ("time", "'today'"),
        ("size", "x'00'"),
        ("exchange", "'x'"),
        ("connection", "x'00'"),
    ],
)
def test_record_with_a_value_of_another_type_is_reported_as_damage(path, column, value):
    with SessionWriter(path) as writer:
        writer.write("client", "message", PING)
        writer.write("client", "message", PING)
    with sqlite3.connect(path) as database:
        database.execute(f"UPDATE records SET {column} = {value} WHERE number = 2")
    database.close()
    records = SessionFile(path).records()
    assert next(records).number == 1
    with pytest.raises(SessionFileError, match="damaged after record 1"):
        next(records)


def test_what_begins_like_json_is_a_message():
    assert [kind_of(data) for data in (b" {}", b"[]", b"hello", b"")] == ["message", "message", "text", "text"]


def test_taps_that_begin_at_once_share_a_new_file(tmp_path):
    for number in range(10):
        path, start = tmp_path / f"{number}.mcpsession", threading.Barrier(8)

        def tap(path=path, start=start):
            start.wait(30)
            with SessionWriter(path) as writer:
                writer.write("client", "message", b"{}")

        with ThreadPoolExecutor(8) as pool:
            for done in [pool.submit(tap) for _ in range(8)]:
                done.result(30)
        assert sum(1 for _ in SessionFile(path).records()) == 8


def test_records_of_one_file_are_written_to_another_as_they_are(tmp_path):
    first, second = tmp_path / "a.mcpsession", tmp_path / "b.mcpsession"
    with SessionWriter(first, target="python server.py") as writer:
        for number in range(3):
            writer.write("client", "message", b'{"id":%d}' % number, {"id": str(number)}, exchange=number)
    before = list(SessionFile(first).records())
    write_session(second, before[1:], target="a part")
    after = list(SessionFile(second).records())
    assert [record[1:] for record in after] == [record[1:] for record in before[1:]]
    assert (SessionFile(second).facts["target"], [record.number for record in after]) == ("a part", [1, 2])


def test_records_are_not_written_to_a_file_of_another_kind(tmp_path):
    path = tmp_path / "a.mcpsession"
    path.write_text("a text that is no database, and is long enough to be taken for one" * 20, encoding="utf-8")
    with pytest.raises(SessionFileError):
        write_session(path, [])
