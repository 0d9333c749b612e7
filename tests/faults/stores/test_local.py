"""A store of one machine loses nothing that it acknowledged: processes are killed, forked and run out of room."""

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest

from dragoman.stores import Local

DEADLINE = 120
HERE = Path(__file__).parent


@pytest.fixture
def folder(tmp_path) -> Path:
    return tmp_path / "store"


def begin(program: str, *args: object) -> subprocess.Popen[str]:
    command = [sys.executable, "-W", "ignore", str(HERE / program), *map(str, args)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def run(program: str, *args: object) -> str:
    process = begin(program, *args)
    try:
        output, errors = process.communicate(timeout=DEADLINE)
    finally:
        process.kill()
        process.wait(DEADLINE)
    assert process.returncode == 0, errors
    return output


def killed(folder: Path, name: str, lines: int) -> list[str]:
    """Let a process write, kill it in the middle, and return the keys that it was acknowledged."""
    writer = begin("store_writer.py", folder, name)
    keys = [writer.stdout.readline().strip() for _ in range(lines)]
    writer.kill()
    writer.wait(DEADLINE)
    keys += [line.strip() for line in writer.stdout if line.endswith("\n")]
    writer.stdout.close()
    writer.stderr.close()
    return keys


async def test_a_process_that_is_killed_in_the_middle_of_writing_loses_nothing_that_was_acknowledged(folder):
    survivor = Local(folder)
    await survivor.state("killed").set("witness", b"value")
    written = await asyncio.gather(
        *(asyncio.to_thread(killed, folder, f"process{number}", 200 + 50 * number) for number in range(4))
    )
    state, tasks = survivor.state("killed"), survivor.tasks("killed")
    for number, keys in enumerate(written):
        assert len(keys) >= 200 + 50 * number
        for key in keys:
            found = await state.get(key)
            assert found is not None, f"{key} is lost"
            assert found.value == key.encode()
            if int(key.rpartition("x")[2]) % 5 == 0:
                assert (await tasks.get(key)).value == key.encode()
        logged = [event.decode() for _, event in await survivor.log(f"process{number}").after(0)]
        assert set(logged) >= {key for key in keys if f"process{number}x0x" in key}
    assert await state.get("witness")
    await survivor.close()


def test_a_fork_in_the_middle_of_writing_loses_nothing_on_either_side_and_hangs_nobody(folder):
    assert int(run("forking_writer.py", folder).split()[0]) > 0


def test_on_a_full_disk_what_was_acknowledged_stays_and_what_runs_can_end(folder):
    assert int(run("limited_writer.py", folder).split()[0]) > 10


def test_in_a_folder_that_became_read_only_what_was_acknowledged_stays_and_what_is_new_is_refused(folder):
    said = run("unwritable_writer.py", folder)
    assert said.count("cannot be opened: attempt to write a readonly database") == 3
    assert said.count(str(folder / "store-2.sqlite")) == 3
