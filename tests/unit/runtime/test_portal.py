import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from dragoman.errors import DragomanError
from dragoman.runtime.portal import portal, run_blocking

DEADLINE = 20


async def thread_name():
    return threading.current_thread().name


def test_every_caller_shares_one_loop_in_a_daemon_thread():
    assert run_blocking(thread_name()) == "dragoman portal"
    with ThreadPoolExecutor(8) as threads:
        portals = list(threads.map(lambda _: portal(), range(50), timeout=DEADLINE))
    assert set(portals) == {portal()}
    assert portal().thread.daemon


def test_what_the_coroutine_raises_is_raised():
    async def failing():
        raise LookupError("x")

    with pytest.raises(LookupError, match="x"):
        run_blocking(failing())


@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt()])
def test_what_would_end_a_loop_is_raised_to_the_caller_and_the_loop_goes_on(error):
    async def ending():
        raise error

    with pytest.raises(type(error)):
        run_blocking(ending())
    assert run_blocking(thread_name()) == "dragoman portal"


def test_a_call_inside_a_running_loop_is_refused_and_the_coroutine_is_closed():
    async def blocked():
        with pytest.raises(DragomanError, match="inside a running event loop"):
            run_blocking(thread_name())

    asyncio.run(blocked())


def test_a_call_on_the_portal_itself_is_refused():
    async def nested():
        return run_blocking(thread_name())

    with pytest.raises(DragomanError, match="inside a running event loop"):
        run_blocking(nested())
