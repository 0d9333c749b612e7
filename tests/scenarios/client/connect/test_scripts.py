"""Python files as targets: whatever transport a file names, a client reaches its server over stdin and stdout."""

import multiprocessing

import pytest

from dragoman import AsyncClient, ConnectError, ServerCrashed
from ports import free_port

SERVER = """
from dragoman import Server

server = Server("web")

@server.tool
def where() -> str:
    return __name__
"""
FACTORY = """
import asyncio
from dragoman import Server

def make():
    server = Server("web")

    @server.tool
    def where() -> str:
        return __name__

    return server
"""
MAIN = 'if __name__ == "__main__":\n    '


async def answer(target: object, **options: object) -> str:
    async with AsyncClient(target, **options) as client:
        return (await client.call_tool("where")).text


@pytest.mark.parametrize(
    "source",
    [
        f'{SERVER}\n{MAIN}server.run("http", port=PORT)',
        f'{SERVER}\n{MAIN}server.run("streamable-http", host="0.0.0.0", port=PORT, health=True)',
        f'{SERVER}\nserver.run("http", port=PORT)',
        f'{SERVER}\ndef main():\n    server.run("http", port=PORT)\n{MAIN}main()',
        f'{FACTORY}\n{MAIN}make().run("http", port=PORT)',
        f'{FACTORY}\n{MAIN}asyncio.run(make().run_async("http", port=PORT))',
        f"{SERVER}\n{MAIN}server.run()",
        f"{SERVER}\n{MAIN}print('nothing is served')",
    ],
)
async def test_file_is_served_over_stdio_whatever_it_runs(tmp_path, source):
    path = tmp_path / "service.py"
    path.write_text(source.replace("PORT", str(free_port())))
    assert await answer(path) == "__main__"


async def test_file_that_runs_an_asgi_server_is_served_over_stdio(tmp_path):
    path = tmp_path / "service.py"
    path.write_text(f"{SERVER}\nimport uvicorn\n{MAIN}uvicorn.run(server.asgi(), port={free_port()})")
    assert await answer(path) == "__dragoman__"


@pytest.mark.parametrize(
    "source",
    [
        "from service import *",
        "from service import server as weather",
        f'from service import server as weather\n{MAIN}weather.run("http")',
        "import service\nmcp = service.server",
    ],
)
async def test_imported_server_is_served(tmp_path, source):
    (tmp_path / "service.py").write_text(SERVER)
    (tmp_path / "entry.py").write_text(source)
    assert await answer(str(tmp_path / "entry.py")) == "service"


async def test_object_of_a_file_is_a_target(tmp_path, monkeypatch):
    (tmp_path / "service.py").write_text(f'{SERVER}\nother = Server("other")\n{MAIN}server.run("http")')
    monkeypatch.chdir(tmp_path)
    assert await answer("service.py:server") == "__dragoman__"
    assert await answer(f"{tmp_path}/service.py:server") == "__dragoman__"
    with pytest.raises(ServerCrashed, match="has no Server called 'nothing': it has server, other"):
        await answer("service.py:nothing")
    with pytest.raises(ConnectError, match=r"There is no file 'missing\.py'"):
        await answer("missing.py:server")


async def test_file_with_several_servers_that_runs_none_names_them(tmp_path):
    path = tmp_path / "service.py"
    path.write_text(f"from dragoman import Server\none, two = Server('1'), Server('2')\n{MAIN}pass")
    with pytest.raises(
        ServerCrashed, match=r"defines several servers; choose one: .*service\.py:one, .*service\.py:two"
    ):
        await answer(path)


async def test_script_finds_its_folder_and_its_arguments_as_under_python(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "beside.py").write_text("NAME = 'beside'")
    path = tmp_path / "service.py"
    path.write_text(
        "import sys, beside, __main__\n"
        "from dragoman import Server\n"
        "server = Server('a')\n"
        "@server.tool\n"
        "def where() -> str: return f'{beside.NAME} {sys.argv} {__main__.server is server} {__file__}'\n"
        f"{MAIN}server.run()\n"
    )
    assert await answer("service.py") == f"beside ['service.py'] True {path}"


async def test_script_may_spawn_processes_of_its_functions(tmp_path):
    assert "spawn" in multiprocessing.get_all_start_methods()
    path = tmp_path / "service.py"
    path.write_text(
        "import multiprocessing\n"
        "from dragoman import Server\n"
        "def square(number): return number * number\n"
        f"{MAIN}server = Server('a')\n"
        "    @server.tool\n"
        "    def where() -> str:\n"
        "        with multiprocessing.get_context('spawn').Pool(1) as pool:\n"
        "            return str(pool.map(square, [3]))\n"
        "    server.run()\n"
    )
    assert await answer(path) == "[9]"


async def test_script_without_dragoman_is_run_and_loads_no_server(tmp_path):
    path = tmp_path / "service.py"
    path.write_text(
        "import json, sys\n"
        "for line in sys.stdin:\n"
        "    message = json.loads(line)\n"
        "    if 'id' in message:\n"
        "        error = {'code': -32601, 'message': str('dragoman.server.server' in sys.modules)}\n"
        "        print(json.dumps({'jsonrpc': '2.0', 'id': message['id'], 'error': error}), flush=True)\n"
    )
    with pytest.raises(Exception, match=r"^False$"):
        await answer(path)
