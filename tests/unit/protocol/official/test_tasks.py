"""The rows of tasks, in both generations."""

import pytest

from dragoman import types
from dragoman.protocol.eras import Offer
from dragoman.protocol.extensions import ProtocolTable
from dragoman.protocol.official import tasks
from dragoman.protocol.versions import V2025_06_18, V2025_11_25, V2026_07_28, VERSIONS, Version

TABLE = ProtocolTable.of((tasks.FIRST_OF_SERVERS, tasks.SECOND))
SERVER = types.ServerCapabilities(tools={}, tasks=tasks.FIRST_OF_SERVERS.settings, extensions={tasks.ID: {}})


@pytest.mark.parametrize(
    ("version", "methods"),
    [
        (V2025_06_18, set()),
        (V2025_11_25, {"tasks/get", "tasks/result", "tasks/list", "tasks/cancel"}),
        (V2026_07_28, {"tasks/get", "tasks/update", "tasks/cancel"}),
    ],
)
def test_each_generation_has_its_own_methods(version: Version, methods: set[str]) -> None:
    offered = Offer.of(SERVER, VERSIONS, TABLE).methods[version.name]
    assert {name for name in offered if name.startswith("tasks/")} == methods


def test_clients_and_servers_declare_what_they_run_as_tasks() -> None:
    assert tasks.FIRST_OF_SERVERS.settings == {"list": {}, "cancel": {}, "requests": {"tools": {"call": {}}}}
    assert tasks.FIRST_OF_CLIENTS.settings == {
        "list": {},
        "cancel": {},
        "requests": {"sampling": {"createMessage": {}}, "elicitation": {"create": {}}},
    }
    assert tasks.SECOND.settings == {}


def test_the_header_of_the_second_generation_names_the_task() -> None:
    assert {TABLE.named_by[name] for name in (tasks.GET, tasks.UPDATE, tasks.CANCEL)} == {"taskId"}


def test_a_related_message_names_its_task_and_keeps_its_meta() -> None:
    assert tasks.related("7") == {"io.modelcontextprotocol/related-task": {"taskId": "7"}}
    assert tasks.related("7", {"a": 1}) == {"a": 1, "io.modelcontextprotocol/related-task": {"taskId": "7"}}
