"""What a model may call by itself, what somebody must approve of, and what it may not call."""

import asyncio
import threading

import pytest

from dragoman import AsyncChat, AsyncClient, Chat, Client, NotFound
from dragoman.chat import Policy, ToolCall
from dragoman.errors import DragomanError
from dragoman.testing import ScriptedModel
from scenarios.chat_checks import DEADLINE, assert_valid, call, give_up

ASK = Policy(ask=["demolish"])
CANCELLED = "Error: Tool call was cancelled by the client"


def talk(town, on_approval=None, policy=ASK, wanted=None, **options):
    """Let a model want a house to be torn down, and return what came of it."""
    model = ScriptedModel(wanted or call("demolish", house="No. 3"), "Well.")
    with Client(town.server) as client:
        chat = Chat(model, policy=policy, on_approval=on_approval, **options).with_tools(client)
        [result] = chat.ask("Tear it down").tool_results
        assert_valid(chat.messages)
        return result


@pytest.mark.covers("CHAT-08")
def test_what_must_be_approved_of_is_not_called_where_nobody_is_there_to_do_it(town):
    result = talk(town)
    assert result.is_error
    assert result.text == f"{CANCELLED}: no approval handler is configured"
    assert town.called == []


@pytest.mark.covers("CHAT-07")
@pytest.mark.parametrize("pattern", ["demolish", "town__demolish", "demo*", "town__*"])
def test_what_the_policy_denies_is_not_called_whoever_approves(town, pattern):
    result = talk(town, lambda approval: True, Policy(deny=[pattern]))
    assert result.text == "Error: This tool may not be called"
    assert town.called == []


@pytest.mark.covers("HIL-01")
@pytest.mark.parametrize("kind", ["plain", "async", "deferred", "thread"])
@pytest.mark.parametrize("approved", [True, False])
def test_a_handler_decides_at_once_or_later(town, kind, approved):
    def decide(approval):
        return approval.approve() if approved else approval.deny("it is listed")

    async def asynchronous(approval):
        return approved

    def deferred(approval):
        asyncio.run_coroutine_threadsafe(later(approval), loop_of_the_chat[0])
        return approval

    async def later(approval):
        decide(approval)

    def from_a_thread(approval):
        threading.Timer(0, decide, [approval]).start()
        return approval

    from dragoman.runtime.portal import portal

    loop_of_the_chat = [portal().loop]
    handlers = {
        "plain": lambda approval: approved,
        "async": asynchronous,
        "deferred": deferred,
        "thread": from_a_thread,
    }
    result = talk(town, handlers[kind])
    assert result.is_error is not approved
    assert result.text == "No. 3 is gone" if approved else result.text.startswith(CANCELLED)
    assert town.called == (["No. 3 None"] if approved else [])


@pytest.mark.covers("HIL-05")
def test_nobody_deciding_in_time_denies(town):
    result = talk(town, lambda approval: approval, approval_timeout=0.05)
    assert result.text == f"{CANCELLED}: nobody decided within 0.05 seconds"


@pytest.mark.covers("CHAT-18")
def test_what_is_called_is_exactly_what_was_approved_of(town):
    def decide(approval):
        seen.append(approval.arguments)
        approval.arguments["house"] = "the town hall"
        seen[0]["floors"].append(99)
        approval.tool = None
        return True

    seen = []
    wanted = call("demolish", house="No. 3", floors="[1, 2]")
    assert not talk(town, decide, wanted=wanted).is_error
    assert town.called == ["No. 3 [1, 2]"]


def test_an_approval_tells_what_is_to_be_called(town):
    def decide(approval):
        seen.append((approval.name, approval.arguments, approval.server, approval.id, approval.tool.description))
        return True

    seen = []
    talk(town, decide)
    assert seen == [("demolish", {"house": "No. 3"}, "town", "id-demolish", "Tears a house down.")]


@pytest.mark.covers("CHAT-09")
@pytest.mark.parametrize("trusted", [True, False])
def test_a_server_is_believed_that_it_only_reads_if_it_is_trusted(town, trusted):
    policy = Policy(annotations=True, default="deny")
    with Client(town.server, trusted=trusted) as client:
        wanted = [call("weather", city="Oslo"), call("demolish", house="No. 3")]
        chat = Chat(ScriptedModel(wanted, "Well."), policy=policy).with_tools(client)
        weather, demolish = chat.ask("Go").tool_results
    assert weather.is_error is not trusted
    assert demolish.text == (
        f"{CANCELLED}: no approval handler is configured" if trusted else "Error: This tool may not be called"
    )


@pytest.mark.covers("CHAT-07")
def test_a_function_decides_by_the_arguments(town):
    policy = Policy(deny=lambda tool, arguments: arguments.get("house") == "the town hall")
    assert not talk(town, policy=policy).is_error
    assert talk(town, policy=policy, wanted=call("demolish", house="the town hall")).is_error
    assert town.called == ["No. 3 None"]


@pytest.mark.covers("CHAT-08")
def test_a_rule_that_fails_denies_and_the_conversation_goes_on(town, caplog):
    result = talk(town, policy=Policy(allow=lambda tool, arguments: 1 / 0))
    assert result.text == "Error: This tool may not be called"
    assert "A rule of the policy failed" in caplog.text


def test_a_client_that_has_its_own_approval_is_asked_too(town):
    with Client(town.server, on_approval=lambda approval: False) as client:
        chat = Chat(ScriptedModel(call("weather", city="Oslo"), "Well.")).with_tools(client)
        result = chat.ask("Go").tool_results[0]
        assert (result.is_error, f"Error: {result.text}") == (True, CANCELLED)


