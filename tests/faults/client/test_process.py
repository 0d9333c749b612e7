"""The client's side of stdio: servers that are killed, hang, fork, flood or do not listen, and clients that die."""

import asyncio
import gc
import logging
import os
import signal
import subprocess
import sys
import time
from contextlib import ExitStack, asynccontextmanager, contextmanager, suppress
from pathlib import Path

import pytest
import uvloop

from dragoman.errors import ConnectError, ServerCrashed, TransportError
from dragoman.transports.process.process import ProcessTransport

DEADLINE = 60
PING = b'{"jsonrpc":"2.0","id":1,"method":"ping"}'
READY = "print('{}', flush=True)"
ECHO = "import sys\nfor line in sys.stdin.buffer: sys.stdout.buffer.write(line); sys.stdout.flush()"
STUBBORN = f"""
import signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
{READY}
while True: time.sleep(60)
"""
# The grandchild has the pipes of its parent and a pid that the parent tells.
PARENT = """
import os, subprocess, sys
grandchild = subprocess.Popen([sys.executable, "-c", '''
import signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print("{}", flush=True)
time.sleep(60)
'''])
"""


@pytest.fixture(params=[asyncio.run, uvloop.run], ids=["asyncio", "uvloop"])
def run(request):
    async def within_deadline(coroutine):
        async with asyncio.timeout(DEADLINE):
            return await coroutine

    return lambda coroutine: request.param(within_deadline(coroutine))


class Heard:
    """What a transport brought."""

    def __init__(self):
        self.messages = []
        self.ends = []
        self._something = asyncio.Event()

    def receive(self, message):
        self.messages.append(message)
        self._something.set()

    def closed(self, error):
        self.ends.append(error)
        self._something.set()

    async def message(self, number=1):
        while len(self.messages) < number:
            self._something.clear()
            await self._something.wait()
        return self.messages[number - 1]

    async def end(self):
        while not self.ends:
            self._something.clear()
            await self._something.wait()
        return self.ends[0]


async def send_until_refused(process):
    while True:
        await process.send(PING)


@asynccontextmanager
async def opened(code, **options):
    process, heard = ProcessTransport([sys.executable, "-c", code], **options), Heard()
    await process.open(heard.receive, heard.closed)
    try:
        yield process, heard
    finally:
        await process.close()


def runs(pid):
    """Return whether a process is there and no zombie."""
    with suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return False


def group(pid):
    """Return the processes of a group that are no zombies."""
    listing = subprocess.run(["ps", "-eo", "pid=,pgid=,stat="], capture_output=True, text=True, check=True).stdout
    rows = [line.split() for line in listing.splitlines()]
    return [int(row[0]) for row in rows if int(row[1]) == pid and not row[2].startswith("Z")]


@contextmanager
def ended_at_last(pid):
    """Kill a group that should have ended, so that a test that fails leaves nothing."""
    try:
        yield
    finally:
        if group(pid):
            os.killpg(pid, signal.SIGKILL)


def wait_until(condition, within=DEADLINE):
    deadline = time.monotonic() + within
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.01)


@pytest.mark.covers("CST-04")
def test_a_server_that_is_killed_within_a_message_is_told_with_the_signal(run, caplog):
    code = """
import os, sys, time
os.write(2, b'about to answer')
os.write(1, b'{"jsonrpc":"2.0","id":1,"result":{"x"')
os.write(1, b':{}')
os.kill(os.getpid(), 9)
"""

    async def scenario():
        async with opened(code, name="victim") as (process, heard):
            error = await heard.end()
            assert isinstance(error, ServerCrashed)
            assert error.exit_code == process.exit_code == -signal.SIGKILL
            assert error.stderr_tail == "about to answer"
            assert "'victim' was ended by SIGKILL" in str(error)
            assert heard.messages == []

    run(scenario())
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]


@pytest.mark.covers("CST-04")
def test_who_sends_to_a_dead_server_is_told_how_it_ended(run):
    async def scenario():
        async with opened(f"import os; {READY}; os.write(2, b'last words'); os.close(0); os.read(1, 1)") as (
            process,
            heard,
        ):
            await heard.message()
            with pytest.raises(ServerCrashed) as caught:
                await send_until_refused(process)
            assert caught.value.exit_code == 1
            assert "last words" in str(caught.value)
            assert isinstance(await heard.end(), ServerCrashed)
        assert len(heard.ends) == 1

    run(scenario())


