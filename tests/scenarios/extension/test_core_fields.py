"""An extension whose rows set fields that the protocol itself has, in the versions of each row."""

import msgspec
import pytest

from dragoman import AsyncClient, Server, types
from dragoman.client import ClientExtension
from dragoman.server import ExtensionRow, ServerExtension
from dragoman.testing import WirePeer
from dragoman.types.wire import Wire

ID = "com.example/jobs"
UI = {"ui": {"resourceUri": "ui://a", "border": True}}


class JobParams(Wire):
    task: types.TaskMetadata | None = None


class Supported(Wire):
    execution: types.ToolExecution | None = None


class Shown(Wire):
    meta: types.Json | None = msgspec.field(default=None, name="_meta")


class Both(Shown):
    execution: types.ToolExecution | None = None
    later: int | None = None


class Jobs(ServerExtension):
    """An older generation with a parameter and a field of 2025-11-25, and one with `_meta` that has no end."""

    rows = (
        ExtensionRow(
            id=ID,
            capability=("tasks",),
            since="2025-11-25",
            until="2025-11-25",
            params={"tools/call": JobParams},
            entries={"tools/list": Supported},
        ),
        ExtensionRow(id=ID, entries={"tools/list": Shown}),
    )

    def entry(self, definition):
        if definition.name == "plain":
            return None
        return Both(execution=types.ToolExecution(task_support="optional"), meta={"ui": {"border": True}}, later=1)

    async def around_call(self, ctx, call_next):
        if ctx.params.name == "wait" and isinstance(ctx.params.task, types.TaskMetadata):
            return {"task": {"ttl": ctx.params.task.ttl}}
        return await call_next()


def jobs() -> Server:
    server = Server(extensions=[Jobs()])
    server.tool(name="wait", meta={"ui": {"resourceUri": "ui://a", "border": False}})(lambda: "waited")
    server.tool(name="plain", meta={"a": 1})(lambda: "done")
    return server


@pytest.mark.covers("EXS-05")
@pytest.mark.parametrize("version", ["stateless", "2025-11-25", "2025-06-18", "2025-03-26"])
async def test_fields_of_the_protocol_are_set_in_the_versions_that_have_them(version):
    async with WirePeer(jobs(), version) as peer:
        wait, plain = (await peer.request("tools/list"))["result"]["tools"]
    assert wait.get("execution") == ({"taskSupport": "optional"} if version == "2025-11-25" else None)
    assert wait.get("_meta") == (UI if version != "2025-03-26" else None)  # which has no `_meta` there
    assert (plain.get("execution"), plain.get("_meta")) == (None, {"a": 1} if version != "2025-03-26" else None)


@pytest.mark.covers("EXS-04")
@pytest.mark.parametrize(
    ("version", "task", "answer"),
    [
        ("2025-11-25", {"ttl": 5}, {"task": {"ttl": 5}}),
        ("2025-11-25", None, "waited"),
        ("2025-11-25", 5, -32602),
        ("2025-06-18", 5, "waited"),
        ("stateless", {"ttl": 5}, "waited"),
        ("stateless", 5, "waited"),
    ],
)
async def test_a_parameter_of_one_version_is_read_there_and_ignored_elsewhere(version, task, answer):
    async with WirePeer(jobs(), version) as peer:
        response = await peer.request("tools/call", {"name": "wait", "task": task})
    if "error" in response:
        assert response["error"]["code"] == answer
    elif isinstance(answer, str):
        assert response["result"]["content"][0]["text"] == answer
    else:
        assert response["result"] == answer


@pytest.mark.parametrize("version", ["stateless", "2025-11-25"])
async def test_a_server_without_the_extension_ignores_its_parameter(version):
    server = Server()
    server.tool(name="wait")(lambda: "waited")
    async with WirePeer(server, version) as peer:
        result = (await peer.request("tools/call", {"name": "wait", "task": 5}))["result"]
    assert result["content"][0]["text"] == "waited"


@pytest.mark.parametrize("mode", ["stateless", "handshake"])
async def test_our_client_reads_them(mode):
    class Reading(ClientExtension):
        rows = Jobs.rows

    async with AsyncClient(jobs(), mode=mode, extensions=[Reading()]) as client:
        tool = await client.tool("wait")
        assert tool.definition.meta == UI
        support = None if tool.definition.execution is None else tool.definition.execution.task_support
        assert support == ("optional" if mode == "handshake" else None)
        assert (await client.call_tool("wait")).text == "waited"
