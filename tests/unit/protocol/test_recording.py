from __future__ import annotations

import msgspec
from msgspec import Raw

from dragoman.protocol.recording import RecordedAnswer, Recording


def test_a_new_recording_is_empty() -> None:
    recording = Recording()
    assert (recording.inputs, recording.unanswered, recording.steps, recording.state) == ({}, set(), {}, Raw(b"null"))


def test_only_questions_that_wait_are_answered_and_each_once() -> None:
    recording = Recording(asked={"elicit-1": "digest", "roots-1": "other"})
    recording.answer({"elicit-1": Raw(b"1"), "unknown": Raw(b'{"ignored":true}')})
    recording.answer({"elicit-1": Raw(b"2")})
    assert recording.answers == {"elicit-1": RecordedAnswer("digest", Raw(b"1"))}
    assert recording.inputs == {"elicit-1": Raw(b"1")}
    assert recording.unanswered == {"roots-1"}


def test_a_copy_does_not_change_with_the_original() -> None:
    recording = Recording(asked={"a": "digest"}, steps={"book": Raw(b"1")}, state=Raw(b"7"), trace="00-1-2-01")
    copied = recording.copy()
    assert copied == recording
    recording.answer({"a": Raw(b"1")})
    recording.steps["pay"] = Raw(b"2")
    recording.asked["b"] = "digest"
    assert copied == Recording(asked={"a": "digest"}, steps={"book": Raw(b"1")}, state=Raw(b"7"), trace="00-1-2-01")


def test_json_and_messagepack_keep_it_whole() -> None:
    recording = Recording(
        {"a": RecordedAnswer(None, Raw(b"1"))}, {"b": "digest"}, {"book": Raw(b'{"id":7}')}, Raw(b'"here"'), "00-1-2-01"
    )
    assert msgspec.json.decode(msgspec.json.encode(recording), type=Recording) == recording
