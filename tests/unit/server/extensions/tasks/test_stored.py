"""A task as the store keeps it."""

import msgspec
from msgspec import Raw

from dragoman import types
from dragoman.errors import RpcError
from dragoman.server import DetachedCall
from dragoman.server.extensions.tasks.stored import StoredTask, TaskEntry
from dragoman.stores.contract import TaskRecord

ASKED = types.ListRootsRequest()


def stored(**changes):
    call = DetachedCall(id=1, params=Raw(b"{}"), version="2026-07-28", capabilities=types.ClientCapabilities())
    return StoredTask(generation=2, tool="t", signature="s", call=call, **changes)


def entry(task, created_at=0.0):
    return TaskEntry(TaskRecord("7", b"", 1, "ready", 0, created_at, None), task)


def asking(*keys):
    task = stored()
    assert task.call is not None
    task.call.recording.asked = dict.fromkeys(keys, "digest")
    task.ask(dict.fromkeys(keys, ASKED))
    return task


def test_it_is_encoded_without_loss():
    task = asking("a")
    again = msgspec.json.decode(msgspec.json.encode(task), type=StoredTask)
    assert msgspec.json.encode(again) == msgspec.json.encode(task)
    assert again.asked == task.asked


def test_a_record_of_another_form_is_no_task():
    assert TaskEntry.read(TaskRecord("7", b'{"another": 1}', 1, "ready", 0, 0.0, None)) is None


def test_a_task_goes_on_when_every_question_has_its_answer():
    task = asking("a", "b")
    assert task.answer({"a": Raw(b"1"), "c": Raw(b"2")})
    assert (task.status, list(task.asked)) == ("input_required", ["b"])
    assert not task.answer({"a": Raw(b"3")})
    assert task.answer({"b": Raw(b"4")})
    assert task.status == "working"
    assert task.call is not None
    assert task.call.recording.inputs == {"a": Raw(b"1"), "b": Raw(b"4")}


def test_a_key_is_given_once():
    task = asking("a")
    assert task.answer({"a": Raw(b"1")})
    task.ask({"a": ASKED, "a-2": ASKED})
    assert list(task.asked) == ["a-2", "a-2-2"]


def test_an_ended_task_keeps_nothing_of_its_call():
    task = asking("a")
    task.fail(RpcError(-1, "no", {"why": "not"}))
    assert (task.call, task.asked, task.is_terminal) == (None, {}, True)
    assert task.error == {"code": -1, "message": "no", "data": {"why": "not"}}
    assert not task.answer({"a": Raw(b"1")})


def test_the_wire_has_times_in_utc_and_whole_milliseconds():
    plain = entry(stored(ttl=0.0001, poll=1.5), 0.1234).plain()
    assert (plain.created_at, plain.last_updated_at) == ("1970-01-01T00:00:00.123Z",) * 2
    assert (plain.ttl, plain.poll_interval) == (1, 1500)
    created = entry(stored(updated_at=2.0)).created()
    assert (created.last_updated_at, created.ttl_ms) == ("1970-01-01T00:00:02.000Z", None)
