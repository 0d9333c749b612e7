"""Server files: which server a file defines, and what is said if it defines none."""

import sys

import pytest

from dragoman.cli.server_file import load_server, split_target
from dragoman.errors import ConfigError

IMPORT = "from dragoman import Server\n"


@pytest.fixture(autouse=True)
def _path():
    before = list(sys.path)
    yield
    sys.path[:] = before
    sys.modules.pop("__dragoman__", None)


def loaded(folder, source: str, name: str | None = None, **options: object):
    path = folder / "service.py"
    path.write_text(IMPORT + source)
    return load_server(path, name, **options).name


@pytest.mark.parametrize(
    "source",
    [
        "server = Server('one')",
        "mcp = Server('one')",
        "app = Server('one')",
        "anything = Server('one')",
        "only = also = Server('one')",
        "other = Server('other')\nserver = Server('one')",
        "other = Server('other')\nmcp = Server('one')",
        "other = Server('other')\napp = Server('one')",
        "app = Server('app')\nmcp = Server('mcp')\nserver = Server('one')",
        "server = 3\nother = Server('one')",
        "def create_server():\n    return Server('one')",
        "def build_app(debug=False):\n    return Server('one')",
        "def anything() -> Server:\n    return Server('one')",
        "def anything() -> 'Server':\n    return Server('one')",
        "def anything(*a, **b) -> Server:\n    return Server('one')",
        "server = Server('one')\nserver.run()",
        "def main():\n    local = Server('one')\n    local.run('http')\nmain()",
        "server = Server('one')\nif __name__ == '__main__':\n    raise SystemExit",
    ],
)
def test_a_file_has_one_server_by_name_by_factory_or_by_running_it(tmp_path, source):
    assert loaded(tmp_path, source) == "one"


def test_a_factory_may_be_named(tmp_path):
    source = "def first(): return Server('first')\ndef second(): return Server('second')"
    assert loaded(tmp_path, source, "second") == "second"


def test_a_server_that_a_file_runs_is_served_in_its_place(tmp_path):
    served = []
    with pytest.raises(SystemExit) as ended:
        loaded(
            tmp_path,
            "server = Server('one')\nserver.run()\nraise ValueError",
            serve=lambda server, _: served.append(server),
        )
    assert ([server.name for server in served], ended.value.code) == (["one"], None)


@pytest.mark.parametrize(
    ("source", "name", "said"),
    [
        ("a = Server('a')\nb = Server('b')", None, r"several servers; choose one: .*service.py:a, .*service.py:b"),
        ("def make_server(): ...\ndef create_app(): ...", None, "several servers; choose one"),
        (
            "import collections\nmcp = collections.Counter()",
            None,
            "no Server: mcp is of the class Counter of collections; make one",
        ),
        ("def serve(port): ...", None, r"no Server: it has the functions serve\(port\); make one"),
        ("", None, r"defines no Server; make one, for example server = Server\('name'\)"),
        ("mine = Server('a')", "server", "has no Server called 'server': it has mine"),
        ("app = 3", "other", "has no Server called 'other': app is of the class int"),
        ("def create_server(): return 3", None, r"create_server\(\) of .* did not return a Server, but an object"),
        ("def create(port): ...", "create", r"create\(\) of .* needs arguments: port"),
        ("async def create_server(): ...", None, "is an `async def`"),
    ],
)
def test_what_was_found_instead_is_named(tmp_path, source, name, said):
    with pytest.raises(ConfigError, match=said):
        loaded(tmp_path, source, name)


@pytest.mark.parametrize(
    ("target", "path", "name"), [("a.py", "a.py", None), ("a.py:server", "a.py", "server"), ("a:1", "a:1", None)]
)
def test_a_target_is_a_file_and_perhaps_an_object(target, path, name):
    found, chosen = split_target(target)
    assert (str(found), chosen) == (path, name)
