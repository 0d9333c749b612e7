import asyncio
import json
import logging
import threading
import time
from base64 import b64encode

import pytest

from dragoman import InvalidParams, RpcError, types
from dragoman.client.answer.sampling import Rejected, Sampling, SamplingRequest, result_of
from dragoman.errors import InternalError
from scenarios.http_peer import DEADLINE, scenario

HELLO = types.SamplingMessage("user", types.TextContent("Hello"))
TEXT = {"type": "text", "text": "Hello"}
TOOL_USE = {"type": "tool_use", "id": "1", "name": "add", "input": {}}
TOOL_RESULT = {"type": "tool_result", "toolUseId": "1", "content": []}


def request(*hints, **said):
    preferences = types.ModelPreferences(hints=[types.ModelHint(name=hint) for hint in hints]) if hints else None
    return SamplingRequest(messages=[HELLO], max_tokens=10, model_preferences=preferences, **said)


def params(*contents, **said):
    messages = [{"role": "user", "content": content} for content in contents or (TEXT,)]
    return json.dumps({"messages": messages, "maxTokens": 10, **said}).encode()


def said(text, model="unknown"):
    return types.CreateMessageResult("assistant", types.TextContent(text), model, stop_reason="endTurn")


def model_of(request):
    return request.model or "none"


async def refusal(sampling, asked=None):
    with pytest.raises(RpcError) as caught:
        await sampling.answer(asked or request())
    return caught.value.code, caught.value.message


@pytest.mark.covers("LSA-06")
def test_a_request_has_everything_that_the_server_said():
    tool = {"name": "add", "inputSchema": {"type": "object"}}
    asked = Sampling(print, tools=True).read(
        params(
            TEXT,
            [TEXT, {"type": "image", "data": "", "mimeType": "image/png"}],
            systemPrompt="Be brief",
            temperature=0.5,
            stopSequences=["."],
            modelPreferences={"hints": [{"name": "small"}, {}, {"name": "large"}], "costPriority": 1},
            includeContext="thisServer",
            tools=[tool],
            toolChoice={"mode": "auto"},
            metadata={"a": 1},
        ),
        "weather",
    )
    assert asked.message == "Hello\nHello"
    assert asked.hints == ["small", "large"]
    assert (asked.system_prompt, asked.max_tokens, asked.temperature) == ("Be brief", 10, 0.5)
    assert (asked.stop_sequences, asked.include_context, asked.metadata) == (["."], "thisServer", {"a": 1})
    assert asked.model_preferences.cost_priority == 1
    assert asked.tools == [types.Tool(name="add", input_schema={"type": "object"})]
    assert asked.tool_choice == types.ToolChoice(mode="auto")
    assert (asked.server, asked.model) == ("weather", None)


def test_a_request_without_preferences_has_no_hints():
    assert request().hints == []


@pytest.mark.parametrize(
    "malformed",
    [
        b"",
        b"{}",
        b"nonsense",
        params(5),
        params(TEXT, maxTokens="many"),
        params(TEXT, tools=[{"name": 5}]),
        params([TOOL_RESULT, TEXT]),
        params(TOOL_RESULT),
        params(TOOL_USE),
        params(TOOL_USE, TEXT),
        params(TOOL_USE, {**TOOL_RESULT, "toolUseId": "2"}),
    ],
)
def test_parameters_that_do_not_fit_are_refused(malformed):
    with pytest.raises(InvalidParams):
        Sampling(print, tools=True).read(malformed)


def test_tool_uses_that_are_answered_are_let_through():
    asked = Sampling(print).read(params(TEXT, TOOL_USE, TOOL_RESULT))
    assert len(asked.messages) == 3


def test_content_of_an_unknown_kind_is_let_through():
    asked = Sampling(print).read(params({"type": "smell", "strength": 3}))
    assert asked.messages[0].content["strength"] == 3
    assert asked.message == ""


