"""Everything that the official conformance suite looks at over HTTP, over stdio: it has no scenario for that.

The same server, in both eras, by our client and by lines that were written by hand.
"""

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from dragoman import AsyncClient
from scenarios.client_peer import DEADLINE, scenario, until

SERVER = Path(__file__).resolve().parents[2] / "conformance" / "server.py"
COMMAND = [sys.executable, "-m", "dragoman", "run", str(SERVER)]
VERSIONS = {"handshake": "2025-11-25", "stateless": "2026-07-28"}
ERAS = pytest.mark.parametrize("era", VERSIONS)
CAPABILITIES = {"elicitation": {}, "sampling": {}, "roots": {}}
ROOT = "file:///home/jo"
NAMED = {"name": "Jo"}
LOGGED = ["Tool execution started", "Tool processing data", "Tool execution completed"]

DEFAULTS = {"name": "John Doe", "age": 30, "score": 95.5, "status": "active", "verified": True}
CHOICES = {
    "untitledSingle": "option1",
    "titledSingle": "value1",
    "legacyEnum": "opt1",
    "untitledMulti": ["option1"],
    "titledMulti": ["value1"],
}

TEXTS: dict[str, tuple[dict[str, Any], str]] = {
    "test_simple_text": ({}, "This is a simple text response for testing."),
    "json_schema_2020_12_tool": (
        {"name": "Jo", "contactMethod": "email", "email": "a@b.c"},
        "JSON Schema 2020-12 tool called with: ['contactMethod', 'email', 'name']",
    ),
    "test_x_mcp_header": ({"region": "eu"}, "It is for eu"),
    "test_tool_with_logging": ({}, "Tool with logging executed successfully"),
    "test_logging_tool": ({}, "logged"),
    "test_tool_with_progress": ({}, "done"),
    "test_reconnection": ({}, "Reconnection test completed"),
    "test_trigger_tool_change": ({}, "told"),
    "test_trigger_prompt_change": ({}, "told"),
    "test_sampling": ({"prompt": "Say something"}, "LLM response: said"),
    "test_elicitation": ({"message": "Who?"}, "User response: accept {'username': 'Jo', 'email': 'Jo'}"),
    "test_elicitation_sep1034_defaults": ({}, f"Elicitation completed: action=accept, content={DEFAULTS}"),
    "test_elicitation_sep1330_enums": ({}, f"Elicitation completed: action=accept, content={CHOICES}"),
    "test_missing_capability": ({}, "sampling is there"),
    "test_streaming_elicitation": ({}, f"accept {NAMED}"),
    "test_input_required_result_elicitation": ({}, "Hello, Jo!"),
    "test_input_required_result_sampling": ({}, "said"),
    "test_input_required_result_list_roots": ({}, ROOT),
    "test_input_required_result_request_state": ({}, "state-ok"),
    "test_input_required_result_multiple_inputs": ({}, "accept said 1"),
    "test_input_required_result_multi_round": ({}, f"{NAMED} {{'color': 'Jo'}}"),
    "test_input_required_result_tampered_state": ({}, "confirmed"),
    "test_input_required_result_capabilities": ({}, "accept"),
}
CONTENTS: dict[str, list[tuple[str, str]]] = {
    "test_image_content": [("image", "image/png")],
    "test_audio_content": [("audio", "audio/wav")],
    "test_embedded_resource": [("resource", "This is an embedded resource content.")],
    "test_multiple_content_types": [
        ("text", "Multiple content types test:"),
        ("image", "image/png"),
        ("resource", '{"test": "data", "value": 123}'),
    ],
}
FAILING = {"test_error_handling": "This tool intentionally returns an error for testing"}
PROMPTS: dict[str, tuple[dict[str, str], list[tuple[str, str]]]] = {
    "test_simple_prompt": ({}, [("text", "This is a simple prompt for testing.")]),
    "test_prompt_with_arguments": (
        {"arg1": "a", "arg2": "b"},
        [("text", "Prompt with arguments: arg1='a', arg2='b'")],
    ),
    "test_prompt_with_embedded_resource": (
        {"resourceUri": "test://x"},
        [
            ("resource", "Embedded resource content for testing."),
            ("text", "Please process the embedded resource above."),
        ],
    ),
    "test_prompt_with_image": ({}, [("image", "image/png"), ("text", "Please analyze the image above.")]),
    "test_input_required_result_prompt": ({}, [("text", "Prompt with context: {'context': 'Jo'}")]),
}
OF_TASKS = {
    *("greet", "slow_compute", "failing_job", "protocol_error_job", "confirm_delete", "multi_input"),
    "test_tool_with_task",
}
"""The tools that the suite runs as tasks; tests/scenarios/tasks tries such tools."""
RESOURCES = {
    "test://static-text": "This is the content of the static text resource.",
    "test://static-binary": "iVBORw0KGgo",
    "test://template/7/data": '{"id":"7","templateTest":true,"data":"Data for ID: 7"}',
    "test://watched-resource": "Watched resource content",
}


