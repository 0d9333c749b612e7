import asyncio
import logging
import threading

import pytest

from dragoman import ToolError, types
from dragoman.client.answer.approval import Approval, decide
from scenarios.http_peer import DEADLINE, scenario

DENIED = r"^Tool call was cancelled by the client$"


def approval(**arguments):
    return Approval("delete", arguments, server="files")


class Later:
    """A handler that keeps what it is asked, to be decided by others."""

    def __init__(self):
        self.asked = asyncio.Event()

    async def __call__(self, call):
        self.call = call
        self.asked.set()
        return call


def test_an_approval_says_what_is_to_be_called():
    tool = types.Tool(name="delete", input_schema={"type": "object"})
    call = Approval("delete", {"path": "/a"}, tool=tool, server="files", id="1")
    assert (call.name, call.arguments, call.tool, call.server, call.id) == (
        "delete",
        {"path": "/a"},
        tool,
        "files",
        "1",
    )
    assert repr(call) == "<Approval of 'delete' with {'path': '/a'}>"


def test_each_approval_has_an_id_of_its_own():
    assert approval().id != approval().id
    assert Approval("ping").arguments == {}


@pytest.mark.covers("HIL-01")
@scenario
async def test_a_plain_function_approves_or_denies_in_a_thread():
    threads = []

    def ask(call):
        threads.append(threading.current_thread())
        return call.arguments["path"] == "/tmp/a"

    await decide(ask, approval(path="/tmp/a"), None)
    with pytest.raises(ToolError, match=DENIED):
        await decide(ask, approval(path="/etc"), None)
    assert threading.current_thread() not in threads


class Executing:
    def execute(self, call):
        return True


class Calling:
    async def __call__(self, call):
        return True


async def in_the_loop(call):
    await asyncio.sleep(0)
    return threading.current_thread() is threading.main_thread()


@pytest.mark.covers("HIL-01", "HIL-03", "LHD-01")
@pytest.mark.parametrize(
    "handler",
    [Executing(), Calling(), in_the_loop, lambda call: in_the_loop(call), lambda call: call.approve() and None],
    ids=["execute", "call", "async", "awaitable", "approved by itself"],
)
def test_a_handler_of_any_kind_approves(handler):
    asked = approval()
    asyncio.run(decide(handler, asked, DEADLINE))
    assert asked.approved


@pytest.mark.covers("HIL-04")
@pytest.mark.parametrize("answer", [None, 1, "yes", {"status": "approved"}, [], object()])
def test_what_is_neither_true_nor_false_denies_with_a_warning(answer, caplog):
    with pytest.raises(ToolError, match=DENIED):
        asyncio.run(decide(lambda call: answer, approval(), DEADLINE))
    assert "return True, False, or the approval itself" in caplog.text


@pytest.mark.covers("HIL-04")
@scenario
async def test_another_approval_is_no_approval():
    other = approval()
    other.approve()
    with pytest.raises(ToolError, match=DENIED):
        await decide(lambda call: other, approval(), None)


@pytest.mark.covers("HIL-04", "LHD-04")
def test_a_handler_that_fails_denies_and_is_logged(caplog):
    def ask(call):
        raise ValueError("the secret cause")

    with pytest.raises(ToolError, match=DENIED):
        asyncio.run(decide(ask, approval(), DEADLINE))
    assert [(record.name, record.levelno) for record in caplog.records] == [("dragoman.client", logging.ERROR)]
    assert "the secret cause" in caplog.text


@pytest.mark.covers("HIL-04")
@scenario
async def test_a_handler_that_approves_and_then_fails_denies():
    def ask(call):
        call.approve()
        raise ValueError

    with pytest.raises(ToolError, match=DENIED):
        await decide(ask, approval(), None)


@pytest.mark.covers("HIL-03")
@scenario
async def test_a_reason_is_told_to_the_caller():
    def ask(call):
        call.deny("that is not yours")

    with pytest.raises(ToolError, match=r"^Tool call was cancelled by the client: that is not yours$"):
        await decide(ask, approval(), None)


@scenario
async def test_a_handler_that_denied_cannot_return_true():
    def ask(call):
        call.deny("no")
        return True

    with pytest.raises(ToolError, match="no"):
        await decide(ask, approval(), None)


@pytest.mark.covers("HIL-05")
@scenario
async def test_a_deferred_call_waits_until_another_thread_approves():
    later = Later()
    deciding = asyncio.create_task(decide(later, approval(), DEADLINE))
    await later.asked.wait()
    assert not later.call.decided
    thread = threading.Thread(target=later.call.approve)
    thread.start()
    await deciding
    thread.join(DEADLINE)
    assert later.call.approved


@pytest.mark.covers("HIL-05")
@scenario
async def test_a_deferred_call_waits_until_another_task_denies():
    later = Later()
    deciding = asyncio.create_task(decide(later, approval(), DEADLINE))
    await later.asked.wait()
    later.call.deny("not today")
    with pytest.raises(ToolError, match="not today"):
        await deciding


@pytest.mark.covers("HIL-05", "LHD-05")
@scenario
async def test_a_deferred_call_that_nobody_decides_is_denied_in_the_end():
    later = Later()
    with pytest.raises(ToolError, match=r"nobody decided within 0\.01 seconds"):
        await decide(later, approval(), 0.01)
    assert not later.call.approve()
    assert not later.call.approved


@pytest.mark.covers("HIL-05", "LHD-05")
@scenario
async def test_a_handler_that_blocks_is_not_waited_for_longer_than_allowed():
    released = threading.Event()

    def ask(call):
        return released.wait(DEADLINE)

    try:
        with pytest.raises(ToolError, match="nobody decided"):
            await decide(ask, approval(), 0.01)
    finally:
        released.set()


@scenario
async def test_a_call_that_is_given_up_cannot_be_approved_any_more():
    later = Later()
    deciding = asyncio.create_task(decide(later, approval(), None))
    await later.asked.wait()
    deciding.cancel()
    with pytest.raises(asyncio.CancelledError):
        await deciding
    assert later.call.decided
    assert not later.call.approve()


@pytest.mark.covers("LHD-06")
def test_a_call_is_decided_once_whoever_races():
    for _ in range(50):
        call = approval()
        outcomes = []
        start = threading.Barrier(4)

        def race(decision, outcomes=outcomes, start=start):
            start.wait(DEADLINE)
            outcomes.append((decision, decision()))

        threads = [threading.Thread(target=race, args=(way,)) for way in (call.approve, call.deny) * 2]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(DEADLINE)
        winners = [decision for decision, won in outcomes if won]
        assert len(winners) == 1
        assert call.approved == (winners[0] == call.approve)


@scenario
async def test_the_arguments_that_were_approved_are_those_that_are_sent():
    given = {"paths": ["/a"]}
    call = Approval("delete", given)

    def ask(call):
        given["paths"].append("/etc")
        call.arguments["paths"].append("/etc")
        call.arguments["force"] = True
        return call.arguments == {"paths": ["/a"]}

    await decide(ask, call, None)
    assert call.arguments == {"paths": ["/a"]}
    with pytest.raises(AttributeError):
        call.arguments = {}


@pytest.mark.covers("LHD-07")
@pytest.mark.parametrize("handler", [5, "yes", Later, object()])
def test_what_cannot_be_called_is_refused(handler):
    with pytest.raises(TypeError, match="on_approval must be a function"):
        asyncio.run(decide(handler, approval(), None))
