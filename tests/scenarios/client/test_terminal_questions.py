"""Handlers that ask by `input` at a real terminal: one question at a time, each with its own answer."""

from pathlib import Path

import pytest

from scenarios.command_line import AtTerminal

PROGRAM = Path(__file__).parents[1] / "asking_program.py"
GONE, DENIED = "[{} is gone]", "Tool call was cancelled by the client"


@pytest.fixture(params=["handshake", "stateless"])
def mode(request):
    return request.param


def asking(part, mode):
    return AtTerminal(part, mode, script=PROGRAM)


@pytest.mark.covers("HIL-01", "CHAT-08")
@pytest.mark.parametrize("part", ["chat", "chat_stream", "async_chat"])
def test_each_approval_gets_its_own_answer_in_the_order_of_the_calls(part, mode):
    with asking(part, mode) as at:
        at.answer("delete a.tmp? ", "yes\n")
        at.answer("delete b.tmp? ", "yes\n")
        at.answer("delete thesis.doc? ", "no\n")
        for text in ("[a.tmp is gone]", "[b.tmp is gone]", DENIED):
            at.until(text)
        assert at.end()[0] == 0
    assert at.screen.count("? ") == 3


@pytest.mark.covers("HIL-01")
def test_approvals_of_a_client_are_asked_one_at_a_time(mode):
    with asking("client_approval", mode) as at:
        for name, answer in (("b.tmp", "yes"), ("thesis.doc", "no"), ("a.tmp", "yes")):
            at.answer(f"delete {name}? ", f"{answer}\n")
        for text in ("[b.tmp is gone]", DENIED, "[a.tmp is gone]"):
            at.until(text)
        assert at.end()[0] == 0


@pytest.mark.covers("LEL-01")
def test_elicitations_of_a_client_are_asked_one_at_a_time(mode):
    with asking("client_elicitation", mode) as at:
        at.answer("Survey 1: ", "first\n")
        at.answer("Survey 2: ", "second\n")
        at.until("[survey: [{'line': 'first'}, {'line': 'second'}]]")
        assert at.end()[0] == 0


SURVEY = {"survey ? ": "yes", "delete a.tmp? ": "yes", "Survey 1: ": "first", "Survey 2: ": "second"}
SURVEYED = "[survey: [{'line': 'first'}, {'line': 'second'}]]"
POEM = {"poem ? ": "yes", "delete a.tmp? ": "yes", "Sample? ": "yes"}


@pytest.mark.parametrize(
    ("part", "answers", "result"),
    [
        ("chat_and_survey", SURVEY, SURVEYED),
        ("async_client", SURVEY, SURVEYED),
        ("chat_and_guard", POEM, "[poem: Waves.]"),
    ],
)
def test_approvals_elicitations_and_guards_take_turns(part, answers, result, mode):
    with asking(part, mode) as at:
        questions = list(answers)
        while questions:
            question = at.until_any(*questions)
            questions.remove(question)
            assert not any(other in at.screen.rpartition(question)[2] for other in questions)
            at.type(f"{answers[question]}\n")
        at.until(result)
        at.until("[a.tmp is gone]")
        assert at.end()[0] == 0


@pytest.mark.covers("HIL-05")
@pytest.mark.parametrize(
    ("part", "question"),
    [
        ("chat", "delete a.tmp? "),
        ("chat_stream", "delete a.tmp? "),
        ("async_chat", "delete a.tmp? "),
        ("client_approval", "delete b.tmp? "),
        ("started_call", "delete a.tmp? "),
        ("client_elicitation", "Survey 1: "),
        ("async_client", "survey ? "),
    ],
)
def test_interrupt_withdraws_every_question(part, question, mode):
    with asking(part, mode) as at:
        at.until(question)
        at.interrupt()
        at.until("<interrupted>")
        at.answer("next: ", "first line\n")
        at.until("<first line>")
        at.answer("last: ", "second line\n")
        at.until("<second line>")
        assert at.end()[0] == 0
    after = at.screen.partition("<interrupted>")[2]
    assert "? " not in after
    assert "Survey" not in after


@pytest.mark.covers("HIL-05")
def test_question_that_timed_out_takes_no_later_line():
    with asking("chat_with_timeout", "stateless") as at:
        at.until("delete a.tmp? ")
        at.until("nobody decided within 1 seconds")
        at.answer("next: ", "first line\n")
        at.until("<first line>")
        at.answer("last: ", "second line\n")
        at.until("<second line>")
        assert at.end()[0] == 0
