"""`needs_command`: which Python files a client serves by `dragoman run`."""

from pathlib import Path

import pytest

from dragoman.client.connect.script import needs_command

DEFINES = "from dragoman import Server\nserver = Server('a')\n"


@pytest.mark.parametrize(
    "source",
    [
        DEFINES,
        "from dragoman.server import Tool, Server as S\nmcp = S('a')\n",
        "import dragoman\nserver = dragoman.Server('a')\n",
        "from dragoman import Server\ndef create() -> Server:\n    return Server('a')\n",
        f"{DEFINES}import subprocess\n@server.tool\ndef build() -> str:\n    subprocess.run(['ls'])\n    return ''\n",
        f"{DEFINES}def main():\n    server.run()\n",
        f"{DEFINES}import uvicorn\nif __name__ == '__main__':\n    uvicorn.run(server.asgi(), port=8000)\n",
    ],
)
def test_a_file_that_only_defines_a_server_needs_the_command(tmp_path, source):
    path = tmp_path / "server.py"
    path.write_text(source)
    assert needs_command(path)


@pytest.mark.parametrize(
    "source",
    [
        f"{DEFINES}server.run()\n",
        f"{DEFINES}if __name__ == '__main__':\n    server.run()\n",
        f"{DEFINES}with open('a') as file:\n    server.run()\n",
        f"import asyncio\n{DEFINES}asyncio.run(server.run_async())\n",
        f"{DEFINES}def main():\n    server.run()\nmain()\n",
        "from mcp.server.fastmcp import FastMCP\nserver = FastMCP('a')  # not of dragoman\n",
        "from dragoman import Client\nimport sys\nfor line in sys.stdin: print(line)\n",
        "print('no server')\n",
        "from dragoman import Server\nthis is no Python\n",
        "from dragoman import Server\n\0",
    ],
)
def test_every_other_file_is_run_as_a_script(tmp_path, source):
    path = tmp_path / "server.py"
    path.write_text(source)
    assert not needs_command(path)


def test_a_file_that_is_not_there_is_left_to_python():
    assert not needs_command(Path("nowhere.py"))