@pytest.mark.covers("CST-04")
def test_a_server_that_closes_its_input_and_lives_on_is_ended(run):
    async def scenario():
        async with opened(f"import os, time; os.close(0); {READY}; time.sleep(60)", grace=0.1) as (process, heard):
            await heard.message()
            with pytest.raises(ServerCrashed, match="closed its stdin and did not end"):
                await process.send(PING)
        assert process.exit_code == -signal.SIGTERM

    run(scenario())


ENDS_WITH_ITS_INPUT = f"import sys; {READY}; sys.stdin.read(); sys.exit(5)"
ENDS_WITH_SIGTERM = f"import signal, sys, time; signal.signal(15, lambda *_: sys.exit(6)); {READY}; time.sleep(60)"


@pytest.mark.covers("CST-08")
@pytest.mark.parametrize(
    ("code", "grace", "exit_code"),
    [(ENDS_WITH_ITS_INPUT, 20, 5), (ENDS_WITH_SIGTERM, 0.2, 6), (STUBBORN, 0.2, -signal.SIGKILL)],
    ids=["no signal", "SIGTERM", "SIGKILL"],
)
def test_a_server_that_ignores_the_end_of_its_input_gets_sigterm_and_then_sigkill(run, code, grace, exit_code):
    async def scenario():
        async with opened(code, grace=grace) as (process, heard):
            await heard.message()
        assert process.exit_code == exit_code
        assert not runs(process.pid)

    run(scenario())


@pytest.mark.covers("CST-08")
def test_what_waits_to_be_sent_is_sent_before_the_input_ends(run):
    size = 900_000
    code = f"import sys, time; {READY}; sys.exit(0 if len(sys.stdin.buffer.read()) == {size + 1} else 1)"

    async def scenario():
        async with opened(code, grace=20) as (process, heard):
            await heard.message()
            await process.send(b"x" * size)
        assert process.exit_code == 0

    run(scenario())


@pytest.mark.covers("CST-08")
def test_closing_twice_at_once_waits_for_the_same_end(run):
    async def scenario():
        async with opened(STUBBORN, grace=0.2) as (process, heard):
            await heard.message()
            await asyncio.gather(*(process.close() for _ in range(5)))
            assert not runs(process.pid)
        assert heard.ends == []

    run(scenario())


@pytest.mark.covers("CST-08")
def test_a_close_that_is_cancelled_goes_on_in_the_background(run):
    async def scenario():
        async with opened(STUBBORN, grace=0.2) as (process, heard):
            await heard.message()
            closing = asyncio.create_task(process.close())
            await asyncio.sleep(0)
            closing.cancel()
            with pytest.raises(asyncio.CancelledError):
                await closing
            assert runs(process.pid)
            await asyncio.to_thread(wait_until, lambda: not runs(process.pid))
            await process.close()
            assert process.exit_code == -signal.SIGKILL

    run(scenario())


@pytest.mark.covers("CST-08")
def test_a_loop_that_ends_while_a_server_is_closed_kills_the_server_at_once(run):
    processes = []

    async def scenario():
        process, heard = ProcessTransport([sys.executable, "-c", STUBBORN], grace=20), Heard()
        processes.append(process)
        await process.open(heard.receive, heard.closed)
        await heard.message()
        closing = asyncio.create_task(process.close())
        for _ in range(5):
            await asyncio.sleep(0)
        assert not closing.done()

    run(scenario())
    assert not runs(processes[0].pid)


@pytest.mark.covers("CST-11")
def test_a_server_that_nobody_closed_ends_with_its_transport(run):
    pids = []

    async def scenario():
        process, heard = ProcessTransport([sys.executable, "-c", STUBBORN]), Heard()
        await process.open(heard.receive, heard.closed)
        await heard.message()
        pids.append(process.pid)

    run(scenario())
    gc.collect()
    assert not group(pids[0])


@pytest.mark.covers("CST-08")
def test_what_a_server_started_ends_with_it(run):
    async def scenario():
        async with opened(PARENT + "sys.stdin.read()", grace=0.3) as (process, heard):
            await heard.message()
            assert len(group(process.pid)) == 2
        assert process.exit_code == 0
        assert not group(process.pid)

    run(scenario())


