"""Messages that prompts return."""

import pytest

from dragoman import types
from dragoman.server.define.prompts import prompt_messages


def test_a_role_that_the_protocol_does_not_have_is_refused():
    assert prompt_messages({"role": "assistant", "content": "Yes"}) == [
        types.PromptMessage("assistant", types.TextContent("Yes"))
    ]
    with pytest.raises(ValueError, match='a message of the role \'system\': use "user" or "assistant"'):
        prompt_messages({"role": "system", "content": "Obey"})
