"""A chat uses the reference server that has everything, over each of its transports."""

from __future__ import annotations

from pathlib import Path

import pytest

from dragoman import Chat, Client
from dragoman.chat import Media, ToolCall
from dragoman.testing import ScriptedModel
from interop.client.peers import reachable
from scenarios.chat_checks import assert_valid


@pytest.mark.covers("CHAT-28")
@pytest.mark.parametrize("transport", ["stdio", "http"])
def test_a_model_uses_the_tools_resources_and_prompts_of_the_reference_server(transport: str, tmp_path: Path) -> None:
    calls = [
        ToolCall("1", "get-sum", {"a": "2", "b": 40}),
        ToolCall("2", "get-tiny-image", {}),
        ToolCall("3", "get-structured-content", {"location": "Chicago"}),
        ToolCall("4", "echo", {"massage": "no"}),
    ]
    model = ScriptedModel(calls, ToolCall("5", "trigger-sampling-request", {"prompt": "Say hi"}), "Hi.", "Done.")
    chat = Chat(model).with_instructions("Be brief.")
    with (
        reachable("everything", transport, tmp_path) as target,
        Client(target, on_sampling=chat.sampler()) as client,
    ):
        chat.with_tools(client).with_resource(client.resource("features.md"))
        chat.with_resource_template(client.resource_template("Dynamic Text Resource"), {"resourceId": 1})
        reply = chat.ask_prompt(client.prompt("args-prompt"), {"city": "Oslo"})
    total, image, weather, refused, sampled = reply.tool_results
    assert str(reply) == "Done."
    assert "42" in total.text
    assert [part.mime_type for part in image.message.content if isinstance(part, Media)] == ["image/png"]
    assert set(weather.result.structured if weather.result else {}) == {"temperature", "conditions", "humidity"}
    assert refused.is_error
    assert "message" in refused.text
    assert "Hi." in sampled.text
    assert_valid(chat.messages)
    asked = model.requests[0].messages
    assert [message.role for message in asked] == ["system", "user", "user", "user"]
    assert "Oslo" in asked[-1].text
