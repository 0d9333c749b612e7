"""Questions to a person, without a page."""

import asyncio
from functools import partial

import pytest

from chat.provider import Provider, Say
from dragoman import types
from dragoman.client.answer.elicitation import Accept, ElicitationRequest
from dragoman.client.answer.sampling import SamplingRequest
from dragoman.errors import InspectorError
from dragoman.inspector import questions as module
from dragoman.inspector.events import Events
from dragoman.inspector.questions import (
    Answer,
    AnswerRule,
    Questions,
    elicitation_answer,
    elicitation_params,
    sampling_answer,
    sampling_params,
)


def asked(text):
    message = types.SamplingMessage(role="user", content=types.TextContent(text=text))
    return SamplingRequest(messages=[message], max_tokens=5, system_prompt="Be brief.", server="shop")


async def test_the_first_rule_that_fits_answers_without_a_question():
    questions = Questions(Events(dict))
    rules = [
        AnswerRule(kind="elicitation", answer=Answer()),
        AnswerRule(kind="sampling", answer=Answer(text="no"), match="eight"),
        AnswerRule(kind="sampling", answer=Answer(text="42"), match="six"),
    ]
    request = asked("What is six times seven?")
    found = await questions.ask("s1", "sampling", sampling_params(request), partial(sampling_answer, request), rules)
    assert (found.content.text, questions.all()) == ("42", [])


async def test_questions_have_a_bound(monkeypatch):
    monkeypatch.setattr(module, "MAX_WAITING", 1)
    questions = Questions(Events(dict))
    waiting = asyncio.ensure_future(questions.ask("s1", "approval", {"name": "x"}, lambda answer: True))
    await asyncio.sleep(0)
    with pytest.raises(InspectorError, match="answer them first"):
        await questions.ask("s1", "approval", {"name": "y"}, lambda answer: True)
    [question] = questions.all()
    await questions.answer(question.id, Answer())
    assert await waiting is True


def test_a_sampling_request_is_shown_as_on_the_wire():
    params = sampling_params(asked("hello"))
    assert params == {
        "messages": [{"role": "user", "content": {"type": "text", "text": "hello"}}],
        "maxTokens": 5,
        "systemPrompt": "Be brief.",
    }


def test_a_form_is_accepted_with_its_defaults():
    schema = {"type": "object", "properties": {"days": {"type": "integer", "default": 3}}}
    request = ElicitationRequest("How long?", schema)
    assert elicitation_params(request) == {"mode": "form", "message": "How long?", "requestedSchema": schema}
    assert elicitation_answer(request, Answer()) == Accept({"days": 3})


async def test_a_model_answers_a_sampling_request(monkeypatch):
    with Provider(Say("42")) as provider:
        monkeypatch.setenv("OPENAI_BASE_URL", provider.openai_url)
        monkeypatch.setenv("OPENAI_API_KEY", "test-key-0001")
        result = await sampling_answer(asked("What is six times seven?"), Answer(action="model", model="openai:test"))
    assert (result.content.text, result.model) == ("42", "openai:test")
    assert "six times seven" in str(provider.asked[0].body["messages"])
