"""The client's side of stdio, against real children."""

import asyncio
import logging
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest
import uvloop

from dragoman.errors import ConnectError, ServerCrashed, TransportError
from dragoman.protocol.jsonrpc import Limits
from dragoman.transports.process.process import TAIL_BYTES, ProcessTransport
from scenarios.client_peer import open_files
from unit.loops import in_each_loop

DEADLINE = 60
ECHO = "import sys\nfor line in sys.stdin.buffer: sys.stdout.buffer.write(line); sys.stdout.flush()"
PING = b'{"jsonrpc":"2.0","id":1,"method":"ping"}'


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

    async def until(self, condition):
        while not condition():
            self._something.clear()
            await self._something.wait()

    async def message(self, number=1):
        await self.until(lambda: len(self.messages) >= number)
        return self.messages[number - 1]

    async def end(self):
        await self.until(lambda: self.ends)
        return self.ends[0]


def python(code, **options):
    return ProcessTransport([sys.executable, "-c", code], **options)


@asynccontextmanager
async def opened(code=ECHO, **options):
    process, heard = python(code, **options), Heard()
    await process.open(heard.receive, heard.closed)
    try:
        yield process, heard
    finally:
        await process.close()


async def refused(process):
    with pytest.raises(ConnectError) as caught:
        await process.open(print, print)
    return str(caught.value)