def essence(block: dict[str, Any]) -> tuple[str, str]:
    """What a content block is, and what it says or is made of."""
    kind = block["type"]
    return kind, block["resource"]["text"] if kind == "resource" else block.get("text") or block["mimeType"]


def filled(schema: dict[str, Any]) -> dict[str, Any]:
    """Fill in a form: the defaults, the first of all choices, and Jo for the rest."""
    return {name: _field(field) for name, field in schema["properties"].items()}


def _field(field: dict[str, Any]) -> Any:
    choices = field.get("enum") or [choice["const"] for choice in field.get("oneOf") or field.get("anyOf") or ()]
    if field["type"] == "array":
        return [_field({"type": "string", **field["items"]})]
    return field.get("default", choices[0] if choices else {"boolean": True}.get(field["type"], "Jo"))


# By our client.


def wire(blocks: Any) -> list[tuple[str, str]]:
    return [essence(block) for block in json.loads(msgspec.json.encode(blocks))]


def visiting(era: str, **options: Any) -> AsyncClient:
    """A client that answers whatever it is asked."""
    return AsyncClient(
        COMMAND,
        mode=era,
        timeout=DEADLINE,
        connect_timeout=3 * DEADLINE,
        on_elicitation=lambda request: filled(request.schema),
        on_sampling=lambda request: "said",
        roots=[ROOT.removeprefix("file://")],
        **options,
    )


@pytest.mark.covers("BEY-24")
@ERAS
@scenario
async def test_our_client_gets_what_every_tool_gives_over_stdio(era):
    async with visiting(era) as client:
        assert client.protocol_version == VERSIONS[era]
        listed = {tool.name for tool in await client.tools()} - OF_TASKS
        assert listed == {*TEXTS, *CONTENTS, *FAILING}, "a tool of the server is not tried here"
        for name, (arguments, text) in TEXTS.items():
            assert (name, (await client.call_tool(name, arguments)).text) == (name, text)
        for name, contents in CONTENTS.items():
            assert wire((await client.call_tool(name)).content) == contents
        for name, text in FAILING.items():
            failed = await client.call_tool(name, raise_on_error=False)
            assert (failed.is_error, failed.text) == (True, text)


@pytest.mark.covers("BEY-24")
@ERAS
@scenario
async def test_our_client_hears_what_tools_tell_over_stdio(era):
    logged, progress, lists = [], [], []
    options = {"on_log": lambda message: logged.append(message.data), "log_level": "info"}
    async with visiting(era, on_list_changed=lists.append, **options) as client:
        await client.tools(), await client.prompts()
        await client.call_tool("test_tool_with_logging")
        assert logged == LOGGED
        await client.call_tool("test_tool_with_progress", on_progress=lambda *told: progress.append(told[:2]))
        assert progress == [(0, 100), (50, 100), (100, 100)]
        await client.call_tool("test_trigger_tool_change")
        await client.call_tool("test_trigger_prompt_change")
        await until(lambda: {*lists} == {"tools", "prompts"})


@pytest.mark.covers("BEY-24")
@ERAS
@scenario
async def test_our_client_gets_every_prompt_resource_and_completion_over_stdio(era):
    async with visiting(era) as client:
        assert {prompt.name for prompt in await client.prompts()} == {*PROMPTS}
        for name, (arguments, contents) in PROMPTS.items():
            messages = (await client.get_prompt(name, arguments)).messages
            assert wire([message.content for message in messages]) == contents
        named = {resource.uri for resource in await client.resources() if not resource.uri.startswith("skill://")}
        [template] = await client.resource_templates()
        assert {*named, template.uri_template.replace("{id}", "7")} == {*RESOURCES}
        for uri, holds in RESOURCES.items():
            [read] = (await client.read_resource(uri)).contents
            assert (read.text or read.blob).startswith(holds)
        await asyncio.wait_for(client.subscribe("test://watched-resource"), DEADLINE)
        await client.unsubscribe("test://watched-resource")
        ref = {"type": "ref/prompt", "name": "test_prompt_with_arguments"}
        assert (await client.complete(ref, "arg1", "test")).values == ["test", "testing"]
        assert await client.ping()


# By lines that were written by hand.
