"""The servers and session files that all pages share."""

import asyncio

import pytest

from dragoman.compose.session_file import SessionWriter
from dragoman.errors import InspectorError
from dragoman.inspector import inspector as module
from dragoman.inspector.inspector import Inspector
from dragoman.inspector.targets import targets_of


async def test_servers_are_found_by_their_ids_and_have_a_bound(monkeypatch):
    monkeypatch.setattr(module, "MAX_SERVERS", 2)
    inspector = Inspector()
    first, second = inspector.add([*targets_of("python a.py"), *targets_of("python b.py")])
    assert (inspector.server(first.id), first.id != second.id) == (first, True)
    with pytest.raises(InspectorError, match="remove some"):
        inspector.add(targets_of("python c.py"))
    assert len(inspector.servers) == 2
    await inspector.remove(first.id)
    with pytest.raises(InspectorError, match="no server"):
        inspector.server(first.id)


async def test_the_end_cancels_requests_and_closes_files(tmp_path):
    path = tmp_path / "a.mcpsession"
    with SessionWriter(path):
        pass
    inspector = Inspector()
    session = await inspector.open(path, follow=True)
    waiting = asyncio.ensure_future(asyncio.Event().wait())
    inspector.requests["k"] = waiting
    await inspector.close()
    await asyncio.wait([waiting], timeout=10)
    assert waiting.cancelled()
    assert inspector.sessions == {}
    assert session.is_following


async def test_the_end_waits_for_all_servers_at_once_and_an_error_of_one_keeps_none_alive(monkeypatch):
    inspector = Inspector()
    stubborn, broken, last = inspector.add([target for name in "abc" for target in targets_of(f"python {name}.py")])
    ended = asyncio.Event()

    async def fail():
        raise RuntimeError("a defect")

    async def end():
        ended.set()

    monkeypatch.setattr(stubborn, "disconnect", ended.wait)
    monkeypatch.setattr(broken, "disconnect", fail)
    monkeypatch.setattr(last, "disconnect", end)
    await asyncio.wait_for(inspector.close(), 10)
    assert ended.is_set()


async def test_a_configuration_with_hundreds_of_servers_is_taken():
    entries = {f"s{number}": {"command": "python"} for number in range(500)}
    assert len(Inspector().add(targets_of({"mcpServers": entries}))) == 500
