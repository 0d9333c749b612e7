"""The pytest plugin of dragoman: fixtures for a server under test, its clients, wire peers and scripted models.

pytest loads this module in every run if dragoman is installed. The module therefore imports nothing of dragoman until a
test uses a fixture.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from dragoman.client.blocking import Client
    from dragoman.testing.cassettes.cassette import Cassette
    from dragoman.testing.scripted import ScriptedModel
    from dragoman.testing.wire import WirePeer

_SERVER = "dragoman_server"
_UPDATE = "--dragoman-update"
_RECORD = "--dragoman-record"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the ini option `dragoman_server` and the options `--dragoman-update` and `--dragoman-record`."""
    parser.addini(_SERVER, 'The server that is tested, as "file.py:object", relative to the root of the tests.')
    parser.getgroup("dragoman").addoption(
        _UPDATE, action="store_true", help="Write the snapshots of schemas anew (assert_schemas_unchanged)."
    )
    parser.getgroup("dragoman").addoption(_RECORD, action="store_true", help="Record the cassettes anew (cassette).")


def pytest_configure(config: pytest.Config) -> None:
    """Set `snapshots.is_updating` and `cassette.is_recording` if the command line has their options."""
    _switch(config, on=True)


def pytest_unconfigure(config: pytest.Config) -> None:
    """Reset what `pytest_configure` has set, because the process may run pytest again."""
    _switch(config, on=False)


def _switch(config: pytest.Config, *, on: bool) -> None:
    if config.getoption(_RECORD):
        from dragoman.testing.cassettes import cassette

        cassette.is_recording = on
    if config.getoption(_UPDATE):
        from dragoman.testing import snapshots

        snapshots.is_updating = on


@pytest.fixture(scope="session")
def mcp_server(pytestconfig: pytest.Config) -> Any:
    """The server under test, from the ini option `dragoman_server`.

    Override this fixture to build the server in code, or to return any other target of a client.

    Raises:
        UsageError: the ini option is missing, or names no object.
    """
    given = str(pytestconfig.getini(_SERVER) or "")
    if not given:
        raise pytest.UsageError(
            f'Which server is tested? Set {_SERVER} = "file.py:object" in the ini file of pytest, or define a fixture'
            " called mcp_server"
        )
    return _load(pytestconfig.rootpath, given)


@pytest.fixture(params=["handshake", "stateless"])
def mcp_era(request: pytest.FixtureRequest) -> str:
    """The era of the client; a test runs once for each era.

    Override this fixture to return one era, or the name of one protocol version.
    """
    return str(request.param)


@pytest.fixture
def mcp_client_options() -> dict[str, Any]:
    """The options of `mcp_client`; override this fixture to return handlers, a timeout and so on."""
    return {}


@pytest.fixture
def mcp_client(mcp_server: Any, mcp_era: str, mcp_client_options: dict[str, Any]) -> Iterator[Client]:
    """A blocking client that is connected to `mcp_server`; a test runs once for each era."""
    from dragoman.client.blocking import Client
    from dragoman.testing.connecting import era_options

    with Client(mcp_server, **era_options(mcp_era), **mcp_client_options) as client:
        yield client


@pytest.fixture
def mcp_connected(mcp_server: Any, mcp_era: str) -> Callable[..., Any]:
    """`dragoman.testing.connected` with the server and the era: `async with mcp_connected() as client`."""
    from dragoman.testing.connecting import connected

    return partial(connected, mcp_server, mcp_era)


@pytest.fixture
def wire_peer(mcp_server: Any, mcp_era: str) -> Callable[..., WirePeer]:
    """`dragoman.testing.WirePeer` with the server and the era: `async with wire_peer() as peer`."""
    from dragoman.testing.wire import WirePeer

    return partial(WirePeer, mcp_server, mcp_era)


@pytest.fixture
def check_transport() -> Callable[..., None]:
    """A blocking `dragoman.testing.check_transport`: `check_transport(lambda: MyTransport(...))`."""
    import asyncio

    from dragoman.testing import transports

    def check(make: Callable[[], Any], **options: Any) -> None:
        asyncio.run(transports.check_transport(make, **options))

    return check


@pytest.fixture
def mcp_cassette(request: pytest.FixtureRequest) -> Iterator[Callable[..., Cassette]]:
    """`dragoman.testing.cassette` with files in the folder `cassettes` beside the test: `mcp_cassette("x.jsonl", url)`.

    The test fails if a request was not on its cassette.
    """
    from contextlib import ExitStack

    from dragoman.testing.cassettes.cassette import cassette

    folder = request.path.parent / "cassettes"
    with ExitStack() as stack:
        yield lambda name, target=None, **options: stack.enter_context(cassette(folder / name, target, **options))


@pytest.fixture
def scripted_model() -> Iterator[Callable[..., ScriptedModel]]:
    """`dragoman.testing.ScriptedModel`; the test fails if an answer of the script was not used."""
    from dragoman.testing.scripted import ScriptedModel

    models: list[tuple[ScriptedModel, int]] = []

    def make(*answers: Any, **options: Any) -> ScriptedModel:
        model = ScriptedModel(*answers, **options)
        models.append((model, len(answers)))
        return model

    yield make
    for model, answers in models:
        asked = len(model.requests)
        assert asked >= answers, f"{model.name} was asked {asked} times, and has {answers} answers in its script"


def _load(root: Path, given: str) -> Any:
    """Return the object that "file.py:object" names.

    Raises:
        UsageError: the text is malformed, or there is no such file or object.
    """
    file, _, name = given.rpartition(":")
    path = root / file
    if not name.isidentifier() or path.suffix != ".py":
        raise pytest.UsageError(f'{_SERVER} must be "file.py:object", not {given!r}')
    if not path.is_file():
        raise pytest.UsageError(f"{_SERVER} names {file!r}, and there is no such file in {str(root)!r}")
    module = _module(path.resolve())
    if not hasattr(module, name):
        raise pytest.UsageError(f"{_SERVER} names {name!r}, and {file!r} has nothing of that name")
    return getattr(module, name)


def _module(path: Path) -> Any:
    """Return the module of a file; if a test imported the file already, return that module."""
    import sys
    from importlib.util import module_from_spec, spec_from_file_location

    known = sys.modules.get(path.stem)
    if known is not None and getattr(known, "__file__", None) == str(path):
        return known
    if str(path.parent) not in sys.path:
        sys.path.insert(0, str(path.parent))
    name = path.stem if known is None else f"dragoman_server_{path.stem}"
    spec = spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[name] = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
