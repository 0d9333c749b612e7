from __future__ import annotations

import msgspec
import pytest

from dragoman.errors import ValidationError
from dragoman.types import (
    CreatedTask,
    CreateTaskResult,
    DetailedTask,
    ListRootsRequest,
    ListTasksResult,
    RelatedTaskMetadata,
    Task,
    TaskMetadata,
    TaskRequestParams,
    UpdateTaskRequestParams,
    decode,
)

encode = msgspec.json.encode

TASK = Task(task_id="1", status="working", created_at="a", last_updated_at="b", ttl=None)
TASK_DATA = b'{"taskId":"1","status":"working","createdAt":"a","lastUpdatedAt":"b","ttl":null}'


def test_a_task_without_a_limit_says_null() -> None:
    assert encode(TASK) == TASK_DATA
    assert decode(TASK_DATA, Task) == TASK


def test_a_task_that_does_not_say_its_limit_is_refused() -> None:
    with pytest.raises(ValidationError, match=r"missing required field at \$\.ttl"):
        decode(TASK_DATA.replace(b',"ttl":null', b""), Task)


def test_a_task_may_say_when_to_ask_again_and_how_it_fares() -> None:
    task = msgspec.structs.replace(TASK, ttl=0, poll_interval=0, status_message="", meta={})
    assert encode(task) == (
        b'{"taskId":"1","status":"working","createdAt":"a","lastUpdatedAt":"b","ttl":0,'
        b'"pollInterval":0,"statusMessage":"","_meta":{}}'
    )


def test_a_task_is_created_and_listed_in_full() -> None:
    assert encode(CreateTaskResult(task=TASK)) == b'{"task":' + TASK_DATA + b"}"
    assert encode(ListTasksResult(tasks=[TASK])) == b'{"tasks":[' + TASK_DATA + b"]}"


def test_the_wish_for_a_task_may_be_empty() -> None:
    assert encode(TaskMetadata()) == b"{}"
    assert encode(TaskMetadata(ttl=0)) == b'{"ttl":0}'


@pytest.mark.parametrize("kind", [RelatedTaskMetadata, TaskRequestParams])
def test_a_task_is_named_by_its_id(kind: type[RelatedTaskMetadata | TaskRequestParams]) -> None:
    assert encode(kind(task_id="1")) == b'{"taskId":"1"}'


CREATED_DATA = b'{"taskId":"1","status":"working","createdAt":"a","lastUpdatedAt":"b","ttlMs":null}'


def test_a_created_task_is_flat_and_says_null_for_no_limit() -> None:
    created = CreatedTask(task_id="1", status="working", created_at="a", last_updated_at="b", ttl_ms=None)
    assert encode(created) == CREATED_DATA
    assert decode(CREATED_DATA, CreatedTask) == created


def test_a_detailed_task_has_what_belongs_to_its_status() -> None:
    asking = CREATED_DATA[:-1] + b',"inputRequests":{"a":{"method":"roots/list"}}}'
    assert decode(asking, DetailedTask).input_requests == {"a": ListRootsRequest()}
    done = decode(CREATED_DATA[:-1] + b',"result":{"content":[]}}', DetailedTask)
    assert done.result == msgspec.Raw(b'{"content":[]}')
    failed = decode(CREATED_DATA[:-1] + b',"error":{"code":-1,"message":"m"}}', DetailedTask)
    assert failed.error == {"code": -1, "message": "m"}


def test_the_answers_of_an_update_may_be_any_json() -> None:
    update = decode(b'{"taskId":"1","inputResponses":{"a":[1],"b":{"ignored":true}}}', UpdateTaskRequestParams)
    assert {key: bytes(value) for key, value in update.input_responses.items()} == {
        "a": b"[1]",
        "b": b'{"ignored":true}',
    }
