"""What a client sees of server-filesystem, one of the reference servers."""

from __future__ import annotations

import asyncio
import base64
from typing import Any

from interop.client.visit import Recipes, Unseen, Visit, names

FILESYSTEM = Recipes()
CALLS = 32


@FILESYSTEM.shows(lambda server, version: ["secure-filesystem-server", version, True])
async def connects(visit: Visit) -> Any:
    assert visit.client.server_info is not None
    return [visit.client.server_info.name, visit.client.protocol_version, await visit.client.ping()]


@FILESYSTEM.shows(
    [
        *("read_file", "read_text_file", "read_media_file", "read_multiple_files", "write_file", "edit_file"),
        *("create_directory", "list_directory", "list_directory_with_sizes", "directory_tree", "move_file"),
        *("search_files", "get_file_info", "list_allowed_directories"),
    ]
)
async def tools(visit: Visit) -> Any:
    return names(await visit.client.tools())


@FILESYSTEM.shows(["one\ntwo\n", "one\n", True, True, True, True, True])
async def text(visit: Visit) -> Any:
    folder = visit.root / "notes"
    first, second = str(folder / "first.txt"), str(folder / "second.txt")
    await visit.call("create_directory", path=str(folder))
    await visit.call("write_file", path=first, content="one\ntwo\n")
    whole, head = await visit.call("read_text_file", path=first), await visit.call("read_file", path=first, head=1)
    edits = [{"oldText": "two", "newText": "three"}]
    edited = "+three" in await visit.call("edit_file", path=first, edits=edits)
    await visit.call("move_file", source=first, destination=second)
    return [
        whole,
        head if head.endswith("\n") else f"{head}\n",
        edited,
        "three" in await visit.call("read_multiple_files", paths=[second]),
        second in await visit.call("search_files", path=str(visit.root), pattern="**/second.txt"),
        "second.txt" in await visit.call("directory_tree", path=str(folder)),
        "size:" in await visit.call("get_file_info", path=second),
    ]


@FILESYSTEM.shows([True, True])
async def structured_object(visit: Visit) -> Any:
    listed = await visit.client.call_tool("list_directory", {"path": str(visit.root)})
    sized = await visit.client.call_tool("list_directory_with_sizes", {"path": str(visit.root)})
    return [listed.structured == {"content": listed.text}, sized.structured == {"content": sized.text}]


@FILESYSTEM.shows([("image", "image/gif")])
async def image(visit: Visit) -> Any:
    path = visit.root / "pixel.gif"
    path.write_bytes(base64.b64decode("R0lGODlhAQABAAAAACwAAAAAAQABAAA="))
    return [(block["type"], block["mimeType"]) for block in await visit.content("read_media_file", path=str(path))]


@FILESYSTEM.shows(("ToolError", True))
async def failed_tool(visit: Visit) -> Any:
    kind, said = await visit.failure(visit.call("read_file", path="/etc/hostname"))
    return kind, "Access denied" in said


@FILESYSTEM.shows(("ToolError", True))
async def wrong_arguments(visit: Visit) -> Any:
    kind, said = await visit.failure(visit.call("read_file", path=1))
    return kind, "expected string" in said


@FILESYSTEM.shows(("ToolError", "MCP error -32602: Tool nope not found"))
async def unknown_tool(visit: Visit) -> Any:
    return await visit.failure(visit.call("nope"))


@FILESYSTEM.shows(True)
async def concurrent_calls(visit: Visit) -> Any:
    told = await asyncio.gather(*(visit.call("list_allowed_directories") for _ in range(CALLS)))
    return len(set(told)) == 1


@FILESYSTEM.shows(True)
async def roots(visit: Visit) -> Any:
    return str(visit.root) in await visit.call("list_allowed_directories")


@FILESYSTEM.shows(True)
async def changed_roots(visit: Visit) -> Any:
    beside = visit.root.parent / "beside"
    beside.mkdir()
    visit.client.roots.add(beside)
    try:
        for _ in range(200):
            if str(beside) in await visit.call("list_allowed_directories"):
                return True
    finally:
        visit.client.roots.remove(beside)
    raise Unseen("the server did not ask again")


@FILESYSTEM.shows([14, True])
async def blocking_client(visit: Visit) -> Any:
    return await visit.blocking(
        lambda client: [len(client.tools()), str(visit.root) in client.tool("list_allowed_directories")().text]
    )