def runs(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.covers("CST-01")
@in_each_loop
async def test_messages_go_to_a_child_and_come_back_one_by_one():
    async with opened() as (process, heard):
        await process.send(PING)
        assert await heard.message() == PING
        for number in range(100):
            await process.send(b'{"id":%d}' % number)
        assert await heard.message(101) == b'{"id":99}'
        assert runs(process.pid)
        assert process.exit_code is None
    assert process.exit_code == 0
    assert not runs(process.pid)
    assert heard.ends == []


@pytest.mark.covers("CST-01")
@in_each_loop
async def test_a_string_is_a_command_line_and_no_shell_reads_it():
    heard = Heard()
    process = ProcessTransport(
        f"""{sys.executable} -c 'import json, sys; print(json.dumps(sys.argv[1:]))' "a b" $HOME ;"""
    )
    await process.open(heard.receive, heard.closed)
    assert await heard.message() == b'["a b", "$HOME", ";"]'
    await process.close()


@pytest.mark.covers("CST-01")
@in_each_loop
async def test_arguments_are_passed_on_as_they_are():
    heard = Heard()
    process = ProcessTransport(sys.executable, ["-c", "import json, sys; print(json.dumps(sys.argv[1:]))", "x y", ""])
    await process.open(heard.receive, heard.closed)
    assert await heard.message() == b'["x y", ""]'
    await process.close()


@pytest.mark.parametrize("command", ["", "  ", [], [""]])
def test_no_command_is_refused_when_the_transport_is_made(command):
    with pytest.raises(ValueError, match="no command"):
        ProcessTransport(command)


def test_a_command_line_whose_quotes_do_not_match_is_refused():
    with pytest.raises(ValueError, match="quotation"):
        ProcessTransport("python 'server.py")


@pytest.mark.parametrize(
    ("command", "name"),
    [
        ("/usr/bin/python3 server.py", "python3 server.py"),
        ("npx -y @acme/files /srv", "npx @acme/files"),
        (["python", "-c", "print(1); print(2)"], "python"),
        ("server", "server"),
    ],
)
def test_a_server_is_named_for_what_it_runs(command, name):
    assert ProcessTransport(command).name == name
    assert ProcessTransport(command, name="files").name == "files"


SHOW_VARIABLES = "import json, os; print(json.dumps(dict(os.environ)))"


@pytest.mark.covers("CST-03")
@in_each_loop
async def test_the_environment_is_inherited_with_changes_over_it(monkeypatch):
    monkeypatch.setenv("DRAGOMAN_KEPT", "kept")
    monkeypatch.setenv("DRAGOMAN_CHANGED", "old")
    async with opened(SHOW_VARIABLES, env={"DRAGOMAN_CHANGED": "new"}) as (_, heard):
        message = await heard.message()
        assert b'"DRAGOMAN_KEPT": "kept"' in message
        assert b'"DRAGOMAN_CHANGED": "new"' in message


@pytest.mark.covers("CST-03")
@in_each_loop
async def test_an_environment_that_is_not_inherited_holds_no_secrets(monkeypatch):
    monkeypatch.setenv("DRAGOMAN_SECRET", "secret")
    async with opened(SHOW_VARIABLES, env={"GIVEN": "given"}, inherit_env=False) as (_, heard):
        message = await heard.message()
        assert b"DRAGOMAN_SECRET" not in message
        assert b'"GIVEN": "given"' in message
        assert b'"PATH": ' in message


@in_each_loop
async def test_a_child_runs_in_the_directory_that_is_given(tmp_path):
    async with opened("import os; print([os.getcwd()].__repr__().replace(chr(39), chr(34)))", cwd=tmp_path) as (
        _,
        heard,
    ):
        assert await heard.message() == f'["{tmp_path}"]'.encode()


@pytest.mark.covers("CST-04")
def test_a_command_that_is_not_in_the_path_is_named_with_the_path(run, tmp_path):
    text = run(refused(ProcessTransport("no-such-server --x", env={"PATH": str(tmp_path)})))
    assert text.startswith("Cannot start 'no-such-server': it is not in PATH")
    assert str(tmp_path) in text


@pytest.mark.covers("CST-04")
@in_each_loop
async def test_the_path_of_the_child_is_searched_and_not_ours(tmp_path):
    (tmp_path / "the-server").symlink_to("/bin/cat")
    heard = Heard()
    process = ProcessTransport("the-server", env={"PATH": str(tmp_path)})
    await process.open(heard.receive, heard.closed)
    await process.send(PING)
    assert await heard.message() == PING
    await process.close()


@pytest.mark.covers("CST-04")
def test_a_file_that_is_not_there_is_named(run, tmp_path):
    assert "there is no such file" in run(refused(ProcessTransport([str(tmp_path / "absent")])))


@pytest.mark.covers("CST-04")
def test_a_file_that_is_not_executable_is_named_with_the_remedy(run, tmp_path):
    (tmp_path / "server.py").write_text("print(1)")
    assert "chmod +x" in run(refused(ProcessTransport([str(tmp_path / "server.py")])))


@pytest.mark.covers("CST-04")
def test_a_script_without_an_interpreter_is_named_with_the_remedy(run, tmp_path):
    script = tmp_path / "server"
    script.write_text("print(1)")
    script.chmod(0o755)
    assert "name its interpreter" in run(refused(ProcessTransport([str(script)])))
    script.write_text("#!/no/such/interpreter\n")
    assert "the interpreter in its first line" in run(refused(ProcessTransport([str(script)])))


@pytest.mark.covers("CST-04")
def test_a_working_directory_that_is_not_there_is_named(run, tmp_path):
    text = run(refused(python(ECHO, cwd=tmp_path / "absent")))
    assert "working directory" in text
    assert str(tmp_path / "absent") in text


@pytest.mark.covers("CST-04")
def test_what_the_system_refuses_for_other_reasons_is_told(run):
    assert "null byte" in run(refused(ProcessTransport(["python\0"])))
    assert "too long" in run(refused(ProcessTransport([sys.executable, "x" * 10_000_000]))).lower()


@pytest.mark.covers("CST-04")
@in_each_loop
async def test_a_server_that_ends_tells_its_exit_code_and_the_last_of_its_stderr():
    async with opened("import sys; sys.exit('ACME_KEY is not set')") as (process, heard):
        error = await heard.end()
        assert isinstance(error, ServerCrashed)
        assert error.exit_code == 1
        assert error.stderr_tail == "ACME_KEY is not set\n"
        assert "ended with exit code 1" in str(error)
        assert "ACME_KEY is not set" in str(error)
        assert pickle.loads(pickle.dumps(error)).exit_code == 1
        with pytest.raises(ServerCrashed, match="ACME_KEY"):
            await process.send(PING)
    assert len(heard.ends) == 1


@pytest.mark.covers("CST-04")
@in_each_loop
async def test_what_a_server_sent_before_it_ended_is_received_first():
    async with opened(f"print({PING.decode()!r}, end=''); import os; os.write(2, b'end')") as (process, heard):
        error = await heard.end()
        assert heard.messages == [PING]
        assert error.exit_code == 0
        assert "ended with exit code 0" in str(error)
        assert process.stderr_tail == "end"


@pytest.mark.covers("CST-07")
def test_lines_that_are_no_messages_are_skipped_with_one_warning(run, caplog):
    code = "\n".join(
        [
            "print('Server listening on stdio')",
            "print('[INFO] ready'); print('{not json}'); print(); print('42'); print(chr(34) + 'text' + chr(34))",
            f"print({PING.decode()!r}); print('  [' + {PING.decode()!r} + ']  ', flush=True)",
            ECHO,
        ]
    )

    async def scenario():
        async with opened(code, name="noisy") as (process, heard):
            assert await heard.message(2) == b"  [" + PING + b"]  "
            await process.send(PING)
            assert await heard.message(3) == PING

    with caplog.at_level(logging.INFO, "dragoman.client"):
        run(scenario())
    warnings = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert len(warnings) == 1
    assert "'noisy'" in warnings[0]
    assert "Server listening on stdio" in warnings[0]
    assert any("wrote 5 lines" in record.getMessage() for record in caplog.records)


@pytest.mark.covers("CST-02")
@in_each_loop
async def test_a_line_that_is_too_long_ends_the_connection():
    code = f"print({PING.decode()!r}); print('x' * 2000, flush=True); print({PING.decode()!r}, flush=True)\n{ECHO}"
    async with opened(code, limits=Limits(message_bytes=1000)) as (process, heard):
        error = await heard.end()
        assert isinstance(error, TransportError)
        assert "more than 1000 bytes" in str(error)
        assert heard.messages == [PING]
        with pytest.raises(TransportError, match="more than 1000 bytes"):
            await process.send(PING)
    assert process.exit_code == 0


@pytest.mark.covers("CST-06")
def test_stderr_goes_to_the_log_line_by_line(run, caplog):
    async def scenario():
        async with opened("import os; os.write(2, b'one\\ntwo\\n' + b'x' * 9000 + b'\\nlast')", name="talker") as (
            _,
            heard,
        ):
            await heard.end()

    with caplog.at_level(logging.DEBUG, "dragoman.client.stderr"):
        run(scenario())
    records = [record.getMessage() for record in caplog.records if record.name == "dragoman.client.stderr"]
    assert records == ["talker: one", "talker: two", "talker: (more than 8192 bytes)", "talker: last"]


@pytest.mark.covers("CST-06")
@in_each_loop
async def test_much_stderr_without_a_newline_neither_blocks_the_child_nor_is_kept():
    code = f"import os\nfor _ in range(160): os.write(2, b'x' * 65536)\nos.write(2, b'the end')\n{ECHO}"
    async with opened(code) as (process, heard):
        await process.send(PING)
        assert await heard.message() == PING
    assert process.stderr_tail.endswith("xthe end")
    assert len(process.stderr_tail) <= TAIL_BYTES


@pytest.mark.covers("CST-09")
@in_each_loop
async def test_messages_of_many_senders_do_not_mix():
    async with opened() as (process, heard):
        sent = [b'{"id":%d,"x":"%s"}' % (number, b"y" * 300_000) for number in range(30)]
        await asyncio.gather(*map(process.send, sent))
        await heard.message(30)
        assert heard.messages == sent


@pytest.mark.covers("CST-09")
@in_each_loop
async def test_a_newline_in_a_message_does_not_break_the_line():
    async with opened() as (process, heard):
        await process.send(b'{"id":\r\n1}')
        assert await heard.message() == b'{"id":  1}'


@pytest.mark.covers("CST-09")
@in_each_loop
async def test_what_is_sent_without_a_connection_is_refused():
    process = python(ECHO)
    with pytest.raises(ConnectError, match="not open"):
        await process.send(PING)
    await process.close()
    assert process.pid is process.exit_code is None
    assert process.stderr_tail == ""
    async with opened() as (process, _):
        pass
    with pytest.raises(ConnectError, match="not open"):
        await process.send(PING)


@pytest.mark.covers("CST-08")
@in_each_loop
async def test_a_transport_is_opened_once_at_a_time_and_again_after_its_end():
    async with opened() as (process, heard):
        first = process.pid
        assert "open already" in await refused(process)
        await process.close()
        await process.open(heard.receive, heard.closed)
        assert process.pid != first
        await process.send(PING)
        assert await heard.message() == PING
    assert heard.ends == []


@pytest.mark.covers("CST-08")
@in_each_loop
async def test_a_crashed_server_can_be_started_again():
    async with opened("import sys; print(input(), flush=True); sys.exit(3)") as (process, heard):
        for number in (1, 2):
            await process.send(PING)
            await heard.until(lambda number=number: len(heard.ends) == number)
            if number == 1:
                await process.open(heard.receive, heard.closed)
        assert heard.messages == [PING, PING]
        assert [error.exit_code for error in heard.ends] == [3, 3]


@pytest.mark.covers("CST-08")
@in_each_loop
async def test_a_start_that_fails_leaves_a_transport_that_can_be_closed_and_started(tmp_path):
    process, heard = ProcessTransport([str(tmp_path / "server")]), Heard()
    assert "no such file" in await refused(process)
    await process.close()
    (tmp_path / "server").symlink_to("/bin/cat")
    await process.open(heard.receive, heard.closed)
    await process.close()
    (tmp_path / "server").unlink()
    assert "no such file" in await refused(process)
    await process.close()


@pytest.mark.covers("CST-08")
@in_each_loop
async def test_closing_while_opening_wins():
    ignorant = (
        "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('{}', flush=True); time.sleep(60)"
    )
    process, heard = python(ignorant, grace=0.1), Heard()
    await process.open(heard.receive, heard.closed)
    await heard.message()
    closing = asyncio.create_task(process.close())
    await asyncio.sleep(0)
    opening = asyncio.create_task(process.open(heard.receive, heard.closed))
    await asyncio.sleep(0)
    await process.close()
    with pytest.raises(ConnectError, match="closed while it was opened"):
        await opening
    await closing
    assert not runs(process.pid)


@in_each_loop
async def test_what_receive_raises_is_logged_and_the_next_message_comes(caplog):
    heard = Heard()

    def receive(message):
        heard.receive(message)
        if len(heard.messages) == 1:
            raise ZeroDivisionError

    process = python(f"print({PING.decode()!r}); print({PING.decode()!r})")
    await process.open(receive, heard.closed)
    await heard.end()
    assert len(heard.messages) == 2
    await process.close()
    assert [record.exc_info[0] for record in caplog.records if record.exc_info] == [ZeroDivisionError]


@in_each_loop
async def test_nothing_is_received_after_close():
    async with opened("print(input(), flush=True); input('{}')\n") as (process, heard):
        await process.send(PING)
        await heard.message()
    assert heard.messages == [PING]
    assert heard.ends == []


@pytest.mark.covers("CST-12")
@pytest.mark.parametrize("runner", [asyncio.run, uvloop.run], ids=["asyncio", "uvloop"])
def test_a_loop_in_another_thread_sees_children_end(runner):
    outcome = []

    async def scenario():
        async with asyncio.timeout(DEADLINE):
            async with opened("import os; print(input(), flush=True); os._exit(7)") as (process, heard):
                await process.send(PING)
                error = await heard.end()
                outcome.append((heard.messages, error.exit_code))
            async with opened() as (process, heard):
                pass
            outcome.append(process.exit_code)

    thread = threading.Thread(target=runner, args=(scenario(),), daemon=True)
    thread.start()
    thread.join(DEADLINE)
    assert outcome == [([PING], 7), 0]


@pytest.mark.covers("CST-12")
@in_each_loop
async def test_children_of_two_hundred_openings_leave_nothing_behind():
    async with opened():
        pass
    descriptors, threads, others = open_now()  # a server that tests share may be among the others
    for _ in range(20):
        processes = [ProcessTransport(["/bin/cat"]) for _ in range(10)]
        await asyncio.gather(*(process.open(print, print) for process in processes))
        await asyncio.gather(*(process.send(b"x") for process in processes))
        await asyncio.gather(*(process.close() for process in processes))
    # Threads of other tests may end meanwhile, and those of these children as soon as they come to it.
    for thread in open_now()[1] - threads:
        await asyncio.to_thread(thread.join, DEADLINE)
        assert not thread.is_alive()
    left = open_now()
    assert left[0] <= descriptors
    assert left[2] <= others


def open_now():
    """Return how many descriptors this process has, its threads, and its children with their ids."""
    listing = ["ps", "-o", "pid=,comm=", "--ppid", str(os.getpid())]
    children = subprocess.run(listing, capture_output=True, text=True, check=True).stdout.splitlines()
    return (
        len(open_files()),
        set(threading.enumerate()),
        {child for child in children if not child.endswith(" ps")},
    )


@pytest.mark.covers("CST-12")
@in_each_loop
async def test_descriptors_are_not_inherited_by_other_children():
    async with opened() as (process, _):
        # Before it has begun to wait, the child has files of its own open.
        pipes = {link for link in links(process.pid) if link.startswith("pipe:")}
        assert len(pipes) >= 2
        assert pipes <= links("self")
        assert not pipes & inherited_links()


def links(pid):
    """Return what the descriptors of a process lead to."""
    found = set()
    for path in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(FileNotFoundError):  # closed meanwhile
            found.add(str(path.readlink()))
    return found


def inherited_links():
    """Return what descriptors lead to in a child that is given all that can be inherited."""
    code = "import pathlib; print(*(p.readlink() for p in pathlib.Path('/proc/self/fd').iterdir() if p.is_symlink()))"
    child = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, close_fds=False)
    return set(child.stdout.split())


@in_each_loop
async def test_a_child_that_closes_its_output_and_lives_on_is_ended():
    code = "import os, time; os.close(1); time.sleep(60)"
    async with opened(code, grace=0.1) as (process, heard):
        error = await heard.end()
        assert isinstance(error, ServerCrashed)
        assert error.exit_code is None
        assert "closed its stdout and did not end" in str(error)
    assert process.exit_code == -signal.SIGTERM


@in_each_loop
async def test_closing_a_dead_server_returns_at_once():
    async with opened("pass", grace=20) as (process, heard):
        await heard.end()
        began = time.monotonic()
        await process.close()
        await process.close()
        assert time.monotonic() - began < 5