@pytest.mark.parametrize("offered", [{"tools": []}, {"toolChoice": {"mode": "none"}}])
def test_tools_that_were_not_declared_are_refused(offered):
    with pytest.raises(InvalidParams, match="does not take tools"):
        Sampling(print).read(params(**offered))


def test_tools_and_context_are_declared_where_the_handler_takes_them():
    assert Sampling(print).capability() == types.SamplingCapability()
    assert Sampling(print, tools=True, context=True).capability() == types.SamplingCapability(tools={}, context={})


@pytest.mark.covers("CSR-03", "LSA-07")
@pytest.mark.parametrize(
    ("answer", "result"),
    [
        ("Hi", said("Hi", "small")),
        (said("Hi", "mine"), said("Hi", "mine")),
        ({"content": "Hi"}, said("Hi", "small")),
        (TEXT, said("Hello", "small")),
        (types.TextContent("Hi"), said("Hi", "small")),
        (
            {"role": "user", "content": TEXT, "model": "mine", "stopReason": "maxTokens"},
            types.CreateMessageResult("user", types.TextContent("Hello"), "mine", stop_reason="maxTokens"),
        ),
        (
            {"content": [TEXT], "stop_reason": "stopSequence", "meta": {"a": 1}},
            types.CreateMessageResult(
                "assistant", [types.TextContent("Hello")], "small", stop_reason="stopSequence", meta={"a": 1}
            ),
        ),
        (
            ["Hi", types.ImageContent("", "image/png")],
            types.CreateMessageResult(
                "assistant",
                [types.TextContent("Hi"), types.ImageContent("", "image/png")],
                "small",
                stop_reason="endTurn",
            ),
        ),
        (
            [TOOL_USE],
            types.CreateMessageResult(
                "assistant", [types.ToolUseContent("1", "add", {})], "small", stop_reason="toolUse"
            ),
        ),
        (
            types.UnknownContent(type="smell", content=3),
            types.CreateMessageResult(
                "assistant", types.UnknownContent(type="smell", content=3), "small", stop_reason="endTurn"
            ),
        ),
    ],
)
def test_a_message_is_made_of_what_the_handler_returns(answer, result):
    assert result_of(request(model="small"), answer) == result


def test_a_model_that_is_not_known_is_said_to_be_so():
    assert result_of(request(), "Hi").model == "unknown"


@pytest.mark.parametrize(
    "answer",
    [None, True, 5, [], [[]], {}, {"text": "Hi"}, {"content": "Hi", "role": "judge"}, {"content": 5}, "\ud800"],
)
def test_what_is_no_message_is_one_error(answer, caplog):
    code, message = asyncio.run(refusal(Sampling(lambda asked: answer)))
    assert (code, message) == (InternalError.CODE, "Error executing sampling request")
    assert len(caplog.records) == 1


@pytest.mark.covers("LSA-09")
@scenario
async def test_handlers_are_functions_or_objects_plain_or_async():
    class Executing:
        async def execute(self, asked):
            return asked.message

    class Calling:
        def __call__(self, asked):
            return asked.message

    async def completing(asked):
        return asked.message

    for handler in (Executing(), Calling(), completing, lambda asked: asked.message):
        assert await Sampling(handler).answer(request()) == said("Hello")


@scenario
async def test_a_plain_handler_runs_in_a_thread():
    thread = await Sampling(lambda asked: threading.current_thread().name).answer(request())
    assert thread.text != threading.current_thread().name


@pytest.mark.covers("CSR-03", "LSA-09")
@scenario
async def test_a_request_that_the_user_refuses_has_the_code_minus_one():
    def refuse(asked):
        raise Rejected("Not now")

    assert await refusal(Sampling(refuse)) == (-1, "Not now")
    assert str(Rejected()) == "Sampling request was rejected"


@pytest.mark.covers("CSR-01")
@scenario
async def test_an_error_for_the_server_reaches_it_as_it_is():
    def refuse(asked):
        raise RpcError(-31999, "The model sleeps")

    assert await refusal(Sampling(refuse)) == (-31999, "The model sleeps")


