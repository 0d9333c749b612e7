"""SIGTERM is noted before the handler of the program, which still gets it; each case runs in its own process."""

import subprocess
import sys
import textwrap

import pytest

DEADLINE = 60
ASYNCIO = """
    import asyncio, os, signal
    from dragoman.transports.http.termination import is_terminating

    async def main():
        ended = asyncio.Event()
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, ended.set)
        assert not is_terminating()
        assert not is_terminating()
        os.kill(os.getpid(), signal.SIGTERM)
        await asyncio.wait_for(ended.wait(), 30)
        assert is_terminating()

    asyncio.run(main())
    print("ended")
"""
UVLOOP = ASYNCIO.replace("asyncio.run(main())", "import uvloop; uvloop.run(main())")
FUNCTION = """
    import os, signal
    from dragoman.transports.http.termination import is_terminating

    received = []
    signal.signal(signal.SIGTERM, lambda number, frame: received.append(number))
    assert not is_terminating()
    os.kill(os.getpid(), signal.SIGTERM)
    assert received == [signal.SIGTERM]
    assert is_terminating()
    print("ended")
"""
REPLACED = FUNCTION.replace(
    "    os.kill(",
    """
    signal.signal(signal.SIGTERM, lambda number, frame: received.append(number))  # after the first look
    assert not is_terminating()
    os.kill(""",
)
THREAD = FUNCTION.replace(
    "    assert not is_terminating()\n",
    "    import threading\n"
    "    thread = threading.Thread(target=is_terminating)\n"
    "    thread.start()\n"
    "    thread.join()\n",
).replace("    assert is_terminating()\n", "    assert not is_terminating()\n")
DEFAULT = """
    import os, signal
    from dragoman.transports.http.termination import is_terminating

    assert not is_terminating()
    print("ended", flush=True)
    os.kill(os.getpid(), signal.SIGTERM)
"""


@pytest.mark.parametrize(
    ("program", "exit_code"),
    [(ASYNCIO, 0), (UVLOOP, 0), (FUNCTION, 0), (REPLACED, 0), (THREAD, 0), (DEFAULT, -15)],
    ids=["asyncio", "uvloop", "function", "replaced handler", "other thread", "no handler"],
)
def test_sigterm_is_noted_and_still_handled(program, exit_code):
    command = [sys.executable, "-W", "error", "-c", textwrap.dedent(program)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=DEADLINE, check=False)
    assert (ended.returncode, ended.stdout, ended.stderr) == (exit_code, "ended\n", "")
