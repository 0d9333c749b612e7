"""The command with a server, an issuer and a model whose every text carries what could deceive a reader."""

import asyncio
import json
import sys
from pathlib import Path

import pytest

from auth.world import world
from chat.provider import Provider, Say
from scenarios.command_line import BROWSER, AtTerminal, dragoman
from scenarios.command_line import options as pointed_at
from scenarios.hostile_server import BAD

HOSTILE = Path(__file__).parents[1] / "hostile_server.py"
UNSEEN = [
    character
    for character in dict.fromkeys(BAD)
    if character != "\n" and not (character.isascii() and character.isprintable())
]


def target(how):
    return ["--", sys.executable, HOSTILE, how]


def require_harmless(*texts):
    """Fail if a character of the server is seen raw."""
    for text in texts:
        assert not [f"{ord(character):x}" for character in UNSEEN if character in text], text


def require_own_lines(text):
    """Fail if the server has written a line that looks like the command's own."""
    assert not [line for line in text.splitlines() if line.lstrip().startswith("dragoman: forged")], text


VERBS = [
    ("list", "say", 0),
    ("list --json", "say", 0),
    ("list --verbose", "say", 0),
    ("list --verbose", "mute", 3),
    ("list --verbose", "noise", 0),
    ("call plain", "say", 0),
    ("call plain --json", "say", 0),
    ("call plain --verbose", "say", 0),
    ("call plain", "fail", 1),
    ("call plain", "refuse", 4),
    ("call plain --json", "refuse", 4),
    ("call plain --verbose", "refuse", 4),
    ("call plain", "crash", 3),
    ("call plain --verbose", "crash", 3),
    ("call plain", "form", 0),
    ("call plain", "visit", 0),
    ("call nothing", "say", 4),
    ("read x://a", "say", 0),
    ("read x://a --json", "say", 0),
    ("prompt prompt", "say", 0),
    ("prompt prompt --json", "say", 0),
    ("complete prompt prompt argument v", "say", 0),
    ("complete prompt prompt argument v --json", "say", 0),
    ("doctor", "say", 0),
    ("doctor --json", "say", 0),
    ("doctor --verbose", "mute", 1),
]


@pytest.mark.covers("CMD-17", "CMD-29")
@pytest.mark.parametrize(("words", "how", "code"), VERBS)
def test_no_verb_writes_what_a_server_hides(tmp_path, words, how, code):
    finished = dragoman(*words.split(), *target(how), home=tmp_path)
    assert finished.code == code, finished.err
    require_harmless(finished.out, finished.err)
    require_own_lines(finished.err)
    if words.startswith(("list", "complete", "doctor")):
        require_own_lines(finished.out)
    if "--json" in words:
        json.loads(finished.out)


@pytest.mark.covers("CMD-15")
def test_json_keeps_every_character_as_an_escape(tmp_path):
    found = dragoman("call", "plain", "--json", *target("say"), home=tmp_path).json
    assert found["content"][0]["text"] == f"text{BAD}"


@pytest.mark.covers("CMD-17")
def test_a_pipe_gets_the_text_as_it_is_where_that_is_asked_for(tmp_path):
    assert dragoman("read", "x://a", "--raw", *target("say"), home=tmp_path).out == f"content{BAD}"
    with AtTerminal("read", "x://a", "--raw", *target("say"), home=tmp_path, NO_COLOR="1") as terminal:
        assert terminal.end()[0] == 0
    assert "\u202e" not in terminal.raw


@pytest.mark.covers("CMD-17", "CMD-29")
@pytest.mark.parametrize(
    ("words", "how"),
    [(["list"], "say"), (["list", "--json"], "say"), (["call", "plain"], "say"), (["doctor"], "say")],
)
def test_a_terminal_is_no_less_careful(tmp_path, words, how):
    with AtTerminal(*words, *target(how), home=tmp_path) as terminal:
        terminal.end()
    assert "\x1b[2J" not in terminal.raw
    require_harmless(terminal.screen.replace("\r", ""))
    require_own_lines(terminal.screen.partition("text")[0] if words[0] == "call" else terminal.screen)


@pytest.mark.covers("CMD-06", "CMD-29")
def test_a_form_of_a_server_shows_nothing_raw(tmp_path):
    with AtTerminal("call", "plain", *target("form"), home=tmp_path, is_piped=True) as terminal:
        for _ in range(2):
            terminal.until("Field")
            terminal.answer(": ", "\n")
        assert terminal.end()[0] == 0
    require_harmless(terminal.screen.replace("\r", ""))
    require_own_lines(terminal.screen)


@pytest.mark.covers("CMD-06", "CMD-30")
def test_a_page_is_shown_in_ascii_with_a_warning_about_its_host(tmp_path):
    with AtTerminal("call", "plain", *target("visit"), home=tmp_path, is_piped=True) as terminal:
        terminal.until("The server wants you to visit xn--pple-43d.com:")
        terminal.until("https://xn--pple-43d.com/%E2%80%AE%F3%A0%81%81?a=b")
        terminal.until("Beware: The host mixes the scripts CYRILLIC, LATIN")
        terminal.answer("Open it? [y/N] ", "n\n")
        assert terminal.end()[0] == 0
    require_harmless(terminal.screen.replace("\r", ""))


@pytest.mark.covers("CMD-29")
def test_the_name_that_a_server_has_here_comes_before_the_one_that_it_gives_itself(tmp_path):
    (tmp_path / "named.json").write_text(
        json.dumps({"mcpServers": {"weather": {"command": sys.executable, "args": [str(HOSTILE), "form"]}}})
    )
    called = dragoman("call", "weather", "plain", "--config", "named.json", home=tmp_path, cwd=tmp_path)
    assert called.code == 0
    assert "\nweather asks (declined" in called.err
    assert "\n[weather] error dragoman\\x1b[2J" in called.err
    assert "\nhostile" not in called.err


@pytest.mark.covers("CMD-17", "CMD-24")
@pytest.mark.parametrize("options", [["--yes"], ["--yes", "--json"], []])
def test_a_chat_shows_nothing_raw(tmp_path, options):
    with Provider(Say("Hm.", calls=[("1", "plain", json.dumps({"a": BAD}))]), Say(BAD)) as provider:
        given = ["chat", "openai:test", *pointed_at(provider)]
        finished = dragoman(*given, *options, *target("say"), input="Go.", home=tmp_path)
    assert finished.code == 0
    require_harmless(finished.out, finished.err)
    require_own_lines(finished.err)


@pytest.mark.covers("CMD-12", "CMD-17")
async def test_an_issuer_writes_nothing_raw(tmp_path):
    async def command(*arguments, **options):
        finished = await asyncio.to_thread(dragoman, *arguments, home=tmp_path, **options)
        require_harmless(finished.out, finished.err)
        return finished

    async with world(authorization_query="?hint=\u202e\u200b\U000e0041") as there:
        entered = await command("auth", "login", there.url, BROWSER=BROWSER)
        assert "hint=%E2%80%AE" in entered.err
        await command("auth", "status", there.url)
    async with world(token_error={"error": f"bad{BAD}", "error_description": BAD}) as there:
        refused = await command("auth", "login", there.url, BROWSER=BROWSER)
        assert refused.code == 3
        require_own_lines(refused.err)
        await command("auth", "login", there.url, "--verbose", BROWSER=BROWSER)
        await command("doctor", there.url)
