"""The pytest plugin, in runs of pytest of its own."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

pytest_plugins = ["pytester"]

ROOT = Path(__file__).resolve().parents[3]
DEADLINE = 60
SERVER = """
from dragoman import Context, Server

server = Server("sums")

@server.tool
def add(a: int, b: int = 0) -> int:
    return a + b

@server.tool
async def version(ctx: Context) -> str:
    return ctx.client.version.name

@server.tool
async def ask(ctx: Context) -> str:
    return (await ctx.elicit("Who?", {"type": "object", "properties": {"name": {"type": "string"}}})).content["name"]
"""


@pytest.fixture
def project(pytester):
    """A project with a server and the ini option that names it."""
    pytester.makepyfile(calculator=SERVER)
    pytester.makeini("[pytest]\nfilterwarnings = error\ndragoman_server = calculator.py:server\n")
    return pytester


def run(pytester, *options):
    # Loaded by its name, so that the run does not depend on when dragoman was installed.
    plugin = ("-p", "no:dragoman", "-p", "dragoman.testing.plugin", "-p", "no:cacheprovider")
    return pytester.runpytest_subprocess(*plugin, *options, timeout=DEADLINE)


def test_a_client_is_connected_to_the_server_of_the_ini_option_in_each_era(project):
    project.makepyfile("""
        def test_versions(mcp_client, mcp_era):
            spoken = mcp_client.call_tool("version").text
            assert spoken == {"handshake": "2025-11-25", "stateless": "2026-07-28"}[mcp_era]
    """)
    result = run(project, "-v")
    result.assert_outcomes(passed=2)
    result.stdout.fnmatch_lines(["*test_versions?handshake? PASSED*", "*test_versions?stateless? PASSED*"])


def test_the_server_the_era_and_the_options_of_the_client_can_be_overridden(pytester):
    pytester.makeconftest("""
        import pytest
        from dragoman import Context, Server

        @pytest.fixture
        def mcp_server():
            server = Server("polite")

            @server.tool
            async def greet(ctx: Context) -> str:
                answer = await ctx.elicit("Who?", {"type": "object", "properties": {"name": {"type": "string"}}})
                return f"{ctx.client.version.name} {answer.content['name']}"

            return server

        @pytest.fixture
        def mcp_era():
            return "2025-06-18"

        @pytest.fixture
        def mcp_client_options():
            return {"on_elicitation": lambda request: {"name": "Jo"}}
    """)
    pytester.makepyfile("""
        def test_greeting(mcp_client):
            assert mcp_client.call_tool("greet").text == "2025-06-18 Jo"
    """)
    run(pytester).assert_outcomes(passed=1)


def test_a_test_can_choose_its_eras_by_parametrization(project):
    project.makepyfile("""
        import pytest

        @pytest.mark.parametrize("mcp_era", ["2024-11-05", "stateless"])
        def test_version(mcp_client, mcp_era):
            spoken = mcp_client.call_tool("version").text
            assert spoken == mcp_era or mcp_era == "stateless" and spoken == "2026-07-28"
    """)
    run(project).assert_outcomes(passed=2)


def test_asynchronous_clients_and_wire_peers_need_no_particular_runner(project):
    project.makepyfile("""
        import asyncio
        from dragoman.testing import connected

        def test_client(mcp_connected):
            async def talk():
                async with mcp_connected(on_elicitation=lambda request: {"name": "Jo"}) as client:
                    return (await client.call_tool("ask")).text
            assert asyncio.run(talk()) == "Jo"

        def test_free_function(mcp_server):
            async def talk():
                async with connected(mcp_server) as client:
                    return client.protocol_version
            assert asyncio.run(talk()) == "2026-07-28"

        def test_wire(wire_peer, mcp_era):
            async def talk():
                async with wire_peer(capabilities={"roots": {}}) as peer:
                    return await peer.request("tools/call", {"name": "add", "arguments": {"a": 1}})
            result = asyncio.run(talk())["result"]
            assert result["content"] == [{"type": "text", "text": "1"}]
            assert ("resultType" in result) == (mcp_era == "stateless")
    """)
    run(project).assert_outcomes(passed=5)


@pytest.mark.parametrize(
    ("ini", "said"),
    [
        ("", "*Which server is tested?*dragoman_server*mcp_server*"),
        ("dragoman_server = calculator.py", '*must be "file.py:object", not*calculator.py*'),
        ("dragoman_server = nowhere.py:server", "*names*nowhere.py*no such file*"),
        ("dragoman_server = calculator.py:nobody", "*names*nobody*calculator.py*nothing of that name*"),
    ],
)
def test_a_server_that_cannot_be_found_is_a_clear_error(pytester, ini, said):
    pytester.makepyfile(calculator=SERVER, test_it="def test_it(mcp_server): pass")
    pytester.makeini(f"[pytest]\n{ini}\n")
    result = run(pytester)
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines([said])


def test_the_server_is_the_one_that_tests_import_and_may_import_its_neighbours(pytester):
    pytester.mkdir("code").joinpath("neighbour.py").write_text("NAME = 'sums'\n")
    pytester.path.joinpath("code", "served.py").write_text(
        "from dragoman import Server\nfrom neighbour import NAME\nserver = Server(NAME)\n"
    )
    pytester.makeini("[pytest]\ndragoman_server = code/served.py:server\n")
    pytester.makepyfile("""
        def test_identity(mcp_server):
            import served
            assert served.server is mcp_server
    """)
    run(pytester).assert_outcomes(passed=1)


def test_a_file_called_like_a_module_that_is_loaded_already_is_found_all_the_same(pytester):
    pytester.makepyfile(json=SERVER, test_it="def test_it(mcp_client): assert mcp_client.call_tool('add', {'a': 2})")
    pytester.makeini("[pytest]\npythonpath =\ndragoman_server = code/json.py:server\n")
    pytester.mkdir("code")
    pytester.path.joinpath("json.py").rename(pytester.path / "code" / "json.py")
    run(pytester).assert_outcomes(passed=2)


def test_a_transport_is_checked_in_a_plain_test(project):
    project.makepyfile("""
        import pytest
        from dragoman.transports.memory import MemoryTransport

        class Forgetful(MemoryTransport):
            async def send(self, message):
                pass

        def test_good(check_transport, mcp_server):
            check_transport(lambda: MemoryTransport(mcp_server.connect), large=10_000)

        def test_bad(check_transport, mcp_server):
            with pytest.raises(AssertionError, match="1 messages were sent, and 0 were answered"):
                check_transport(lambda: Forgetful(mcp_server.connect), timeout=0.5)
    """)
    run(project).assert_outcomes(passed=2)


def test_the_script_of_a_model_must_be_asked_for_to_its_end(project):
    project.makepyfile("""
        from dragoman import Chat

        def test_whole(scripted_model):
            assert str(Chat(scripted_model("Hello.")).ask("Hi")) == "Hello."

        def test_half(scripted_model):
            assert str(Chat(scripted_model("Hello.", "Bye.")).ask("Hi")) == "Hello."
    """)
    result = run(project)
    result.assert_outcomes(passed=2, errors=1)
    result.stdout.fnmatch_lines(["*scripted was asked 1 times, and has 2 answers in its script*"])


SNAPSHOT_TEST = """
    from pathlib import Path
    from dragoman.testing import assert_schemas_unchanged

    def test_schemas(mcp_server):
        assert_schemas_unchanged(mcp_server, Path(__file__).with_name("schemas.json"))