@pytest.mark.covers("CST-08")
def test_a_server_that_dies_and_leaves_a_child_with_its_pipes_is_noticed_and_its_child_ended(run):
    async def scenario():
        async with opened(PARENT + "sys.stdin.readline(); os._exit(4)", grace=0.3) as (process, heard):
            await heard.message()
            await process.send(PING)
            error = await heard.end()
            assert error.exit_code == 4
        assert not group(process.pid)

    run(scenario())


@pytest.mark.covers("CST-08")
def test_a_grandchild_that_left_the_group_and_holds_the_pipes_does_not_hold_up_the_end(run, tmp_path):
    code = f"""
import os, subprocess, sys
sleeper = "import time; print('{{}}', flush=True); time.sleep(60)"
other = subprocess.Popen([sys.executable, "-c", sleeper], start_new_session=True)
open({str(tmp_path / "pid")!r}, "w").write(str(other.pid))
sys.stdin.read()
"""

    async def scenario():
        async with opened(code, grace=10) as (process, heard):
            await heard.message()
            began = time.monotonic()
            await process.close()
            assert time.monotonic() - began < 8
        assert process.exit_code == 0

    try:
        run(scenario())
    finally:
        os.kill(int((tmp_path / "pid").read_text()), signal.SIGKILL)


@pytest.mark.covers("CST-09")
def test_a_server_that_never_reads_blocks_its_sender_and_nothing_else(run):
    async def scenario():
        async with opened(f"import time; {READY}; time.sleep(60)", grace=0.1) as (process, heard):
            await heard.message()
            senders = [asyncio.create_task(process.send(b"x" * 1_000_000)) for _ in range(20)]
            turns = 0
            while turns < 100:
                await asyncio.sleep(0)
                turns += 1
            waiting = [sender for sender in senders if not sender.done()]
            assert len(waiting) >= 18
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.05):
                    await process.send(PING)
            await process.close()
            outcomes = await asyncio.gather(*waiting, return_exceptions=True)
            assert {type(outcome) for outcome in outcomes} <= {ConnectError, TransportError}
            assert sum(type(outcome) is ConnectError for outcome in outcomes) >= 17

    run(scenario())


@pytest.mark.covers("CST-09")
def test_one_message_of_twenty_megabytes_waits_until_it_is_read(run):
    code = f"import sys; {READY}; print([len(line) for line in sys.stdin.buffer], flush=True)"

    async def scenario():
        async with opened(code) as (process, heard):
            await heard.message()
            sending = asyncio.create_task(process.send(b"x" * 20_000_000))
            await asyncio.sleep(0)
            assert not sending.done()
            await asyncio.gather(sending, process.send(b"y" * 5_000_000))
        assert process.exit_code == 0

    run(scenario())


@pytest.mark.covers("CST-09")
def test_a_sender_that_is_cancelled_tears_no_message(run, tmp_path):
    hold = f"""
import json, os, sys, time
{READY}
while not os.path.exists(sys.argv[1]): time.sleep(0.01)
sizes = []
for line in sys.stdin.buffer:
    sizes.append([len(line), len(set(line))])
    if line == b"end\\n": break
print(json.dumps(sizes), flush=True)
"""

    async def scenario(gate):
        process, heard = ProcessTransport([sys.executable, "-c", hold, str(gate)]), Heard()
        await process.open(heard.receive, heard.closed)
        await heard.message()
        first = asyncio.create_task(process.send(b"a" * 3_000_000))
        second = asyncio.create_task(process.send(b"b" * 3_000_000))
        third = asyncio.create_task(process.send(b"c" * 10))
        for _ in range(10):
            await asyncio.sleep(0)
        first.cancel()
        second.cancel()
        await asyncio.gather(first, second, return_exceptions=True)
        gate.touch()
        await third
        await process.send(b"end")
        assert await heard.message(2) == b"[[3000001, 2], [11, 2], [4, 4]]"
        await process.close()

    run(scenario(tmp_path / "gate"))


