"""Skills, seen from the wire: in every version, for clients that declare nothing."""

import asyncio
import os
from pathlib import Path
from queue import SimpleQueue

import pytest

from dragoman import AsyncClient, Server, types
from dragoman.skills import ID, Skill
from dragoman.testing import WirePeer
from scenarios.wire import DEADLINE

URI = "skill://pdf/SKILL.md"
VERSIONS = ["stateless", "2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"]


def taught() -> Server:
    server = Server("office")
    server.add_skill(
        Skill("pdf", "PDF documents.", "Read references/FORMS.md.", files={"references/FORMS.md": "Forms"})
    )
    return server


@pytest.mark.covers("SKL-01")
@pytest.mark.parametrize("version", VERSIONS)
async def test_skills_are_served_in_every_version_that_has_extensions(version):
    async with WirePeer(taught(), version) as peer:
        told = await peer.request("server/discover") if version == "stateless" else peer.initialized
        page = await peer.request("skills/list")
        one = await peer.request("skills/get", {"uri": URI})
        folder = await peer.request("resources/directory/read", {"uri": "skill://pdf"})
        text = await peer.request("resources/read", {"uri": "skill://pdf/references/FORMS.md"})
    declared = told["result"]["capabilities"].get("extensions")
    assert text["result"]["contents"][0]["text"] == "Forms"
    if version < "2025-06-18":
        assert declared is None
        assert [answer["error"]["code"] for answer in (page, one, folder)] == [-32601] * 3
        return
    assert declared == {ID: {"directoryRead": True}}
    assert page["result"]["skills"] == [one["result"]["skill"]]
    assert [entry["name"] for entry in folder["result"]["resources"]] == ["SKILL.md", "references"]
    has_hints = version == "stateless"
    assert all(("ttlMs" in answer["result"]) is has_hints for answer in (page, one))
    assert "nextCursor" not in one["result"]


@pytest.mark.covers("SKL-01")
@pytest.mark.parametrize("version", ["stateless", "2025-11-25"])
async def test_what_is_not_there_is_refused(version):
    async with WirePeer(taught(), version) as peer:
        for method, params in (
            ("skills/get", {"uri": "skill://none/SKILL.md"}),
            ("skills/get", {}),
            ("resources/directory/read", {"uri": URI}),
        ):
            assert (await peer.request(method, params))["error"]["code"] == -32602
        unknown = await peer.request("resources/read", {"uri": "skill://pdf/none.md"})
        assert unknown["error"]["code"] == (-32602 if version == "stateless" else -32002)


@pytest.mark.covers("SKL-02")
@pytest.mark.parametrize("mode", ["stateless", "handshake"])
async def test_a_client_hears_of_a_skill_that_changed(mode, tmp_path: Path):
    document = tmp_path / "pdf" / "SKILL.md"
    document.parent.mkdir()
    document.write_text("---\nname: pdf\ndescription: Old\n---\n")
    server = Server("office")
    server.add_skills(tmp_path)
    heard: SimpleQueue[str] = SimpleQueue()
    async with AsyncClient(server, mode=mode, on_list_changed=heard.put) as client:
        assert (await client.resource("pdf")).description == "Old"
        changes = 0
        async with asyncio.timeout(DEADLINE):
            while heard.empty():  # in the stateless era the stream of changes opens a little later
                changes += 1
                document.write_text(f"---\nname: pdf\ndescription: New {changes}\n---\n")
                os.utime(document, ns=(changes, changes))
                told = (await client.request("skills/list"))["skills"][0]["frontmatter"]["description"]
                assert told == f"New {changes}"
                await asyncio.sleep(0.02)
        assert heard.get() == "resources"
        assert (await client.resource("pdf")).description == f"New {changes}"


def test_a_server_without_skills_has_none_of_their_methods():
    for method in ("skills/list", "skills/get", "resources/directory/read"):
        answered = Server().handle({"jsonrpc": "2.0", "id": 1, "method": method, "params": {"uri": URI}})
        assert answered is not None
        assert answered["error"]["code"] == -32601


async def test_a_client_that_declares_the_extension_is_served_too():
    declared: types.Json = {"extensions": {ID: {}}}
    async with WirePeer(taught(), "stateless", capabilities=declared) as peer:
        assert (await peer.request("skills/list"))["result"]["skills"]
