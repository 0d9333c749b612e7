"""The package of chats: its options and when it is loaded."""

import inspect
import subprocess
import sys
from pathlib import Path

from dragoman.chat.options import ChatOptions


def test_every_option_is_documented():
    source = Path(inspect.getfile(ChatOptions)).read_text(encoding="utf-8")
    lines = [line.strip() for line in source[source.index("class ChatOptions") :].splitlines()]
    for name in ChatOptions.__annotations__:
        place = next(index for index, line in enumerate(lines) if line.startswith(f"{name}: "))
        assert lines[place + 1].startswith('"""'), name


def test_nothing_is_loaded_before_it_is_used():
    code = "import dragoman, dragoman.chat, sys; print([name for name in sys.modules if 'dragoman.chat.' in name])"
    finished = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert finished.stdout == "[]\n"
