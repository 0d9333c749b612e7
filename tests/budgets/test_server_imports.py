"""What `from dragoman import Server` costs: most servers are started by a client that waits for them."""

from budgets.test_imports import modules_after


def test_a_server_is_imported_without_asyncio_or_anything_that_only_some_servers_need():
    loaded = modules_after("from dragoman import Server")
    assert not loaded & {
        "asyncio",
        "logging",
        "ssl",
        "subprocess",
        "aiohttp",
        "uvicorn",
        "click",
        "rich",
        "jsonschema_rs",
        "sqlite3",
    }


def test_a_store_of_one_machine_loads_sqlite_when_there_is_something_to_keep():
    loaded = modules_after(
        "import asyncio\nfrom pathlib import Path\nfrom dragoman.stores import Local\n"
        "store = Local(Path('nowhere'))\nstore.log('stream'), store.tasks('tasks')\n"
        "assert asyncio.run(store.state('values').get('key')) is None"
    )
    assert "dragoman.stores.local.tasks" in loaded
    assert not loaded & {"sqlite3", "dragoman.stores.local.database"}


def test_a_server_loads_nothing_of_apps_and_skills_until_it_has_them():
    made = "from dragoman import Server\nserver = Server()\n@server.tool\ndef add(a: int) -> int: return a\n"
    loaded = [name for name in modules_after(made) if name.startswith("dragoman.")]
    assert not [name for name in loaded if "apps" in name or "skill" in name or "official" in name]
    used = modules_after(f"{made}server.add_app('ui://a/b', '<p>')")
    assert {"dragoman.types.apps", "dragoman.server.extensions.apps"} <= used
    assert not [name for name in used if name.startswith("dragoman.") and "skill" in name]


def test_a_server_that_serves_everything_to_everybody_loads_nothing_of_choosing():
    made = "from dragoman import Server\nserver = Server()\n@server.tool\ndef add(a: int) -> int: return a\n"
    asked = (
        "server.handle({'jsonrpc': '2.0', 'id': 1, 'method': 'tools/list'})\n"
        "assert not server.dispatcher.around_methods"
    )
    chosen = {"dragoman.server.dispatch.visibility", "dragoman.server.dispatch.exposed"}
    assert not modules_after(made + asked) & chosen
    assert chosen <= modules_after(
        f"{made}server.expose_as_tools()\nserver.tool('b', visible=lambda ctx: True)(lambda: '')"
    )


def test_a_server_loads_the_making_of_dependencies_when_a_function_has_one():
    made = "from dragoman import Depends, Server\nserver = Server()\n@server.tool\ndef add(a: int) -> int: return a\n"
    name = "dragoman.server.define.dependencies"
    assert name not in modules_after(made)
    assert name in modules_after(f"{made}@server.tool\ndef b(made: int = Depends(lambda: 1)) -> int: return made")


def test_a_server_loads_nothing_of_routes_until_it_has_them():
    made = "from dragoman import Server\nserver = Server()\n"
    loaded = {name for name in modules_after(made) if name.startswith("dragoman.server.routes.")}
    assert not loaded
    assert "dragoman.server.routes.table" in modules_after(f"{made}server.route('/a')(lambda: '')")


def test_a_server_is_imported_with_at_most_150_modules_beyond_the_interpreter():
    # Python 3.12 loads a part of `tokenize` as a module of its own.
    added = modules_after("from dragoman import Server") - modules_after("pass") - {"_tokenize"}
    assert len(added) <= 150
