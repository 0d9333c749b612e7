"""The command at a terminal: the bar, questions, colours, and Ctrl-C."""

import json

import pytest

from scenarios.command_line import TRAVEL, AtTerminal, dragoman, everything, written

__all__ = ["everything"]

ASKING = """
    import asyncio
    from dragoman import Context, Server

    server = Server("asking")
    MEALS = [{"const": "v", "title": "Vegan"}, {"const": "m", "title": "Meat"}]

    @server.tool
    async def fill(ctx: Context) -> str:
        await ctx.report_progress(1, total=2)
        answer = await ctx.elicit("Who are you?", {
            "type": "object",
            "properties": {
                "name": {"type": "string", "minLength": 2, "description": "As in your passport."},
                "age": {"type": "integer", "minimum": 0},
                "share": {"type": "number"},
                "window": {"type": "boolean", "default": True},
                "meal": {"type": "string", "oneOf": MEALS},
                "days": {"type": "array", "items": {"type": "string", "enum": ["mon", "tue", "wed"]}},
                "note": {"type": "string"},
            },
            "required": ["name", "age", "meal"],
        })
        return f"{answer.action} {answer.accepted and sorted(answer.content.items())}"

    @server.tool
    async def visit(ctx: Context) -> str:
        answer = await ctx.elicit_url("Please pay", "https://pay.example.com/now")
        return answer.action

    @server.tool
    async def forever(ctx: Context) -> str:
        await ctx.report_progress(1, message="waiting")
        await asyncio.Event().wait()

    server.run()
"""


@pytest.fixture
def asking(tmp_path):
    return written(tmp_path, ASKING, "asking.py")


@pytest.mark.covers("CMD-05")
def test_progress_is_a_bar_that_is_gone_at_the_end_and_stdout_has_the_result_alone(tmp_path):
    with AtTerminal("call", TRAVEL, "search", "city=Oslo", home=tmp_path, is_piped=True) as terminal:
        terminal.until("asked hotel 1 of 5")
        terminal.until("━")
        code, piped = terminal.end()
    assert (code, json.loads(piped)) == (0, ["Hotel Oslo", "Oslo Palace"])
    assert "\x1b[2K" in terminal.raw
    assert "progress:" not in terminal.screen


@pytest.mark.covers("CMD-06")
def test_a_form_is_filled_in_field_by_field_with_defaults_and_choices(tmp_path):
    with AtTerminal("call", TRAVEL, "book", "city=Oslo", home=tmp_path, is_piped=True) as terminal:
        terminal.until("travel.py asks:")
        terminal.until("  | How shall it be in Oslo?")
        terminal.answer("[2]: ", "3\n")
        terminal.until("2) fancy")
        terminal.answer("[simple]: ", "2\n")
        assert terminal.end() == (0, "Booked 3 fancy nights in Oslo.\n")


@pytest.mark.covers("CMD-06")
@pytest.mark.parametrize("mode", ["handshake", "stateless"])
def test_an_answer_that_does_not_fit_is_asked_for_again(asking, tmp_path, mode):
    with AtTerminal("call", asking, "fill", "--mode", mode, home=tmp_path, is_piped=True) as terminal:
        terminal.until("As in your passport.")
        terminal.answer("name: ", "\n")
        terminal.until("An answer is required")
        terminal.answer("name: ", "A\n")
        terminal.until("shorter than 2")
        terminal.answer("name: ", "Ada\n")
        terminal.answer("age: ", "old\n")
        terminal.until("This is not an integer.")
        terminal.answer("age: ", "36\n")
        terminal.answer("share (optional): ", "\n")
        terminal.answer("window [Y/n]: ", "perhaps\n")
        terminal.until("Answer y or n.")
        terminal.answer("window [Y/n]: ", "n\n")
        terminal.until("1) Vegan (v)")
        terminal.answer("meal: ", "Fish\n")
        terminal.until("Choose one of v, m, or its number.")
        terminal.answer("meal: ", "Meat\n")
        terminal.answer("days (optional): ", "1, wed\n")
        terminal.answer("note (optional): ", "\n")
        code, piped = terminal.end()
    filled = {"name": "Ada", "age": 36, "window": False, "meal": "m", "days": ["mon", "wed"]}
    assert (code, piped) == (0, f"accept {sorted(filled.items())}\n")


@pytest.mark.covers("CMD-06")
def test_the_end_of_the_input_declines(asking, tmp_path):
    with AtTerminal("call", asking, "fill", home=tmp_path, is_piped=True) as terminal:
        terminal.answer("name: ", "\x04")
        terminal.until("Declined.")
        assert terminal.end() == (0, "decline False\n")


@pytest.mark.covers("CMD-06")
@pytest.mark.parametrize(("answer", "action"), [("y\n", "accept"), ("\n", "decline")])
def test_a_page_is_opened_by_consent_alone(asking, tmp_path, answer, action):
    browser = tmp_path / "browser"
    browser.write_text(f"#!/bin/sh\necho $1 > {tmp_path}/visited\n")
    browser.chmod(0o700)
    with AtTerminal("call", asking, "visit", home=tmp_path, is_piped=True, BROWSER=f"{browser} %s") as terminal:
        terminal.until("The server wants you to visit pay.example.com:")
        terminal.until("https://pay.example.com/now")
        terminal.answer("Open it? [y/N] ", answer)
        assert terminal.end() == (0, f"{action}\n")
    assert (tmp_path / "visited").exists() == (action == "accept")