@pytest.mark.covers("CHAT-19")
async def test_a_conversation_is_led_step_by_step(town, era):
    async with AsyncClient(town.server, mode=era) as client:
        wanted = [call("demolish", house="No. 3"), call("weather", city="Oslo")]
        chat = AsyncChat(ScriptedModel(wanted, "Done."), policy=ASK).with_tools(client)
        step = await chat.step("Tear it down")
        assert (step.kind, step.is_last) == ("answer", False)
        assert [pending.call.id for pending in step.pending] == ["id-demolish", "id-weather"]
        assert [pending.call for pending in step.pending] == step.message.tool_calls
        assert chat.pending_tool_calls == step.pending
        step = await chat.step()
        assert step.kind == "waiting"
        assert [pending.call.name for pending in step.pending] == ["demolish"]
        assert town.called == []
        assert chat.approve(step.pending[0])
        assert not chat.approve("id-demolish")
        step = await chat.step()
        assert step.kind == "tools"
        assert step.tool_results[0].text == "No. 3 is gone"
        assert chat.pending_tool_calls == []
        step = await chat.step()
        assert (step.kind, step.is_last, step.message.text) == ("answer", True, "Done.")
        assert_valid(chat.messages)


@pytest.mark.covers("CHAT-19")
def test_calls_are_denied_by_their_ids_also_those_that_the_policy_allows(town):
    with Client(town.server) as client:
        wanted = [call("demolish", house="No. 3"), call("weather", city="Oslo")]
        chat = Chat(ScriptedModel(wanted, "Then not."), policy=ASK).with_tools(client)
        chat.step("Tear it down")
        assert chat.deny("id-demolish", "it is listed")
        assert chat.deny("id-weather")
        step = chat.step()
        assert [result.text for result in step.tool_results] == [f"{CANCELLED}: it is listed", CANCELLED]
        assert town.called == []
        assert chat.step().is_last


def test_what_was_not_asked_for_cannot_be_decided(town):
    with Client(town.server) as client:
        chat = Chat(ScriptedModel(call("demolish", house="x")), policy=Policy(deny="*")).with_tools(client)
        chat.step("Tear it down")
        with pytest.raises(NotFound, match="id-demolish"):
            chat.approve("id-demolish")
        with pytest.raises(NotFound):
            chat.deny("another")


@pytest.mark.covers("CHAT-04")
def test_calls_that_wait_are_given_up_when_something_else_is_said(town):
    with Client(town.server) as client:
        chat = Chat(ScriptedModel(call("demolish", house="No. 3"), "Never mind."), policy=ASK).with_tools(client)
        pending = chat.step("Tear it down").pending
        with pytest.raises(ValueError, match="ask\\(\\) gives them up"):
            chat.step("Or rather not")
        assert str(chat.ask("Leave it")) == "Never mind."
        assert_valid(chat.messages)
        assert chat.pending_tool_calls == []
        with pytest.raises(NotFound):
            chat.approve(pending[0])
    assert town.called == []


async def test_a_turn_that_is_given_up_while_somebody_decides_calls_nothing(town):
    asked = asyncio.Event()

    async def wait(approval):
        asked.set()
        approvals.append(approval)
        return approval

    approvals = []
    async with AsyncClient(town.server) as client:
        model = ScriptedModel(call("demolish", house="No. 3"), "Fine.")
        chat = AsyncChat(model, policy=ASK, on_approval=wait).with_tools(client)
        turn = asyncio.create_task(chat.ask("Tear it down"))
        await asyncio.wait_for(asked.wait(), DEADLINE)
        await give_up(turn)
        assert not approvals[0].approve()
        assert chat.messages[-1].text == "Error: The call was given up before it was made"
        assert_valid(chat.messages)
        assert str(await chat.ask("Leave it")) == "Fine."
    assert town.called == []


def test_a_handler_that_talks_to_its_own_chat_is_told_that_it_cannot(town, caplog):
    def decide(approval):
        try:
            chat.ask("May it?")
        except DragomanError as error:
            errors.append(str(error))
        return True

    errors = []
    with Client(town.server) as client:
        chat = Chat(ScriptedModel(call("demolish", house="No. 3"), "Done."), policy=ASK, on_approval=decide)
        assert str(chat.with_tools(client).ask("Tear it down")) == "Done."
        assert_valid(chat.messages)
    assert "A turn of this chat still runs" in errors[0]


@pytest.mark.parametrize("is_parallel", [False, True])
async def test_approvals_are_asked_one_at_a_time_in_the_order_of_the_calls(town, is_parallel):
    houses, running, most = [], 0, 0
    barrier = asyncio.Barrier(3 if is_parallel else 1)

    async def on_approval(approval):
        nonlocal running, most
        houses.append(approval.arguments["house"])
        running, most = running + 1, max(most, running + 1)
        await asyncio.wait_for(barrier.wait(), DEADLINE)
        running -= 1
        return True

    calls = [ToolCall(str(number), "demolish", {"house": f"No. {number}"}) for number in range(3)]
    async with AsyncClient(town.server) as client:
        options = {"policy": ASK, "on_approval": on_approval, "parallel_approvals": is_parallel}
        reply = await AsyncChat(ScriptedModel(calls, "Done."), **options).with_tools(client).ask("Go")
    assert not any(result.is_error for result in reply.tool_results)
    assert (houses, most) == (["No. 0", "No. 1", "No. 2"], 3 if is_parallel else 1)


def test_parallel_approvals_must_be_a_boolean():
    with pytest.raises(TypeError, match="parallel_approvals must be True or False"):
        Chat(ScriptedModel(), parallel_approvals="yes")
    with pytest.raises(TypeError, match="parallel_approvals must be True or False"):
        Client(["true"], parallel_approvals=1)