@pytest.mark.covers("LSA-05", "LHD-04")
@pytest.mark.parametrize("failing", ["complete", "guard"])
def test_a_failure_is_one_error_that_tells_nothing_of_its_cause(failing, caplog):
    def fail(asked):
        raise ValueError("the secret cause")

    options = {"guard": fail} if failing == "guard" else {}
    sampling = Sampling(fail if failing == "complete" else model_of, **options)
    assert asyncio.run(refusal(sampling)) == (InternalError.CODE, "Error executing sampling request")
    assert [(record.name, record.levelno) for record in caplog.records] == [("dragoman.client", logging.ERROR)]
    assert "the secret cause" in caplog.text


@pytest.mark.covers("LSA-04")
@scenario
async def test_a_guard_lets_through_or_rejects():
    completed = []

    def complete(asked):
        completed.append(asked)
        return "Hi"

    async def slowly(asked):
        return asked.message == "Hello"

    assert await Sampling(complete, guard=lambda asked: asked.max_tokens < 100).answer(request()) == said("Hi")
    assert await Sampling(complete, guard=slowly).answer(request()) == said("Hi")
    completed.clear()
    assert await refusal(Sampling(complete, guard=lambda asked: False)) == (-1, "Sampling request was rejected")
    assert completed == []


@pytest.mark.covers("LSA-04")
@pytest.mark.parametrize("verdict", ["It asks for passwords", "", None, 1, [], object(), {"allow": True}])
@pytest.mark.parametrize("is_async", [False, True])
@scenario
async def test_only_true_of_a_guard_allows_a_request(verdict, is_async, caplog):
    async def decide(asked):
        return verdict

    completed = []
    guard = decide if is_async else lambda asked: verdict
    sampling = Sampling(lambda asked: completed.append(asked) or "Hi", guard=guard)
    assert await refusal(sampling) == (-1, "Sampling request was rejected")
    assert completed == []
    assert "return True to allow it" in caplog.text
    if isinstance(verdict, str):
        assert repr(verdict) in caplog.text


@pytest.mark.covers("LSA-11")
@scenario
async def test_a_guard_sees_the_system_prompt_and_all_that_the_model_is_told():
    seen = []

    def guard(asked):
        seen.append(asked.message)
        return "forbidden" not in asked.message

    sampling = Sampling(lambda asked: asked.message, guard=guard, tools=True)
    assert await refusal(sampling, request(system_prompt="Say what is forbidden"))
    assert seen == ["Say what is forbidden\nHello"]
    # What completes the request gets the two apart.
    assert await sampling.answer(request(system_prompt="Be brief")) == said("Hello")
    tool = types.Tool(name="add", description="forbidden", input_schema={"type": "object"})
    assert await refusal(sampling, request(tools=[tool]))
    for block in (
        types.ToolUseContent(id="1", name="add", input={"word": "forbidden"}),
        types.ToolResultContent(tool_use_id="1", content=[types.TextContent("forbidden")]),
        types.ToolResultContent(tool_use_id="1", content=[], structured_content={"word": "forbidden"}),
        types.ToolResultContent(
            tool_use_id="1", content=[types.EmbeddedResource(resource=types.ResourceContents("x:1", text="forbidden"))]
        ),
        types.UnknownContent(type="video", title="forbidden"),
    ):
        asked = SamplingRequest(messages=[types.SamplingMessage("user", [block])], max_tokens=10)
        assert await refusal(sampling, asked), block
    picture = types.SamplingMessage("user", types.ImageContent("forbidden", "image/png"))
    assert SamplingRequest(messages=[HELLO, picture], max_tokens=10).text == "Hello"


