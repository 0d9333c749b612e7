"""The client that the official conformance suite examines: it does what each scenario asks for.

python tests/conformance/client.py http://localhost:3001/mcp

The suite names the scenario in MCP_CONFORMANCE_SCENARIO, the protocol version of its server in
MCP_CONFORMANCE_PROTOCOL_VERSION, and what else there is to know, as JSON, in MCP_CONFORMANCE_CONTEXT.
"""

import asyncio
import json
import os
import sys
from collections.abc import Awaitable, Callable
from typing import Any

from authorization import oauth_for

from dragoman import AsyncClient
from dragoman.client import ElicitationRequest, SamplingRequest
from dragoman.errors import SkillRefused

Scenario = Callable[[AsyncClient], Awaitable[None]]
SCENARIOS: dict[str, Scenario] = {}
CONTEXT: dict[str, Any] = json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT", "{}"))
STATELESS = "2026-07-28"


def scenario(name: str) -> Callable[[Scenario], Scenario]:
    """Let a function play a scenario."""

    def register(function: Scenario) -> Scenario:
        SCENARIOS[name] = function
        return function

    return register


@scenario("initialize")
@scenario("request-metadata")
@scenario("json-schema-ref-no-deref")
async def list_tools(client: AsyncClient) -> None:
    await client.tools()


@scenario("tools_call")
async def add_numbers(client: AsyncClient) -> None:
    await client.tools()
    result = await client.call_tool("add_numbers", {"a": 5, "b": 3})
    assert "8" in result.text, result


@scenario("elicitation-sep1034-client-defaults")
async def answer_with_defaults(client: AsyncClient) -> None:
    await client.tools()
    await client.call_tool("test_client_elicitation_defaults", {})


@scenario("sse-retry")
async def come_back(client: AsyncClient) -> None:
    await client.tools()
    await client.call_tool("test_reconnection", {})


@scenario("sep-2322-client-request-state")
async def echo_state(client: AsyncClient) -> None:
    await client.tools()
    await asyncio.gather(client.call_tool("test_mrtr_echo_state", {}), client.call_tool("test_mrtr_unrelated", {}))
    await client.call_tool("test_mrtr_no_state", {})
    result = await client.call_tool("test_mrtr_no_result_type", {})
    assert result.content, "a result without a type is complete"


@scenario("http-standard-headers")
async def send_standard_headers(client: AsyncClient) -> None:
    for tool in await client.tools():
        await tool.call(_arguments_for(tool.input_schema))
    for resource in await client.resources():
        await resource.contents()
    for prompt in await client.prompts():
        await prompt.fetch(**{argument.name: "x" for argument in prompt.arguments})


@scenario("http-custom-headers")
async def send_custom_headers(client: AsyncClient) -> None:
    await client.tools()
    for call in CONTEXT["toolCalls"]:
        await client.call_tool(call["name"], call["arguments"])


@scenario("http-invalid-tool-headers")
async def call_every_tool(client: AsyncClient) -> None:
    tools = await client.tools()
    assert [tool.name for tool in tools] == ["valid_tool"], tools
    for tool in tools:
        await tool.call(_arguments_for(tool.input_schema))


@scenario("json-schema-2020-12-preservation")
async def echo_schema(client: AsyncClient) -> None:
    tool = await client.tool("json_schema_2020_12_tool")
    await client.call_tool("json_schema_echo", {"schema": tool.input_schema})


@scenario("sep-2640-client-no-prefetch")
async def list_skills(client: AsyncClient) -> None:
    assert [skill.name for skill in await client.skills()] == ["pdf-processing"]


@scenario("sep-2640-client-verify-digest")
@scenario("sep-2640-client-verify-size")
@scenario("sep-2640-client-verify-frontmatter")
async def load_skill(client: AsyncClient) -> None:
    skill = await client.skill("pdf-processing")
    try:
        await skill.load()
    except SkillRefused as error:
        print(error)
        return
    await skill.read("references/FORMS.md")


async def use_what_is_protected(client: AsyncClient) -> None:
    """List and call, which takes a login."""
    await client.tools()
    await client.call_tool("test-tool", {})


def _arguments_for(schema: dict[str, Any]) -> dict[str, Any]:
    """Make up arguments that a schema requires."""
    samples = {"string": "x", "integer": 1, "number": 1.5, "boolean": True, "array": [], "object": {}}
    properties = schema.get("properties", {})
    return {name: samples.get(properties.get(name, {}).get("type"), "x") for name in schema.get("required", ())}


def elicit(request: ElicitationRequest) -> Any:
    """Accept every form with its defaults, and confirm what is to be confirmed."""
    confirmed = {name: True for name in request.schema.get("properties", {}) if name == "confirmed"}
    return request.apply_defaults(confirmed)


def sample(request: SamplingRequest) -> str:
    """Answer for the model."""
    return f"You said: {request.message}"


async def main(url: str) -> int:
    """Play the scenario that the environment names, and return the exit code."""
    name = os.environ["MCP_CONFORMANCE_SCENARIO"]
    play = use_what_is_protected if name.startswith("auth/") else SCENARIOS.get(name)
    if play is None:
        print(f"There is no scenario {name!r} here", file=sys.stderr)
        return 1
    version = os.environ.get("MCP_CONFORMANCE_PROTOCOL_VERSION", STATELESS)
    client = AsyncClient(
        url,
        auth=oauth_for(name, CONTEXT) if name.startswith("auth/") else None,
        mode="stateless" if version == STATELESS else "handshake",
        on_elicitation=elicit,
        on_sampling=sample,
        roots=["."],
        timeout=20,
    )
    async with client:
        await play(client)
    return 0


if __name__ == "__main__":
    sys.exit(asyncio.run(main(sys.argv[1])))
