"""What an author may say of a tool that runs as a task."""

import pytest

from dragoman import DefinitionError, Server
from dragoman.server import TaskOptions
from dragoman.server.extensions.tasks.options import task_options


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (True, TaskOptions()),
        (False, None),
        ("required", TaskOptions(required=True)),
        (TaskOptions(ttl=5), TaskOptions(ttl=5)),
    ],
)
def test_the_option_has_short_forms(given, expected):
    assert task_options(given, "tool") == expected


@pytest.mark.parametrize(
    "options",
    [
        {"ttl": 0},
        {"ttl": float("inf")},
        {"ttl": True},
        {"ttl": 1e308},
        {"ttl": 10**400},
        {"lease": 2**63},
        {"poll": -1},
        {"lease": None},
        {"lease": 0.01},
        {"begin": "soon"},
        {"retry": -1},
        {"retry": "yes"},
    ],
)
def test_an_option_without_a_sense_is_refused(options):
    with pytest.raises(DefinitionError, match=f"{next(iter(options))} of a task must be"):
        TaskOptions(**options)


@pytest.mark.parametrize(
    ("retry", "is_idempotent", "retries"),
    [(None, False, 0), (None, True, 10), (False, True, 0), (True, False, 10), (3, False, 3), (0, True, 0)],
)
def test_a_tool_runs_again_if_its_author_says_so_in_one_way_or_another(retry, is_idempotent, retries):
    assert TaskOptions(retry=retry).retries(is_idempotent=is_idempotent) == retries


@pytest.mark.parametrize("given", ["optional", "yes"])
def test_another_word_is_refused_with_the_name_of_the_tool(given):
    with pytest.raises(DefinitionError, match="task of the tool 'quick' must be True"):

        @Server().tool(task=given)
        def quick() -> str:
            return ""


def test_a_tool_that_cannot_wait_cannot_be_a_task():
    with pytest.raises(DefinitionError, match="is inline"):

        @Server().tool(task=True, inline=True)
        def quick() -> str:
            return ""
