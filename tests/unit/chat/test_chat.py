"""The two faces of a chat: the same methods, options and documentation, and what is exported."""

import inspect
import subprocess
import sys
from pathlib import Path

import pytest

import dragoman.chat
from dragoman import AsyncChat, Chat
from dragoman.chat.options import ChatOptions
from dragoman.testing import ScriptedModel


def public(face):
    return {name for name in dir(face) if not name.startswith("_")}


def comparable(text):
    return (
        str(text).replace("async with ", "with ").replace("async for", "for").replace("await ", "").replace("Async", "")
    )


@pytest.mark.covers("CHAT-27")
def test_both_faces_have_the_same_names():
    model = ScriptedModel()
    assert public(AsyncChat(model)) == public(Chat(model))


@pytest.mark.covers("CHAT-27")
def test_both_faces_have_the_same_parameters_and_the_same_documentation():
    for name in public(AsyncChat):
        one, other = inspect.getattr_static(AsyncChat, name), inspect.getattr_static(Chat, name)
        assert comparable(inspect.getdoc(one)) == comparable(inspect.getdoc(other)), name
        if inspect.isfunction(one):
            assert not inspect.iscoroutinefunction(inspect.unwrap(other)) or other.__wrapped__ is one, name
            first, second = inspect.signature(one), inspect.signature(other)
            one_way, other_way = (str(way.replace(return_annotation="")) for way in (first, second))
            assert comparable(one_way) == comparable(other_way), name
            if name != "stream":
                assert comparable(first.return_annotation) == comparable(second.return_annotation), name


def test_both_faces_take_the_same_options():
    assert inspect.signature(AsyncChat) == inspect.signature(Chat)


def test_every_option_is_documented():
    source = Path(inspect.getfile(ChatOptions)).read_text(encoding="utf-8")
    lines = [line.strip() for line in source[source.index("class ChatOptions") :].splitlines()]
    for name in ChatOptions.__annotations__:
        place = next(index for index, line in enumerate(lines) if line.startswith(f"{name}: "))
        assert lines[place + 1].startswith('"""'), name


def test_everything_public_says_what_it_does():
    for name in dragoman.chat.__all__:
        found = getattr(dragoman.chat, name)
        assert inspect.getdoc(found), name
    for face in (AsyncChat, Chat):
        for name in public(face):
            assert inspect.getdoc(inspect.getattr_static(face, name)), name


def test_nothing_is_loaded_before_it_is_used():
    code = "import dragoman, dragoman.chat, sys; print([name for name in sys.modules if 'dragoman.chat.' in name])"
    finished = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert finished.stdout == "[]\n"
