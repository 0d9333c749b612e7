"""The `dragoman` command as a real process: to its end, or at a terminal."""

import json
import os
import pty
import re
import select
import signal
import socket
import subprocess
import sys
import textwrap
import time
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

import forked
from chat.provider import Provider
from interop.client.peers import command as peer_command
from ports import free_port

DEADLINE = 60
TRAVEL = Path(__file__).resolve().parents[2] / "examples" / "travel.py"
ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b\][^\x07]*\x07")
_SHED = (
    "DRAGOMAN_",
    "PYTHONUNBUFFERED",
    "XDG_",
    "BROWSER",
    "DISPLAY",
    "WAYLAND",
    "NO_COLOR",
    "FORCE_COLOR",
    "COLUMNS",
    "TTY_",
    "SSH_",
)
PLAIN = {name: value for name, value in os.environ.items() if not name.startswith(_SHED)}
BROWSER = f"{sys.executable} {Path(__file__).resolve().parents[1] / 'auth' / 'consenting_browser.py'} %s"
"""A browser that consents to a login, as a variable of the environment."""
PING = '{"jsonrpc": "2.0", "id": 1, "method": "ping"}\n'
PONG = '{"jsonrpc":"2.0","id":1,"result":{}}\n'


def environment(home, **more):
    """Return the environment of somebody whose home is a folder."""
    return PLAIN | {"HOME": str(home), "TERM": "xterm-256color", "PYTHONUTF8": "1"} | more


@dataclass
class Finished:
    """What came of the command."""

    code: int
    out: str
    err: str

    @property
    def json(self):
        return json.loads(self.out)


def options(provider):
    """Return how a chat is pointed at a provider of the tests."""
    return ["--base-url", provider.openai_url, "--api-key", "test-key-0001"]


def written(folder, source, name="service.py"):
    """Write a script into a folder."""
    path = folder / name
    path.write_text(textwrap.dedent(source), encoding="utf-8")
    return path


def told(asked):
    """Return the results of tools that a provider was told."""
    return [message["content"] for message in asked.body["messages"] if message["role"] == "tool"]


def words(*arguments):
    return [sys.executable, "-m", "dragoman", *map(str, arguments)]


def dragoman(*arguments, home="/nonexistent", input="", cwd=None, **more):
    """Run the command to its end, without a terminal."""
    given = {"input": input.encode(), "timeout": DEADLINE, "env": environment(home, **more), "cwd": cwd}
    if any(name.startswith("PYTHON") for name in more):
        finished = subprocess.run(words(*arguments), capture_output=True, check=False, **given)
    else:
        finished = forked.run(words(*arguments)[1:], **given)
    return Finished(finished.returncode, finished.stdout.decode(), finished.stderr.decode())


