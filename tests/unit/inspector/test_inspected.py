"""One server of the inspector, without a page."""

import asyncio
import sys

import pytest

from dragoman import types
from dragoman.errors import DragomanError, InspectorError
from dragoman.inspector.inspector import Inspector
from dragoman.inspector.recording import LINE_BYTES
from dragoman.inspector.targets import ServerTarget, targets_of
from ports import free_port
from scenarios.inspector_page import COMMAND


async def test_a_version_that_is_chosen_replaces_the_mode_and_none_negotiates():
    inspector = Inspector()
    [target] = targets_of(COMMAND)
    target.options |= {"mode": "stateless", "protocol_version": "2026-07-28"}
    [server] = inspector.add([target])
    assert server.requested_version == "2026-07-28"
    await server.connect("2025-03-26")
    assert server.client.protocol_version == "2025-03-26"
    target.options.pop("mode")
    await server.connect(None)
    assert server.client.protocol_version == "2025-11-25"
    await inspector.close()


async def test_an_option_that_is_wrong_is_a_failure_and_no_crash():
    inspector = Inspector()
    [server] = inspector.add([ServerTarget(name="x", target="python x.py", shown="x", options={"timeout": -1})])
    with pytest.raises(InspectorError, match="timeout"):
        await server.connect()
    assert server.status == "failed"


async def test_the_target_is_shown_without_its_password():
    [server] = Inspector().add(targets_of("https://ada:hunter2@example.com/mcp?api_key=abc"))
    assert "hunter2" not in server.facts()["target"]
    assert "abc" not in server.facts()["target"]


async def test_roots_that_are_set_before_the_connection_are_declared(tmp_path):
    inspector = Inspector()
    [server] = inspector.add(targets_of(COMMAND))
    server.change(roots=[types.Root(tmp_path.as_uri(), name="here")])
    await server.connect()
    assert [root.name for root in server.client.roots.as_wire()] == ["here"]
    await inspector.close()


async def test_a_file_that_serves_http_by_itself_is_started_and_inspected_at_its_url(tmp_path):
    (tmp_path / "shop.py").write_text(
        'from dragoman import Server\nserver = Server("shop")\nserver.add_tool(abs)\napp = server.asgi()\n'
    )
    file = tmp_path / "main.py"
    file.write_text(f"import uvicorn\nfrom shop import app\nuvicorn.run(app, port={free_port()})\n")
    inspector = Inspector()
    [server] = inspector.add(targets_of(str(file)))
    async with asyncio.timeout(60):
        await server.connect()
        assert (server.status, server.facts()["serverInfo"]["name"]) == ("connected", "shop")
        assert [tool.name for tool in await server.client.tools()] == ["abs"]
        await inspector.close()
    assert server.status == "disconnected"


async def begun(inspector, server):
    """Begin to connect, and return the attempt when the first message was sent."""
    with inspector.events.subscribed() as queue:
        connecting = asyncio.ensure_future(server.connect())
        while b'"event":"traffic"' not in await queue.get():
            pass
    return connecting


async def test_an_attempt_to_connect_is_given_up_by_a_disconnect():
    inspector = Inspector()
    silent = {"command": sys.executable, "args": ["-c", "import time; time.sleep(60)"]}
    [server] = inspector.add(targets_of(silent))
    async with asyncio.timeout(60):
        connecting = await begun(inspector, server)
        assert server.status == "connecting"
        await server.disconnect()
        with pytest.raises(DragomanError):
            await connecting
    assert server.status == "disconnected"
    await inspector.close()


async def test_a_page_that_leaves_while_a_server_starts_leaves_no_process_behind():
    inspector = Inspector()
    silent = {"command": sys.executable, "args": ["-c", "import time; time.sleep(60)"]}
    [server] = inspector.add(targets_of(silent))
    async with asyncio.timeout(60):
        connecting = await begun(inspector, server)
        connecting.cancel()
        await asyncio.wait([connecting])
    assert (connecting.cancelled(), server.status) == (True, "disconnected")


HALVES = """
import fcntl, os, sys, termios, time
os.write(2, b"begun\\n\\nthe password=hun")
while any(fcntl.ioctl(2, termios.FIONREAD, bytes(4))):  # until the inspector has read the first half
    time.sleep(0.001)
os.write(2, b"ter2 is wrong\\nlast --token=hunter2")
"""


async def test_a_secret_that_stderr_has_in_two_halves_is_masked():
    inspector = Inspector()
    [server] = inspector.add(targets_of({"command": sys.executable, "args": ["-c", HALVES]}))
    with pytest.raises(DragomanError):
        await server.connect("2025-11-25")
    assert server.stderr == "begun\n\nthe password=*** is wrong\nlast --token=***\n"
    written = [record.data.decode() for record in inspector.traffic.records() if record.row.kind == "stderr"]
    assert "".join(written) == server.stderr
    await inspector.close()


async def test_a_line_of_stderr_without_an_end_is_cut_and_what_follows_it_is_shown():
    inspector = Inspector()
    script = "import os; [os.write(2, b'x' * 65536) for _ in range(8)]; os.write(2, b'tail\\nnext\\n')"
    [server] = inspector.add(targets_of({"command": sys.executable, "args": ["-c", script]}))
    with pytest.raises(DragomanError):
        await server.connect("2025-11-25")
    [first, second] = [
        line
        for record in inspector.traffic.records()
        for line in record.data.decode().splitlines()
        if record.row.kind == "stderr"
    ]
    assert (len(first), second) == (LINE_BYTES, "next")
    await inspector.close()


@pytest.mark.parametrize("word", ["service.py", "service.py:server"])
async def test_file_written_for_http_is_inspected_over_stdio(tmp_path, monkeypatch, word):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "service.py").write_text(
        "from dragoman import Server\n"
        "server = Server('web')\n"
        "@server.tool\n"
        "def hello() -> str: return 'hi'\n"
        "if __name__ == '__main__': server.run('http')\n"
    )
    inspector = Inspector()
    [server] = inspector.add(targets_of(word))
    await server.connect()
    assert (await server.client.call_tool("hello")).text == "hi"
    await inspector.close()
