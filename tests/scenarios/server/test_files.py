"""Files, images and audio that tools and prompts return by their paths."""

import os
import threading
from base64 import b64decode

import pytest

from dragoman import AsyncClient, Audio, File, Image, RpcError, Server, ToolError, ToolResult

VERSIONS = pytest.mark.parametrize("version", ["2024-11-05", "2025-11-25", "2026-07-28"])


class Noting(os.PathLike):
    """A path that notes the thread in which it is opened."""

    def __init__(self, path):
        self.path = path
        self.threads = set()

    def __fspath__(self):
        self.threads.add(threading.current_thread())
        return str(self.path)


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "chart.png").write_bytes(b"png")
    (tmp_path / "hello.mp3").write_bytes(b"mp3")
    (tmp_path / "notes.md").write_text("# Notes", "utf-8")
    (tmp_path / "report.pdf").write_bytes(b"%PDF\xff")
    return tmp_path


@VERSIONS
async def test_tools_of_both_kinds_return_files_that_are_read_outside_of_the_event_loop(folder, version):
    server = Server()
    path = Noting(folder / "chart.png")

    @server.tool
    async def chart() -> Image:
        return Image(path=path)

    @server.tool
    def several() -> list[str | File | Audio]:
        return ["Here:", File(folder / "notes.md"), File(folder / "report.pdf"), Audio(path=folder / "hello.mp3")]

    @server.tool(inline=True)
    def counted() -> ToolResult:
        return ToolResult(File(folder / "notes.md"), structured={"files": 1})

    async with AsyncClient(server, protocol_version=version) as client:
        [image] = (await client.call_tool("chart")).content
        assert (image.mime_type, b64decode(image.data)) == ("image/png", b"png")
        assert path.threads
        assert threading.current_thread() not in path.threads
        text, notes, report, *_ = (await client.call_tool("several")).content
        assert (text.text, notes.resource.text, notes.resource.mime_type) == ("Here:", "# Notes", "text/markdown")
        assert (report.resource.uri, b64decode(report.resource.blob)) == ("file:///report.pdf", b"%PDF\xff")
        both = await client.call_tool("counted")
        assert both.content[0].resource.text == "# Notes"
        assert both.structured == (None if version == "2024-11-05" else {"files": 1})


async def test_a_prompt_returns_files(folder):
    server = Server()

    @server.prompt
    def look() -> list[object]:
        return ["Look at this:", Image(path=folder / "chart.png"), {"role": "assistant", "content": "I see"}]

    @server.prompt
    async def whole() -> dict[str, object]:
        return {"description": "One.", "messages": [{"role": "user", "content": File(folder / "notes.md")}]}

    async with AsyncClient(server) as client:
        messages = (await client.get_prompt("look")).messages
        assert [message.role for message in messages] == ["user", "user", "assistant"]
        assert b64decode(messages[1].content.data) == b"png"
        result = await client.get_prompt("whole")
        assert (result.description, result.messages[0].content.resource.text) == ("One.", "# Notes")


async def test_an_absent_file_is_told_to_the_author_and_not_to_the_client(folder, caplog):
    server = Server()
    server.tool("lost")(lambda: File(folder / "lost.txt"))
    server.prompt("gone")(lambda: Image(path=folder / "gone.png"))
    async with AsyncClient(server) as client:
        with pytest.raises(ToolError) as failed:
            await client.call_tool("lost")
        assert str(failed.value) == "Internal error occurred"
        with pytest.raises(RpcError, match="Internal error"):
            await client.get_prompt("gone")
    assert "lost.txt" in caplog.text
    assert "gone.png" in caplog.text
