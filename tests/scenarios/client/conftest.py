"""What the tests of clients share."""

import inspect

import pytest

from scenarios.client_peer import scenario


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run an asynchronous test, and see that it leaves no task, descriptor or child behind."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    arguments = {name: pyfuncitem.funcargs[name] for name in inspect.signature(pyfuncitem.obj).parameters}
    scenario(pyfuncitem.obj)(**arguments)
    return True


@pytest.fixture(params=["handshake", "stateless"])
def era(request: pytest.FixtureRequest) -> str:
    """Run a test in both eras of the protocol."""
    return request.param
