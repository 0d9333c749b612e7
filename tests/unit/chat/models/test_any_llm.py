"""Models of any-llm: when it is loaded, and what becomes of its errors."""

import asyncio
import subprocess
import sys
from types import SimpleNamespace

import pytest

from dragoman.chat.messages import Message, ModelOptions
from dragoman.chat.models import any_llm
from dragoman.chat.models.any_llm import AnyLlm
from dragoman.chat.models.completions import CompletionReader
from dragoman.errors import ModelError
from unit.chat.models.test_completions import chunk, piece

DEADLINE = 60


def test_without_any_llm_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setattr(any_llm.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ModelError, match=r'pip install "dragoman\[chat\]"'):
        AnyLlm("openai:gpt-4.1")


def test_any_llm_is_loaded_with_the_first_request_and_not_before():
    program = (
        "import sys\nfrom dragoman.chat.models.any_llm import AnyLlm\nAnyLlm('openai:x')\n"
        "assert not {'any_llm', 'openai', 'httpx', 'pydantic'} & sys.modules.keys()"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=DEADLINE)


def test_the_key_is_not_part_of_what_a_model_looks_like():
    assert repr(AnyLlm("openai:x", api_key="sk-secret")) == "<AnyLlm 'openai:x'>"


@pytest.mark.parametrize(
    ("said", "kept"),
    [
        ("Bad key sk-abcdefgh12345678!", "sk-abcdefgh12345678"),
        ("Authorization: Bearer abcdef", "abcdef"),
        ("GET https://me:hush@example.com/v1?key=hidden1", "hush"),
        ("GET https://me:hush@example.com/v1?key=hidden1", "hidden1"),
        ("the key is plainwords", "plainwords"),
        ("the other is from-the-environment", "from-the-environment"),
    ],
)
def test_what_looks_like_a_key_is_taken_out_of_errors(said, kept, monkeypatch):
    monkeypatch.setenv("ACME_API_KEY", "from-the-environment")
    failure = AnyLlm("openai:x", api_key="plainwords")._failure(RuntimeError(said))
    assert kept not in str(failure)


def test_what_only_begins_like_a_key_stays():
    failure = AnyLlm("openai:x")._failure(RuntimeError("skateboarding is no keyboard_shortcut"))
    assert "skateboarding is no keyboard_shortcut" in str(failure)


@pytest.mark.parametrize(
    ("header", "seconds"),
    [("3", 3.0), ("0.5", 0.5), ("-1", 0.0), ("Wed, 21 Oct 2015 07:28:00 GMT", 0.0), ("soon", None), (None, None)],
)
def test_retry_after_is_seconds_or_a_date(header, seconds):
    error = RuntimeError("slow down")
    error.status_code = 429
    error.response = SimpleNamespace(headers={"retry-after": header} if header else {})
    assert AnyLlm("openai:x")._failure(error).retry_after == seconds


def test_the_data_that_providers_want_back_has_a_bound():
    model = AnyLlm("openai:x")
    for number in range(any_llm.MAX_EXTRAS + 5):
        answer = CompletionReader()
        list(answer.receive(chunk(calls=[piece(0, f"c{number}", "look", "{}", extra_content={"a": 1})])))
        model._keep_extras(answer)
    assert len(model._extras) == any_llm.MAX_EXTRAS
    assert "c0" not in model._extras


def test_a_model_that_was_never_asked_closes_without_ado():
    assert asyncio.run(asyncio.wait_for(AnyLlm("openai:x").aclose(), DEADLINE)) is None


def test_a_model_that_is_refused_its_request_by_any_llm_tells_so():
    async def talk():
        model = AnyLlm("openai:x", api_key="sk-12345678", base_url="http://127.0.0.1:9", no_such_option=1)
        try:
            return [delta async for delta in model.generate([Message.user("a")], [], ModelOptions())]
        finally:
            await model.aclose()

    with pytest.raises(ModelError, match="no_such_option"):
        asyncio.run(asyncio.wait_for(talk(), DEADLINE))
