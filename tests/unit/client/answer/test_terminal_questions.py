"""Questions that a thread asks by `input`, while stdin is a real terminal."""

import asyncio
import os
import pty
import sys
import threading

import pytest

from dragoman.client.answer.callbacks import call_handler
from dragoman.client.answer.terminal_questions import TerminalQuestion, ask_person
from dragoman.errors import Cancelled
from dragoman.runtime.portal import INTERRUPTS
from scenarios.http_peer import DEADLINE, scenario


@pytest.fixture
def keyboard(monkeypatch):
    """Make stdin a terminal, and return the descriptor at which a person types."""
    own, theirs = pty.openpty()
    with open(theirs, encoding="utf-8") as stdin:  # noqa: PTH123
        monkeypatch.setattr(sys, "stdin", stdin)
        yield own
    os.close(own)


async def until(condition):
    async with asyncio.timeout(DEADLINE):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.001)


@scenario
async def test_input_returns_the_line_that_is_typed(keyboard):
    stdin = sys.stdin
    asking = asyncio.create_task(ask_person(call_handler, lambda: (input("Name? "), sys.stdin.isatty())))
    await until(lambda: sys.stdin is not stdin)
    os.write(keyboard, b"J\xc3\xb8rgen\n")
    assert await asyncio.wait_for(asking, DEADLINE) == ("Jørgen", True)
    assert sys.stdin is stdin


@scenario
async def test_end_of_input_raises_eof_error(keyboard):
    asking = asyncio.create_task(ask_person(call_handler, lambda: input("Name? ")))
    os.write(keyboard, b"\x04")
    with pytest.raises(EOFError):
        await asyncio.wait_for(asking, DEADLINE)


@scenario
async def test_stdin_can_be_read_line_by_line(keyboard):
    asking = asyncio.create_task(ask_person(call_handler, lambda: next(iter(sys.stdin))))
    os.write(keyboard, b"a line\n")
    assert await asyncio.wait_for(asking, DEADLINE) == "a line\n"


@scenario
async def test_cancelled_question_leaves_the_line_to_others(keyboard):
    stdin, raised = sys.stdin, []

    def ask():
        try:
            input("Sure? ")
        except Cancelled as error:
            raised.append(error)

    asking = asyncio.create_task(ask_person(call_handler, ask))
    await until(lambda: sys.stdin is not stdin)
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    os.write(keyboard, b"for another\n")
    await until(lambda: raised and sys.stdin is stdin)
    assert stdin.readline() == "for another\n"


@scenario
async def test_interrupt_withdraws_open_and_waiting_questions(keyboard):
    stdin, called = sys.stdin, []

    def ask(number):
        called.append(number)
        return input("Sure? ")

    asking = [asyncio.create_task(ask_person(call_handler, ask, number)) for number in range(3)]
    await until(lambda: sys.stdin is not stdin)
    INTERRUPTS.notify()
    outcomes = await asyncio.wait_for(asyncio.gather(*asking, return_exceptions=True), DEADLINE)
    assert [str(outcome) for outcome in outcomes] == ["The question was withdrawn"] * 3
    assert called == [0]
    assert not INTERRUPTS.callbacks


@scenario
async def test_other_threads_read_the_terminal_while_a_question_is_open(keyboard):
    stdin, lines = sys.stdin, []
    released = threading.Event()
    asking = asyncio.create_task(ask_person(call_handler, released.wait, DEADLINE))
    await until(lambda: sys.stdin is not stdin)
    os.write(keyboard, b"mine\n")
    reader = threading.Thread(target=lambda: lines.append(input()))
    reader.start()
    reader.join(DEADLINE)
    released.set()
    assert await asyncio.wait_for(asking, DEADLINE)
    assert lines == ["mine"]


@scenario
async def test_question_within_a_question_does_not_wait_for_its_turn(keyboard):
    def ask():
        return asyncio.run(ask_person(call_handler, lambda: "inner"))

    assert await asyncio.wait_for(ask_person(call_handler, ask), DEADLINE) == "inner"


@scenario
async def test_async_handlers_do_not_take_turns(keyboard):
    barrier = asyncio.Barrier(2)

    async def ask():
        await asyncio.wait_for(barrier.wait(), DEADLINE)

    await asyncio.gather(ask_person(call_handler, ask), ask_person(call_handler, ask))


def test_withdrawn_question_is_not_asked(keyboard):
    question = TerminalQuestion()
    question.withdraw()
    with pytest.raises(Cancelled):
        question.ask(pytest.fail)