@pytest.mark.covers("CST-04")
def test_senders_that_wait_are_told_when_the_server_dies(run):
    async def scenario():
        async with opened(f"import time; {READY}; time.sleep(60)") as (process, heard):
            await heard.message()
            senders = [asyncio.create_task(process.send(b"x" * 2_000_000)) for _ in range(3)]
            await asyncio.sleep(0)
            os.kill(process.pid, signal.SIGKILL)
            outcomes = await asyncio.gather(*senders, return_exceptions=True)
            assert [type(outcome) for outcome in outcomes] == [ServerCrashed] * 3
            assert len({id(outcome) for outcome in outcomes}) == 3
            assert {outcome.exit_code for outcome in outcomes} == {-signal.SIGKILL}

    run(scenario())


CLIENT = """
import asyncio, os, sys
from dragoman.errors import ConnectError
from dragoman.transports.process.process import ProcessTransport

async def main():
    ready = asyncio.Event()
    process = ProcessTransport([sys.executable, "-c", {server!r}], grace=0.2)
    await process.open(lambda message: ready.set(), print)
    await ready.wait()
    print(process.pid, flush=True)
    {then}

asyncio.run(main())
{last}
"""
WAIT = "await asyncio.Event().wait()"


def client(server, then, last=""):
    code = CLIENT.format(server=server, then=then, last=last)
    return subprocess.Popen([sys.executable, "-W", "error", "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE)


@pytest.mark.covers("CST-11")
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_client_that_is_killed_leaves_no_server_behind(number):
    with ExitStack() as stack:
        clients = [
            stack.enter_context(client(server, WAIT))
            for server in (READY + "\n" + ECHO, STUBBORN, PARENT + "grandchild.wait()")
        ]
        pids = [int(one.stdout.readline()) for one in clients]
        for one in clients:
            one.send_signal(number)
            one.wait(DEADLINE)
        for pid in pids:
            stack.enter_context(ended_at_last(pid))
        for pid in pids:
            wait_until(lambda pid=pid: not group(pid))


@pytest.mark.covers("CST-11")
@pytest.mark.parametrize(
    ("then", "last"),
    [("globals()['kept'] = process", ""), ("", ""), ("globals()['kept'] = process", "raise SystemExit(0)")],
    ids=["kept", "dropped", "exit"],
)
def test_an_interpreter_that_exits_ends_the_servers_it_left_open_without_a_word(then, last):
    with client(STUBBORN, then, last) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        _, errors = parent.communicate(timeout=DEADLINE)
        with ended_at_last(pid):
            assert parent.returncode == 0
            assert errors == b""
            assert not group(pid)


IN_A_THREAD = """
import asyncio, sys, threading
from dragoman.transports.process.process import ProcessTransport

def serve():
    async def main():
        process = ProcessTransport([sys.executable, "-c", {server!r}])
        await process.open(lambda message: ready.append(process.pid) or told.set(), print)
        await asyncio.Event().wait()

    asyncio.run(main())

ready, told = [], threading.Event()
threading.Thread(target=serve, daemon=True).start()
assert told.wait(30)
print(*ready, flush=True)
"""


@pytest.mark.covers("CST-11")
def test_an_interpreter_that_exits_ends_servers_of_a_loop_that_still_runs_in_a_thread():
    command = [sys.executable, "-W", "error", "-c", IN_A_THREAD.format(server=STUBBORN)]
    finished = subprocess.run(command, capture_output=True, timeout=DEADLINE)
    with ended_at_last(int(finished.stdout)):
        assert (finished.returncode, finished.stderr) == (0, b"")
        assert not group(int(finished.stdout))


@pytest.mark.covers("CST-11")
def test_a_forked_process_neither_holds_nor_ends_the_servers_of_its_parent():
    then = """
    child = os.fork()
    if child == 0:
        async def again():
            try:
                await process.send(b"x")
            except ConnectError:
                await process.close()
                await process.open(print, print)
                await process.close()
                print(process.exit_code, flush=True)
        asyncio.run(again())
        sys.exit(0)
    os.waitpid(child, 0)
    print(process.exit_code, flush=True)
    sleeper = os.fork()
    if sleeper == 0:
        import signal
        signal.pause()
    await process.close()
    print(process.exit_code, flush=True)
    os.kill(sleeper, 9)
    os.waitpid(sleeper, 0)
"""
    with client(READY + "\n" + ECHO, then.strip()) as parent:
        output, errors = parent.communicate(timeout=DEADLINE)
        assert output.split()[1:] == [b"0", b"None", b"0"], errors
