"""What every test relies on."""

import signal
from collections.abc import Iterator

import pytest

from scenarios.http_carriers import CARRIERS, carrier

# A run that was started in the background inherits an ignored SIGINT, and so would the servers under test.
signal.signal(signal.SIGINT, signal.default_int_handler)

CARRIED = frozenset(
    {
        *("test_http_auth", "test_http_bearer", "test_http_close_stream", "test_http_params", "test_http_per_request"),
        *("test_http_security", "test_http_session_streams", "test_http_sessions", "test_http_stateless"),
        *("test_http_workers",),
    }
)


KEEPING = frozenset(
    {
        *("test_auth_client", "test_auth_issuer", "test_auth_programs", "test_auth_secrecy", "test_http_bearer"),
        *("test_client_negotiation", "test_wild"),
    }
)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run what is said over HTTP by everything that carries it."""
    is_carried = metafunc.module.__name__.rpartition(".")[2] in CARRIED
    if is_carried and not any(metafunc.definition.iter_markers("by_asgi")):
        metafunc.parametrize("carried_by", CARRIERS, indirect=True)


@pytest.fixture(autouse=True)
def carried_by(request: pytest.FixtureRequest) -> Iterator[None]:
    """Let the exchanges of a test be carried so."""
    before = carrier.set(getattr(request, "param", "asgi"))
    yield
    carrier.reset(before)


@pytest.fixture(autouse=True)
def own_state_folder(request: pytest.FixtureRequest) -> None:
    """Let programs that remember where they were let in remember it for one test."""
    if request.module.__name__.rpartition(".")[2] in KEEPING:
        folder = request.getfixturevalue("tmp_path_factory").mktemp("state")
        request.getfixturevalue("monkeypatch").setenv("XDG_STATE_HOME", str(folder))
