"""The tasks of a client, as an extension."""

import pytest

from dragoman.client.extensions.tasks.extension import ClientTasks


@pytest.mark.parametrize(
    ("method", "result", "expected"),
    [
        ("tools/call", {"task": {"taskId": "t"}}, "task"),
        ("tools/call", {"task": "t"}, None),
        ("tools/call", {"content": []}, None),
        ("prompts/get", {"task": {}}, None),
    ],
)
def test_a_task_of_2025_11_25_is_recognized_in_the_result_of_a_call(method, result, expected):
    assert ClientTasks().result_type(method, result) == expected