class AtTerminal:
    """The command, or a script, with its stdin and stderr at a terminal, its stdout too unless it is piped."""

    def __init__(self, *arguments, home="/nonexistent", is_piped=False, cwd=None, script=None, **more):
        self._own, theirs = pty.openpty()
        piped, output = os.pipe() if is_piped else (None, os.dup(theirs))
        self.child = forked.Forked(
            words(*arguments)[1:] if script is None else [str(script), *arguments],
            stdin=theirs,
            stdout=output,
            stderr=theirs,
            env=environment(home, COLUMNS="100", **more),
            start_new_session=True,
            cwd=cwd,
        )
        os.close(theirs)
        os.close(output)
        self._piped = None if piped is None else os.fdopen(piped, encoding="utf-8", newline="")
        self.raw = ""
        self._seen = 0

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.child.poll() is None:
            self.child.kill()
        self.child.wait(DEADLINE)
        os.close(self._own)
        if self._piped is not None:
            self._piped.close()

    @property
    def screen(self):
        """What was written so far, without what moves the cursor."""
        return ESCAPES.sub("", self.raw)

    def _receive(self, ends):
        assert select.select([self._own], [], [], max(0, ends - time.monotonic()))[0], f"nothing more: {self.screen}"
        try:
            chunk = os.read(self._own, 65536)
        except OSError:  # the other side is closed
            return False
        self.raw += chunk.decode("utf-8", "replace")
        return bool(chunk)

    def until(self, text):
        """Read until a text comes after what was waited for before."""
        ends = time.monotonic() + DEADLINE
        while (at := self.screen.find(text, self._seen)) < 0:
            assert self._receive(ends), f"{text!r} did not come: {self.screen}"
        self._seen = at + len(text)

    def until_any(self, *texts):
        """Read until one of some texts comes after what was waited for before, and return it."""
        ends = time.monotonic() + DEADLINE
        while not (found := [(at, text) for text in texts if (at := self.screen.find(text, self._seen)) >= 0]):
            assert self._receive(ends), f"none of {texts} came: {self.screen}"
        at, text = min(found)
        self._seen = at + len(text)
        return text

    def turn_pages_until(self, question):
        """Show page after page until a question comes."""
        while self.until_any("n stops -- ", question) != question:
            self.type("\n")

    def listen(self, seconds):
        """Read what comes within some seconds."""
        ends = time.monotonic() + seconds
        while select.select([self._own], [], [], max(0, ends - time.monotonic()))[0]:
            self._receive(ends)

    def type(self, text):
        os.write(self._own, text.encode())

    def answer(self, question, text):
        """Wait for a question or the prompt, and type an answer."""
        self.until(question)
        self.type(text)

    def quit(self):
        """End a chat at its prompt."""
        self.answer("> ", "/quit\n")
        assert self.end()[0] == 0

    def interrupt(self):
        self.child.send_signal(signal.SIGINT)

    def interrupt_until_it_ends(self):
        """Interrupt, again where the signal came just before the prompt began to wait and was not noticed."""
        for _ in range(DEADLINE // 5):
            self.interrupt()
            try:
                self.child.wait(5)
            except subprocess.TimeoutExpired:
                continue
            return

    def end(self):
        """Wait for the end, and return the exit code and what was piped."""
        ends = time.monotonic() + DEADLINE
        while self._receive(ends):
            pass
        piped = "" if self._piped is None else self._piped.read()
        return self.child.wait(DEADLINE), piped


@contextmanager
def chatting(script, *words, **more):
    """Start a chat at a terminal with a provider that answers by a script; give the terminal and the provider."""
    with Provider(*script) as provider, AtTerminal("chat", "openai:test", *options(provider), *words, **more) as at:
        yield at, provider


def chatted(script, *words, **more):
    """Let a chat without a terminal answer one question by a script; return its end and the provider."""
    with Provider(*script) as provider:
        return dragoman("chat", "openai:test", *options(provider), *words, **more), provider


class RunningCommand:
    """`dragoman run` over stdin and stdout, with a deadline on every read; killed at the end if it still runs."""

    def __init__(self, path):
        self.child = subprocess.Popen(
            words("run", path),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=PLAIN,
            bufsize=0,
        )
        self._unread = b""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.child.kill()
        self.child.wait(DEADLINE)
        for stream in (self.child.stdin, self.child.stdout, self.child.stderr):
            stream.close()

    def send(self, message):
        text = message if isinstance(message, str) else json.dumps(message) + "\n"
        self.child.stdin.write(text.encode())

    def line(self, stream=None):
        stream = stream or self.child.stdout
        ends = time.monotonic() + DEADLINE
        while b"\n" not in self._unread:
            assert select.select([stream], [], [], max(0, ends - time.monotonic()))[0], "nothing came in time"
            chunk = os.read(stream.fileno(), 65536)
            assert chunk, self.child.stderr.read()
            self._unread += chunk
        line, _, self._unread = self._unread.partition(b"\n")
        return line

    def receive(self):
        return json.loads(self.line())


@contextmanager
def serving(script, *arguments, home):
    """Serve a script over HTTP with the command, and give the URL."""
    port = free_port()
    child = subprocess.Popen(
        words("run", "--http", "--port", port, *arguments, script),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        env=environment(home),
    )
    try:
        ends = time.monotonic() + DEADLINE
        while not listens(port):
            assert time.monotonic() < ends, "the server does not listen"
            assert child.poll() is None, child.stderr.read()
            time.sleep(0.02)
        yield f"http://127.0.0.1:{port}/mcp"
    finally:
        child.kill()
        child.wait(DEADLINE)
        child.stderr.close()


def listens(port):
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
    except OSError:
        return False
    return True


@pytest.fixture
def everything(tmp_path):
    """The words that start the server-everything, after `--`."""
    return ["--", *peer_command("everything", "stdio", tmp_path)]