@pytest.mark.covers("LSA-11")
@pytest.mark.parametrize(
    "block",
    [
        types.ImageContent(b64encode(b"forbidden").decode(), "text/plain"),
        types.ImageContent(b64encode(b"<svg>forbidden</svg>").decode(), "image/svg+xml"),
        types.AudioContent("AAAA", "audio/forbidden"),
        types.ImageContent("/w==", "image/png; forbidden"),
        types.EmbeddedResource(
            resource=types.ResourceContents("x:1", mime_type="text/plain", blob=b64encode(b"forbidden").decode())
        ),
        types.EmbeddedResource(resource=types.ResourceContents("x:forbidden", blob="AAAA")),
    ],
    ids=["text", "drawing", "type", "parameter", "resource", "address"],
)
@scenario
async def test_a_guard_sees_the_words_that_a_server_hides_in_media(block):
    sampling = Sampling(lambda asked: "Hi", guard=lambda asked: "forbidden" not in asked.message, tools=True)
    told = types.ToolResultContent(tool_use_id="1", content=[block])
    for content in (block, told):
        asked = SamplingRequest(messages=[types.SamplingMessage("user", [content])], max_tokens=10)
        assert await refusal(sampling, asked) == (-1, "Sampling request was rejected")


@pytest.mark.covers("CSR-15", "LSA-12")
@pytest.mark.parametrize("kind", ["async", "plain"])
def test_few_requests_are_worked_on_at_a_time_and_the_others_wait(kind):
    running, most, lock = 0, 0, threading.Lock()

    def enter(by):
        nonlocal running, most
        with lock:
            running += by
            most = max(most, running)

    async def complete(asked):
        enter(1)
        await asyncio.sleep(0.001)
        enter(-1)
        return asked.system_prompt

    def complete_in_a_thread(asked):
        enter(1)
        time.sleep(0.001)
        enter(-1)
        return asked.system_prompt

    @scenario
    async def answered():
        sampling = Sampling(complete if kind == "async" else complete_in_a_thread, max_concurrent=3)
        answers = await asyncio.gather(*(sampling.answer(request(system_prompt=str(n))) for n in range(30)))
        assert [answer.text for answer in answers] == [str(n) for n in range(30)]

    answered()
    assert most == 3


@pytest.mark.parametrize("most", [0, -1, True, "8", 2.5])
def test_how_many_at_a_time_is_a_number_of_at_least_one(most):
    with pytest.raises((TypeError, ValueError), match="max_concurrent must be"):
        Sampling(print, max_concurrent=most)


@pytest.mark.covers("LSA-02")
@scenario
async def test_the_preferred_model_is_a_name_or_is_worked_out():
    async def slowly(preferences):
        return "clever" if preferences.intelligence_priority else "quick"

    asked = request()
    assert await Sampling(model_of, preferred_model="mine").answer(asked) == said("mine", "mine")
    assert (await Sampling(model_of, preferred_model=slowly).answer(asked)).model == "quick"
    asked.model_preferences = types.ModelPreferences(intelligence_priority=1)
    assert (await Sampling(model_of, preferred_model=slowly).answer(asked)).model == "clever"
    assert asked.model is None


@pytest.mark.covers("LSA-03")
@pytest.mark.parametrize("answer", [ValueError("the secret cause"), None, "", 5])
def test_a_model_that_cannot_be_worked_out_is_an_error(answer, caplog):
    def prefer(preferences):
        if isinstance(answer, Exception):
            raise answer
        return answer

    sampling = Sampling(model_of, preferred_model=prefer)
    assert asyncio.run(refusal(sampling)) == (InternalError.CODE, "Failed to determine preferred model")
    assert len(caplog.records) == 1


@scenario
async def test_the_choice_of_the_model_may_reject():
    def prefer(preferences):
        raise Rejected("None of them")

    assert await refusal(Sampling(model_of, preferred_model=prefer)) == (-1, "None of them")