@pytest.mark.covers("CMD-16")
@pytest.mark.parametrize(("tool", "sign"), [("forever", "waiting"), ("fill", "name: ")])
def test_an_interrupt_ends_the_command_at_once_without_a_traceback(asking, tmp_path, tool, sign):
    with AtTerminal("call", asking, tool, home=tmp_path, is_piped=True) as terminal:
        terminal.until(sign)
        terminal.interrupt()
        assert terminal.end() == (130, "")
    assert "Traceback" not in terminal.screen


@pytest.mark.covers("CMD-18")
@pytest.mark.parametrize(
    ("options", "variables", "coloured"), [([], {}, True), (["--no-color"], {}, False), ([], {"NO_COLOR": "1"}, False)]
)
def test_colours_are_for_terminals_that_want_them(tmp_path, options, variables, coloured):
    with AtTerminal("list", TRAVEL, *options, home=tmp_path, **variables) as terminal:
        assert terminal.end()[0] == 0
    assert ("\x1b[1m" in terminal.raw) == coloured
    assert "\x1b" not in dragoman("list", TRAVEL, *options, home=tmp_path, **variables).out


@pytest.mark.covers("CMD-05", "CMD-06", "CMD-21")
def test_the_server_everything_shows_a_bar_and_asks_its_form(tmp_path, everything):
    slow = ["trigger-long-running-operation", "duration=1", "steps=4"]
    with AtTerminal("call", *slow, *everything, home=tmp_path, is_piped=True) as terminal:
        terminal.until("━")
        terminal.until("/4")
        code, piped = terminal.end()
    assert (code, "completed" in piped) == (0, True)
    with AtTerminal("call", "trigger-elicitation-request", *everything, home=tmp_path, is_piped=True) as terminal:
        terminal.until(" asks:")
        terminal.answer("String: ", "Ada\n")
        terminal.answer(": ", "\x04")
        code, piped = terminal.end()
    assert (code, "declined" in piped) == (0, True)


@pytest.mark.parametrize("verb", ["list", "doctor"])
def test_a_person_who_waits_for_a_connection_is_told_what_for(tmp_path, verb):
    with AtTerminal(verb, "--", "sleep", "60", home=tmp_path) as there:
        there.until("waiting for the server to start and answer: sleep 60")
        there.interrupt()
        assert there.end()[0] == 130


@pytest.mark.covers("CMD-04", "CMD-21")
def test_the_server_everything_is_listed_called_and_read(tmp_path, everything):
    listed = dragoman("list", *everything, home=tmp_path)
    assert listed.code == 0
    assert "  get-sum(a: number, b: number) [reads only]  Returns the sum of two numbers\n" in listed.out
    assert "  trigger-elicitation-request()" in listed.out
    assert (
        dragoman("call", "get-sum", "a=2", "b=3.5", *everything, home=tmp_path).out == "The sum of 2 and 3.5 is 5.5.\n"
    )
    shown = dragoman("call", "get-structured-content", "location=Chicago", *everything, home=tmp_path)
    assert json.loads(shown.out)["temperature"] == 36
    pictured = dragoman("call", "get-tiny-image", *everything, home=tmp_path, cwd=tmp_path)
    assert "get-tiny-image-1.png (image/png" in pictured.out
    assert (tmp_path / "get-tiny-image-1.png").read_bytes().startswith(b"\x89PNG")
    completed = dragoman("complete", "prompt", "completable-prompt", "department", "E", *everything, home=tmp_path)
    assert completed.out == "Engineering\n"
    assert dragoman("doctor", *everything, home=tmp_path).code == 0


LONG = """
    from dragoman import Server

    server = Server("long")

    @server.tool
    def forecast(city: str) -> str:
        \"\"\"Weather.

        Args:
            city: Where the weather is wanted, by the name that the people who live there give it, in Latin letters
                and without accents, because the service behind this tool knows no others.
        \"\"\"
        return city
"""


@pytest.mark.covers("CMD-01")
def test_what_a_tool_says_about_its_parameters_is_wrapped_at_words_on_a_terminal(tmp_path):
    path = written(tmp_path, LONG)
    with AtTerminal("list", path, home=tmp_path) as there:
        assert there.end()[0] == 0
    lines = there.screen.splitlines()
    assert lines[1] == "  forecast(city: string)  Weather."
    assert lines[2].startswith("      - city: Where the weather")
    assert lines[3].startswith("        | ")
    assert max(map(len, lines)) <= 100
    (whole,) = dragoman("list", path, home=tmp_path).out.splitlines()[2:]
    assert " ".join(line.replace("        | ", "").strip() for line in lines[2:]) == whole.strip()
