"""The state of a task in both generations."""

import pytest

from dragoman.client.extensions.tasks.followed import TaskState
from dragoman.errors import ValidationError


@pytest.mark.parametrize(
    ("fields", "ttl", "poll"),
    [
        ({"ttl": 5000, "pollInterval": 250}, 5, 0.25),
        ({"ttlMs": 5000, "pollIntervalMs": 250}, 5, 0.25),
        ({"ttl": None}, None, None),
        ({}, None, None),
    ],
)
def test_durations_are_in_seconds_in_both_generations(fields, ttl, poll):
    state = TaskState.read({"taskId": "t", "status": "working", **fields})
    assert (state.ttl_seconds, state.poll_seconds) == (ttl, poll)


@pytest.mark.parametrize("fields", [{}, {"taskId": 1, "status": "working"}, {"taskId": "t", "status": "asleep"}])
def test_what_is_no_task_is_refused(fields):
    with pytest.raises(ValidationError):
        TaskState.read(fields)
