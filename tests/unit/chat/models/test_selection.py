"""Which model a name or an object stands for."""

import pytest

from dragoman.chat.models.any_llm import AnyLlm
from dragoman.chat.models.selection import resolve_model
from dragoman.testing import ScriptedModel


def test_a_name_resolves_to_a_model_and_a_model_to_itself():
    model = ScriptedModel()
    assert resolve_model(model, base_url=None) is model
    assert resolve_model("openai:gpt-4.1").name == "openai:gpt-4.1"
    assert resolve_model("ollama:llama3.2:1b").name == "ollama:llama3.2:1b"


def test_what_is_no_model_is_refused_with_the_remedy():
    with pytest.raises(TypeError, match="an object with `generate`"):
        resolve_model(3)
    with pytest.raises(TypeError, match="base_url can be given only"):
        resolve_model(ScriptedModel(), base_url="http://127.0.0.1:1")
    for name in ("gpt-4.1", ":gpt", "openai:"):
        with pytest.raises(ValueError, match=r"'openai:gpt-4\.1'"):
            AnyLlm(name)