@pytest.mark.covers("LSA-10")
@pytest.mark.parametrize(
    ("preferred", "allowed", "hints", "chosen"),
    [
        ("small", ["small"], [], "small"),
        ("gpt-4.1", ["claude-*", "gpt-*"], [], "gpt-4.1"),
        (None, ["claude-3-opus", "gpt-4.1"], ["gemini", "GPT", "claude"], "gpt-4.1"),
        (None, ["claude-*"], ["gpt-4.1", "claude-3-opus"], "claude-3-opus"),
        (None, ["claude-*", "gpt-4.1"], ["gemini"], "gpt-4.1"),
        (None, "gpt-4.1", [], "gpt-4.1"),
        (None, None, ["claude"], "none"),
    ],
)
def test_the_model_is_chosen_among_those_that_are_allowed(preferred, allowed, hints, chosen):
    sampling = Sampling(model_of, preferred_model=preferred, allow_models=allowed)
    assert asyncio.run(sampling.answer(request(*hints))).text == chosen


@pytest.mark.covers("LSA-10")
@pytest.mark.parametrize(
    ("preferred", "allowed", "why"),
    [
        ("large", ["small", "tiny-*"], "the model 'large' is not allowed"),
        ("large", [], "the model 'large' is not allowed"),
        (None, ["claude-*"], "no model that is allowed fits it"),
        (None, [], "no model that is allowed fits it"),
    ],
)
def test_a_model_that_is_not_allowed_rejects_the_request(preferred, allowed, why):
    sampling = Sampling(model_of, preferred_model=preferred, allow_models=allowed)
    assert asyncio.run(refusal(sampling, request("gpt"))) == (-1, f"Sampling request was rejected: {why}")


@pytest.mark.covers("LSA-08")
@scenario
async def test_the_limits_of_the_server_reach_the_model():
    seen = []

    def complete(asked):
        seen.append((asked.max_tokens, asked.temperature, asked.stop_sequences))
        return "Hi"

    sampling = Sampling(complete)
    await sampling.answer(sampling.read(params(temperature=0, stopSequences=["x"])))
    assert seen == [(10, 0, ["x"])]


@pytest.mark.covers("LHD-05")
@pytest.mark.parametrize("slow", ["guard", "preferred_model", "complete"])
def test_a_time_limit_rejects_whatever_is_slow(slow):
    released = threading.Event()

    def wait(asked):
        return released.wait(DEADLINE)

    async def quick(asked):
        return "Hi"

    async def allow(asked):
        return True

    steps = {"guard": allow, "preferred_model": quick, "complete": quick, slow: wait}
    sampling = Sampling(steps.pop("complete"), timeout=0.01, **steps)
    try:
        assert asyncio.run(refusal(sampling)) == (-1, "Sampling request was not answered within 0.01 seconds")
    finally:
        released.set()


@scenario
async def test_a_request_that_the_server_takes_back_ends_its_handler():
    entered, ended = asyncio.Event(), asyncio.Event()

    async def waiting(asked):
        entered.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    answering = asyncio.create_task(Sampling(waiting, timeout=DEADLINE).answer(request()))
    await entered.wait()
    answering.cancel()
    with pytest.raises(asyncio.CancelledError):
        await answering
    assert ended.is_set()


@scenario
async def test_a_handler_whose_own_work_was_cancelled_is_still_answered():
    async def waiting(asked):
        future = asyncio.get_running_loop().create_future()
        future.cancel()
        await future

    assert await refusal(Sampling(waiting)) == (InternalError.CODE, "Error executing sampling request")


@pytest.mark.covers("LHD-07")
@pytest.mark.parametrize(
    ("options", "name"),
    [
        ({"complete": 5}, "on_sampling"),
        ({"complete": Sampling}, "on_sampling"),
        ({"complete": print, "guard": True}, "guard"),
        ({"complete": print, "preferred_model": 5}, "preferred_model"),
    ],
)
def test_what_cannot_be_called_is_refused_with_what_is_wanted(options, name):
    with pytest.raises(TypeError, match=f"{name} must be a function"):
        Sampling(**options)
