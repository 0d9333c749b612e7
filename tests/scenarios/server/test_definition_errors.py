"""Errors of definitions show the author's line and one message, not the frames of the package."""

import subprocess
import sys

import pytest

from scenarios.command_line import dragoman, written
from scenarios.wire import DEADLINE

HEAD = "from dragoman import Depends, Resource, Server, Tool, prompt, resource, tool\n\nserver = Server('shop')\n"
MISTAKES = {
    "annotation": ("class Thing: ...\n@server.tool\ndef buy(thing: Thing) -> str: ...\n", 5, "parameter 'thing'"),
    "option of a tool": ("@server.tool(nmae='x')\ndef buy() -> str: ...\n", 4, "did you mean 'name'"),
    "option of a server": ("Server('shop', prot=8000)\n", 4, "Server() has no option 'prot'"),
    "two tools": ("@server.tool\ndef a(): ...\n@server.tool(name='a')\ndef b(): ...\n", 6, "two tools called 'a'"),
    "value of an option": ("Server('shop', page_size=-1)\n", 4, "page_size must be a positive integer"),
    "setter": ("server.page_size = -1\n", 4, "page_size must be a positive integer"),
    "list of tools": ("Server('shop', tools=[5])\n", 4, "5 is not a Tool"),
    "class": ("class Buy(Tool): ...\nBuy()\n", 5, "must define a method `call`"),
    "free tool": ("@tool(timeout=-1)\ndef buy() -> str: ...\n", 4, "timeout of the tool"),
    "free prompt": ("@prompt\ndef ask(*words): ...\n", 4, "ask()"),
    "free resource": ("@resource('a://b', mimetype='x')\ndef read() -> str: ...\n", 4, "did you mean 'mime_type'"),
    "resource": ("@server.resource('a://{b}')\ndef read() -> str: ...\n", 4, "b"),
    "method": ("@server.method('ping')\ndef ping() -> str: ...\n", 4, "'ping'"),
    "route": ("@server.route('health')\ndef health() -> str: ...\n", 4, "must begin with /"),
    "lifespan": ("@server.lifespan\nasync def open_database(): ...\n", 4, "cannot be a lifespan"),
    "mount": ("server.mount(5)\n", 4, "5 cannot be mounted"),
    "within a function": ("def define():\n    server.tool(5)\n\ndefine()\n", 5, "5 cannot be called"),
    "lifespan that is called": ("@server.lifespan\ndef open(): ...\nserver.run()\n", 6, "open() returned NoneType"),
    "run": ("server.run('http', port=-1)\n", 4, "port must be at least 0"),
}

SERVED = {"lifespan that is called", "run"}
"""The mistakes that only serving finds; the command serves the file itself."""


@pytest.mark.covers("CMD-17")
@pytest.mark.parametrize(("source", "line", "message"), MISTAKES.values(), ids=MISTAKES)
def test_python_shows_only_the_lines_of_the_author(tmp_path, source, line, message):
    path = written(tmp_path, HEAD + source)
    ended = subprocess.run(
        [sys.executable, path], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=DEADLINE, check=False
    )
    assert ended.returncode == 1
    lines = ended.stderr.splitlines()
    files = [text for text in lines if text.startswith('  File "')]
    assert files[-1].startswith(f'  File "{path}", line {line}, in ')
    assert all(text.startswith(f'  File "{path}"') for text in files), ended.stderr
    assert lines.count("Traceback (most recent call last):") == 1
    assert message in lines[-1]


@pytest.mark.covers("CMD-17")
@pytest.mark.parametrize(
    ("source", "line", "message"),
    [mistake for name, mistake in MISTAKES.items() if name not in SERVED],
    ids=[name for name in MISTAKES if name not in SERVED],
)
def test_the_command_says_file_line_and_message_in_one_line(tmp_path, source, line, message):
    path = written(tmp_path, HEAD + source)
    finished = dragoman("run", path)
    assert (finished.code, finished.out) == (2, "")
    [said] = finished.err.splitlines()
    assert said.startswith(f"dragoman: {path}:{line}: ")
    assert message in said


def test_the_command_says_what_only_serving_finds_in_one_line(tmp_path):
    path = written(tmp_path, HEAD + MISTAKES["lifespan that is called"][0])
    finished = dragoman("run", path)
    assert (finished.code, finished.out) == (1, "")
    assert finished.err.startswith("dragoman: open() returned NoneType, and cannot be a lifespan")
    assert finished.err.count("\n") == 1


def test_a_client_of_a_file_says_where_it_is_wrong(tmp_path):
    path = written(tmp_path, HEAD + "server.mount(5)\n")
    finished = dragoman("list", path, home=tmp_path)
    assert finished.code == 3
    assert f"It wrote: dragoman: {path}:4: 5 cannot be mounted: give a Server" in finished.err


def test_verbs_that_load_a_file_say_where_it_is_wrong(tmp_path):
    path = written(tmp_path, HEAD + "server.mount(5)\n")
    for verb in ("worker", "bundle"):
        finished = dragoman(verb, path, home=tmp_path)
        assert (finished.code, finished.err) == (2, f"dragoman: {path}:4: 5 cannot be mounted: give a Server\n")