"""


def test_a_snapshot_is_written_when_told_to_and_compared_afterwards(project):
    project.makepyfile(SNAPSHOT_TEST)
    missing = run(project)
    missing.assert_outcomes(failed=1)
    missing.stdout.fnmatch_lines(["*There is no snapshot*pytest --dragoman-update*"])
    assert not (project.path / "schemas.json").exists()
    run(project, "--dragoman-update").assert_outcomes(passed=1)
    run(project).assert_outcomes(passed=1)
    project.makepyfile(calculator=SERVER.replace("def add(a: int, b: int = 0)", "def add(a: str, c: int)"))
    changed = run(project)
    changed.assert_outcomes(failed=1)
    changed.stdout.fnmatch_lines(
        [
            "*tool 'add': changed argument 'a': type \"integer\" -> \"string\"",
            "*tool 'add': removed argument 'b'",
            "*tool 'add': added argument 'c' (required)",
            "*pytest --dragoman-update*",
        ]
    )


def test_the_plugin_loads_nothing_of_dragoman_until_a_fixture_is_used(project):
    project.makepyfile("""
        import sys

        def test_modules():
            heavy = {"dragoman.client", "dragoman.server", "dragoman.types", "dragoman.chat", "msgspec", "aiohttp"}
            assert not heavy & set(sys.modules)
    """)
    run(project).assert_outcomes(passed=1)


def test_the_documented_fixtures_do_what_is_documented(pytester):
    page = (ROOT / "docs/testing.md").read_text(encoding="utf-8")
    [documented] = [text for text in re.findall(r"```python\n(.*?)```", page, re.DOTALL) if "def mcp_server" in text]
    pytester.makepyfile(documented)
    run(pytester).assert_outcomes(passed=2)


def test_installing_dragoman_installs_the_plugin():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["entry-points"]["pytest11"] == {"dragoman": "dragoman.testing.plugin"}


def test_what_testing_exports_is_there_and_nothing_else():
    code = (
        "import dragoman.testing as testing\n"
        "assert all(getattr(testing, name) for name in testing.__all__)\n"
        "assert set(testing.__all__) <= set(dir(testing))\n"
        "try:\n    testing.nothing\nexcept AttributeError as error:\n    assert 'nothing' in str(error)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=DEADLINE)


def test_a_cassette_is_recorded_beside_the_test_played_back_and_recorded_anew_when_asked(project):
    project.makepyfile("""
        from calculator import server
        from dragoman import Client

        def test_sum(mcp_cassette):
            with Client(mcp_cassette("sum.jsonl", server)) as client:
                assert client.call_tool("add", {"a": 1, "b": 2}).structured == 3
    """)
    run(project).assert_outcomes(passed=1)
    tape = project.path / "cassettes" / "sum.jsonl"
    recorded = tape.read_text(encoding="utf-8")
    # Of another length, or what was compiled of the old text could pass for this one within the same second.
    (project.path / "calculator.py").write_text(SERVER.replace("a + b", "a - b - 1"), encoding="utf-8")
    run(project).assert_outcomes(passed=1)
    assert tape.read_text(encoding="utf-8") == recorded
    run(project, "--dragoman-record").assert_outcomes(failed=1)
