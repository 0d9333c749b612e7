"""Our client uses the tasks of servers of others, and answers the tasks that they make of their requests."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from dragoman import AsyncClient, ToolError
from dragoman.errors import Cancelled
from interop.client.peers import VERSIONS, reachable

TRANSPORTS = pytest.mark.parametrize("transport", ["stdio", "http"])


@TRANSPORTS
@pytest.mark.covers("TKC-01")
async def test_the_client_drives_the_tasks_of_fastmcp(transport: str, tmp_path: Path) -> None:
    asked: list[str] = []

    def answer(request: Any) -> dict[str, str]:
        asked.append(request.message)
        return {"city": "Oslo"}

    with reachable("fastmcp_task", transport, tmp_path) as target:
        async with AsyncClient(target, tasks=True, on_elicitation=answer) as client:
            assert client.protocol_version == VERSIONS["stateless"]
            task = await client.start_tool("compute", {"label": "x"})
            assert (task.id != "", task.status) == (True, "working")
            assert (await task.result()).text == "Computed x"
            assert (await (await client.task(task.id)).result()).text == "Computed x"
            with pytest.raises(ToolError, match="no luck"):
                await client.call_tool("fail")
            assert ((await client.call_tool("book")).text, asked) == ("booked Oslo", ["Where to?"])
            endless = await client.start_tool("forever")
            await endless.cancel()
            with pytest.raises(Cancelled):
                await endless.result()


@TRANSPORTS
@pytest.mark.covers("TKC-02")
async def test_the_client_drives_a_task_of_the_reference_server_and_answers_it(transport: str, tmp_path: Path) -> None:
    told: list[str] = []
    with reachable("everything", transport, tmp_path) as target:
        async with AsyncClient(
            target, tasks=True, on_elicitation=lambda request: {"interpretation": "technical"}
        ) as client:
            assert client.protocol_version == VERSIONS["handshake"]
            arguments = {"topic": "tea", "ambiguous": True}
            task = await client.start_tool("simulate-research-query", arguments)
            await task.wait(60, on_status=told.append)
            result = await task.result()
            assert result.text.startswith("# Research Report: tea (technical)")
            assert "Generating report..." in told
            assert task.id in [listed.id for listed in await client.tasks.list()]
            endless = await client.start_tool("simulate-research-query", {"topic": "tea"})
            await endless.cancel()
            assert endless.cancelled


@TRANSPORTS
@pytest.mark.covers("LTK-05", "TKC-02")
async def test_the_reference_server_makes_tasks_of_its_requests_to_the_client(transport: str, tmp_path: Path) -> None:
    def answer(request: Any) -> dict[str, str]:
        return {"name": "Alice"}

    with reachable("everything", transport, tmp_path) as target:
        async with AsyncClient(
            target, tasks=True, on_elicitation=answer, on_sampling=lambda request: "forty-two"
        ) as client:
            sampled = await client.call_tool("trigger-sampling-request-async", {"prompt": "Well?"})
            assert "[COMPLETED]" in sampled.text
            assert "forty-two" in sampled.text
            elicited = await client.call_tool("trigger-elicitation-request-async")
            assert "[COMPLETED]" in elicited.text
            assert "Alice" in elicited.text
