"""The bus of Unix sockets, over real ones, in one process and between several."""

import asyncio
import functools
import gc
import inspect
import logging
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import uvloop

from dragoman.stores import Local
from dragoman.stores.local import bus as local
from dragoman.stores.local.bus import LocalBus
from dragoman.stores.memory import MemoryBus


@pytest.fixture
def tmp_path():
    """A folder whose path is short enough for a socket's address, however the tests are run."""
    with tempfile.TemporaryDirectory() as folder:
        yield Path(folder)


DEADLINE = 60
MEMBER = Path(__file__).with_name("bus_member.py")
LOOPS = {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}


@pytest.fixture(params=LOOPS, autouse=True)
def loop_factory(request) -> Callable[[], asyncio.AbstractEventLoop]:
    return LOOPS[request.param]


@pytest.fixture
def short() -> Iterator[Path]:
    """A folder whose path leaves room for a socket's name."""
    with tempfile.TemporaryDirectory(prefix="d", dir="/tmp") as folder:
        yield Path(folder)


def bounded(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """Run a test in each loop, with a deadline, and see that neither a task nor a socket is left."""

    async def watched(*args: Any, **kwargs: Any) -> None:
        await asyncio.wait_for(test(*args, **kwargs), DEADLINE)
        await asyncio.sleep(0)
        assert asyncio.all_tasks() == {asyncio.current_task()}

    @functools.wraps(test)
    def run(loop_factory, *args: Any, **kwargs: Any) -> None:
        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            with asyncio.Runner(loop_factory=loop_factory) as runner:
                runner.run(watched(*args, **kwargs))
            gc.collect()
        assert not [str(warning.message) for warning in warned if warning.category is ResourceWarning]

    run.__signature__ = _with_loop(test)  # type: ignore[attr-defined]
    return run


def _with_loop(test: Callable[..., Any]) -> Any:
    signature = inspect.signature(test)
    first = inspect.Parameter("loop_factory", inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return signature.replace(parameters=[first, *signature.parameters.values()])


class Member:
    """A bus and what it heard; it replies with a word of its own."""

    def __init__(self, bus: Any, word: bytes = b"") -> None:
        self.bus = bus
        self.word = word
        self.heard: list[bytes] = []

    def receive(self, message: bytes) -> bytes:
        self.heard.append(message)
        return self.word


async def join(folder: Path, count: int, group: str = "group") -> list[Member]:
    members = [Member(Local(folder).bus(group), b"%d" % number) for number in range(count)]
    for member in members:
        await member.bus.open(member.receive)
    return members


async def leave(*members: Member) -> None:
    for member in members:
        await member.bus.close()


def sockets(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if not path.is_dir()]


@contextmanager
def process(folder: Path, group: str = "group") -> Iterator[tuple[subprocess.Popen[bytes], str]]:
    """Another process on the bus, and its name there; killed at the end if it still runs."""
    child = subprocess.Popen([sys.executable, MEMBER, folder, group], stdout=subprocess.PIPE)
    try:
        yield child, child.stdout.readline().decode().strip()
    finally:
        child.kill()
        child.wait(DEADLINE)
        child.stdout.close()


@bounded
async def test_a_message_goes_to_every_other_and_the_replies_come_back(tmp_path):
    members = await join(tmp_path, 3)
    assert sorted(await members[0].bus.publish(b"hello")) == [b"1", b"2"]
    assert sorted(await members[2].bus.publish(b"there")) == [b"0", b"1"]
    assert [member.heard for member in members] == [[b"there"], [b"hello", b"there"], [b"hello"]]
    await leave(*members)
    assert not sockets(tmp_path)


@bounded
async def test_those_who_join_at_the_same_time_find_each_other(tmp_path):
    members = [Member(Local(tmp_path).bus("group"), b"%d" % number) for number in range(8)]
    await asyncio.gather(*(member.bus.open(member.receive) for member in members))
    for member in members:
        assert len(await member.bus.publish(b"hello")) == 7
    assert all(len(member.heard) == 7 for member in members)
    await leave(*members)


@bounded
async def test_a_message_that_is_too_large_is_not_sent_and_the_others_stay_in_reach(tmp_path, caplog):
    members = await join(tmp_path, 2)
    assert await members[0].bus.publish(bytes(local.MAX_FRAME_BYTES + 1)) == []
    assert "too large for the other workers" in caplog.text
    assert await members[0].bus.publish(b"small") == [b"1"]
    await leave(*members)


@bounded
async def test_a_stranger_whose_frame_is_too_large_is_hung_up_on(tmp_path):
    members = await join(tmp_path, 1)
    (path,) = sockets(tmp_path)
    reader, writer = await asyncio.open_unix_connection(str(path))
    writer.write(b"\xff" * 9)
    assert await asyncio.wait_for(reader.read(), DEADLINE) == b""
    writer.close()
    await writer.wait_closed()
    assert not members[0].heard
    await leave(*members)


@bounded
async def test_frames_in_pieces_and_several_at_once_are_taken(tmp_path):
    members = await join(tmp_path, 1)
    (path,) = sockets(tmp_path)
    reader, writer = await asyncio.open_unix_connection(str(path))
    frames = b"".join(local._HEAD.pack(3, 1, number) + b"abc" for number in (1, 2))
    for cut in (1, 9, 14):
        writer.write(frames[:cut])
        await writer.drain()
        frames = frames[cut:]
    writer.write(frames)
    replies = await asyncio.wait_for(reader.readexactly(2 * local._HEAD.size + 2), DEADLINE)
    assert replies == b"".join(local._HEAD.pack(1, 2, number) + b"0" for number in (1, 2))
    assert members[0].heard == [b"abc", b"abc"]
    writer.close()
    await writer.wait_closed()
    await leave(*members)


@bounded
async def test_a_message_that_cannot_be_taken_is_logged_and_the_next_one_is_taken(tmp_path, caplog):
    one, other = await join(tmp_path, 2)
    taken = other.receive
    other.bus._receive = lambda message: taken(message) if message == b"good" else 1 / 0
    assert await one.bus.publish(b"bad") == [b""]
    assert await one.bus.publish(b"good") == [b"1"]
    assert [record.levelname for record in caplog.records] == ["ERROR"]
    await leave(one, other)


@bounded
async def test_the_socket_of_a_process_that_was_killed_is_removed_by_the_next(tmp_path):
    with process(tmp_path) as (child, name):
        (witness,) = await join(tmp_path, 1)
        child.kill()
        child.wait(DEADLINE)
        assert await witness.bus.publish(b"hello") == []
        assert name in {path.name for path in sockets(tmp_path)}
        (newcomer,) = await join(tmp_path, 1)
        assert {path.name for path in sockets(tmp_path)} == {witness.bus.name, newcomer.bus.name}
        assert await newcomer.bus.publish(b"hello") == [b"0"]
        await leave(witness, newcomer)


@bounded
async def test_a_process_that_hangs_is_waited_for_once_and_again_when_it_goes_on(tmp_path, monkeypatch, caplog):
    monkeypatch.setattr(local, "REPLY_SECONDS", 0.3)
    with process(tmp_path) as (child, name):
        (member,) = await join(tmp_path, 1)
        child.send_signal(signal.SIGSTOP)
        began = time.monotonic()
        assert await member.bus.publish(b"one") == []
        assert time.monotonic() - began < 5
        monkeypatch.setattr(local, "REPLY_SECONDS", 3600)
        assert await member.bus.publish(b"two") == []
        assert caplog.text.count("did not reply") == 1
        child.send_signal(signal.SIGCONT)
        replies: list[bytes] = []
        async with asyncio.timeout(DEADLINE):
            while not replies:
                replies = await member.bus.publish(b"three")
                await asyncio.sleep(0)
        assert replies == [f"{name} three".encode()]
        monkeypatch.setattr(local, "REPLY_SECONDS", 0.3)
        await leave(member)


@bounded
async def test_one_who_joins_does_not_wait_long_for_a_process_that_hangs(tmp_path, monkeypatch):
    monkeypatch.setattr(local, "REPLY_SECONDS", 0.3)
    with process(tmp_path) as (child, _):
        child.send_signal(signal.SIGSTOP)
        one, other = await join(tmp_path, 2)
        assert await one.bus.publish(b"hello") == [b"1"]
        await leave(one, other)


@bounded
async def test_leaving_does_not_wait_for_a_process_that_does_not_read(tmp_path, monkeypatch):
    monkeypatch.setattr(local, "REPLY_SECONDS", 0.3)
    monkeypatch.setattr(local, "MAX_UNSENT_BYTES", 6 * 2**20)
    with process(tmp_path) as (child, _):
        (member,) = await join(tmp_path, 1)
        child.send_signal(signal.SIGSTOP)
        for _ in range(3):
            assert await member.bus.publish(bytes(4 * 2**20)) == []
        await leave(member)
        assert not member.bus._links


@pytest.mark.parametrize("place", ["given", "group"])
@bounded
async def test_a_folder_that_others_may_enter_is_refused_with_one_warning(tmp_path, place, caplog):
    folder = tmp_path / "given"
    (first,) = await join(folder, 1)
    await leave(first)
    (group,) = folder.iterdir()
    assert [path.stat().st_mode & 0o777 for path in (folder, group)] == [0o700, 0o700]
    (folder if place == "given" else group).chmod(0o755)
    alone, other = await join(folder, 2)
    assert await alone.bus.publish(b"hello") == []
    assert [record.levelno for record in caplog.records] == [logging.WARNING, logging.WARNING]
    assert "chmod 700" in caplog.records[0].getMessage()
    assert (folder if place == "given" else group).stat().st_mode & 0o777 == 0o755
    await leave(alone, other)
    assert not sockets(folder)


@bounded
async def test_a_folder_of_somebody_else_is_refused(tmp_path, monkeypatch, caplog):
    (tmp_path / "given").mkdir(mode=0o700)
    monkeypatch.setattr(os, "getuid", lambda: 4_242_424)
    (member,) = await join(tmp_path / "given", 1)
    assert len(caplog.records) == 1
    assert await member.bus.publish(b"hello") == []
    await leave(member)


@bounded
async def test_a_link_in_the_place_of_the_folder_is_refused_and_what_it_leads_to_is_left_alone(tmp_path, caplog):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    elsewhere.chmod(0o755)
    (tmp_path / "given").symlink_to(elsewhere)
    (member,) = await join(tmp_path / "given", 1)
    assert len(caplog.records) == 1
    assert elsewhere.stat().st_mode & 0o777 == 0o755
    assert not list(elsewhere.iterdir())
    await leave(member)


@bounded
async def test_a_folder_that_cannot_be_made_leaves_the_process_alone(tmp_path, caplog):
    (tmp_path / "file").write_text("")
    (member,) = await join(tmp_path / "file", 1)
    assert [record.levelno for record in caplog.records] == [logging.WARNING]
    await leave(member)


@bounded
async def test_a_path_that_is_too_long_for_a_socket_gives_way_to_a_short_one(tmp_path, short, monkeypatch):
    monkeypatch.setattr(local.tempfile, "gettempdir", lambda: str(short))
    one, other = await join(tmp_path / ("long" * 30), 2)
    assert await one.bus.publish(b"hello") == [b"1"]
    assert len(sockets(short)) == 2
    assert not (tmp_path / ("long" * 30)).exists()
    await leave(one, other)
    assert not sockets(short)


@bounded
async def test_a_socket_that_cannot_be_made_leaves_the_process_alone(tmp_path, monkeypatch, caplog):
    monkeypatch.setattr(local, "MAX_SOCKET_PATH", 1000)
    (member,) = await join(tmp_path / ("long" * 30), 1)
    assert [record.levelno for record in caplog.records] == [logging.WARNING]
    assert await member.bus.publish(b"hello") == []
    await leave(member)


@bounded
async def test_without_a_folder_the_bus_is_beside_the_key(short, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(short))
    member = Member(Local().bus("group"))
    await member.bus.open(member.receive)
    found = sockets(short)
    await leave(member)
    assert [path.parent.parent for path in found] == [short / "dragoman" / "bus"]


@bounded
async def test_a_socket_has_its_name_only_when_it_listens(tmp_path):
    members = await join(tmp_path, 1)
    (group,) = tmp_path.iterdir()
    unready = socket.socket(socket.AF_UNIX)
    unready.bind(str(group / ".12345678"))
    (newcomer,) = await join(tmp_path, 1)
    assert (group / ".12345678").exists()
    unready.close()
    await leave(newcomer, *members)


@bounded
async def test_whoever_connects_while_the_bus_is_left_is_hung_up_on(tmp_path):
    one, other = await join(tmp_path, 2)
    one.bus._is_closed = True
    (path,) = [path for path in sockets(tmp_path) if path.name == one.bus.name]
    reader, writer = await asyncio.open_unix_connection(str(path))
    assert await asyncio.wait_for(reader.read(), DEADLINE) == b""
    writer.close()
    await writer.wait_closed()
    await leave(one, other)


@bounded
async def test_a_system_without_unix_sockets_has_nobody_else_on_its_bus(tmp_path, monkeypatch):
    class Bare:
        """A loop that cannot listen on Unix sockets."""

    assert isinstance(Local(tmp_path).bus("group"), LocalBus)
    monkeypatch.setattr(local.asyncio, "get_running_loop", Bare)
    bus = Local(tmp_path).bus("group")
    monkeypatch.undo()
    assert isinstance(bus, MemoryBus)
