"""The server that the official conformance suite examines: every feature once, with the names that the suite asks for.

python tests/conformance/server.py --port 3001
"""

import argparse
import asyncio
from pathlib import Path
from typing import Annotated, Any

from msgspec import Meta

from dragoman import (
    Audio,
    Context,
    Elicit,
    Image,
    ListRoots,
    RpcError,
    Sample,
    Server,
    ToolError,
    ToolResult,
)
from dragoman.server import TaskOptions
from dragoman.types import EmbeddedResource, ImageContent, PromptMessage, ResourceContents, TextContent

PIXEL = bytes.fromhex(
    "89504e470d0a1a0a0000000d49484452000000010000000108060000001f15c4890000000d49444154789c6364f8cf500f00038201800"
    "0b5c4e50000000049454e44ae426082"
)
SILENCE = b"RIFF$\0\0\0WAVEfmt \x10\0\0\0\1\0\1\0\x40\x1f\0\0\x80\x3e\0\0\2\0\x10\0data\0\0\0\0"
NAME_FORM = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}

server = Server(
    "dragoman-conformance",
    version="1.0.0",
    capabilities={
        "tools": {"listChanged": True},
        "prompts": {"listChanged": True},
        "resources": {"listChanged": True, "subscribe": True},
        "logging": {},
        "completions": {},
    },
)

SKILLS = Path(__file__).parent / "skills"
server.add_skill(SKILLS / "pdf-processing")  # the suite asks for the folder of the first skill
server.add_skills(SKILLS / "acme", prefix="acme")


# What tools return.


@server.tool
async def test_simple_text() -> str:
    """Returns text."""
    return "This is a simple text response for testing."


@server.tool
async def test_image_content() -> Image:
    """Returns an image."""
    return Image(PIXEL, "image/png")


@server.tool
async def test_audio_content() -> Audio:
    """Returns sound."""
    return Audio(SILENCE, "audio/wav")


@server.tool
async def test_embedded_resource() -> EmbeddedResource:
    """Returns a resource in place."""
    return EmbeddedResource(
        resource=ResourceContents("test://embedded-resource", "text/plain", "This is an embedded resource content.")
    )


@server.tool
async def test_multiple_content_types() -> list[Any]:
    """Returns several kinds of content."""
    data = ResourceContents("test://mixed-content-resource", "application/json", '{"test": "data", "value": 123}')
    return ["Multiple content types test:", Image(PIXEL, "image/png"), EmbeddedResource(resource=data)]


@server.tool
async def test_error_handling() -> str:
    """Fails, in words for the model."""
    raise ToolError("This tool intentionally returns an error for testing")


RAW_SCHEMA = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "$defs": {
        "address": {
            "$anchor": "addressDef",
            "type": "object",
            "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
        }
    },
    "properties": {
        "name": {"type": "string"},
        "address": {"$ref": "#/$defs/address"},
        "contactMethod": {"type": "string", "enum": ["phone", "email"]},
        "phone": {"type": "string"},
        "email": {"type": "string"},
    },
    "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
    "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
    "then": {"required": ["phone"]},
    "else": {"required": ["email"]},
    "additionalProperties": False,
}


@server.tool(input_schema=RAW_SCHEMA)
async def json_schema_2020_12_tool(**arguments: Any) -> ToolResult:
    """Takes what a JSON Schema of 2020-12 describes."""
    return ToolResult(f"JSON Schema 2020-12 tool called with: {sorted(arguments)}")


@server.tool
async def test_x_mcp_header(
    region: Annotated[str, Meta(extra_json_schema={"x-mcp-header": "Region"})],
) -> str:
    """Takes an argument that is mirrored in a header."""
    return f"It is for {region}"


# What tools tell on the way.


@server.tool
async def test_tool_with_logging(ctx: Context) -> str:
    """Logs three messages."""
    for message in ("Tool execution started", "Tool processing data", "Tool execution completed"):
        await ctx.info(message)
        await asyncio.sleep(0.05)
    return "Tool with logging executed successfully"


@server.tool
async def test_logging_tool(ctx: Context) -> str:
    """Logs a message, for those who asked for it."""
    await ctx.info("A message that only those get who asked for it")
    return "logged"


@server.tool
async def test_tool_with_progress(ctx: Context) -> str:
    """Says how far it is."""
    for progress in (0, 50, 100):
        await ctx.report_progress(progress, total=100, message=f"Completed step {progress} of 100")
        await asyncio.sleep(0.05)
    return "done"


@server.tool
async def test_reconnection(ctx: Context) -> str:
    """Lets the connection go; the result is there for whoever comes back."""
    await ctx.close_stream()
    await asyncio.sleep(0.15)
    return "Reconnection test completed"


@server.tool
async def test_trigger_tool_change() -> str:
    """Says that the tools changed."""
    server.notify_tools_list_changed()
    return "told"


@server.tool
async def test_trigger_prompt_change() -> str:
    """Says that the prompts changed."""
    server.notify_prompts_list_changed()
    return "told"


# What tools ask, in either era.


@server.tool
async def test_sampling(prompt: str, ctx: Context) -> str:
    """Asks the client's model."""
    answer = await ctx.sample(prompt, max_tokens=100)
    return f"LLM response: {answer.text}"


@server.tool
async def test_elicitation(message: str, ctx: Context) -> str:
    """Asks the user."""
    form = {
        "type": "object",
        "properties": {
            "username": {"type": "string", "description": "User's response"},
            "email": {"type": "string", "description": "User's email address"},
        },
        "required": ["username", "email"],
    }
    answer = await ctx.elicit(message, form)
    return f"User response: {answer.action} {answer.content if answer.accepted else None}"


@server.tool
async def test_elicitation_sep1034_defaults(ctx: Context) -> str:
    """Asks the user, with defaults."""
    form = {
        "type": "object",
        "properties": {
            "name": {"type": "string", "default": "John Doe"},
            "age": {"type": "integer", "default": 30},
            "score": {"type": "number", "default": 95.5},
            "status": {"type": "string", "enum": ["active", "inactive", "pending"], "default": "active"},
            "verified": {"type": "boolean", "default": True},
        },
    }
    answer = await ctx.elicit("Please review and update the form fields with defaults", form)
    return f"Elicitation completed: action={answer.action}, content={answer.content if answer.accepted else None}"


@server.tool
async def test_elicitation_sep1330_enums(ctx: Context) -> str:
    """Asks the user, with all kinds of choices."""
    options = ["option1", "option2", "option3"]
    titled = [{"const": f"value{number}", "title": f"Option {number}"} for number in (1, 2, 3)]
    form = {
        "type": "object",
        "properties": {
            "untitledSingle": {"type": "string", "enum": options},
            "titledSingle": {"type": "string", "oneOf": titled},
            "legacyEnum": {
                "type": "string",
                "enum": ["opt1", "opt2", "opt3"],
                "enumNames": ["Option One", "Option Two", "Option Three"],
            },
            "untitledMulti": {"type": "array", "items": {"type": "string", "enum": options}},
            "titledMulti": {"type": "array", "items": {"anyOf": titled}},
        },
    }
    answer = await ctx.elicit("Please select options from the enum fields", form)
    return f"Elicitation completed: action={answer.action}, content={answer.content if answer.accepted else None}"


@server.tool
async def test_missing_capability(ctx: Context) -> str:
    """Needs a client whose model can be asked."""
    ctx.require_capability("sampling")
    return "sampling is there"


@server.tool
async def test_streaming_elicitation(ctx: Context) -> str:
    """Tells, asks, and tells again."""
    await ctx.report_progress(1, total=2)
    answer = await ctx.elicit("What is your name?", NAME_FORM, key="user_name")
    return f"{answer.action} {answer.content if answer.accepted else None}"


# The same, where the suite looks at the names of what is asked and at the state that travels.


@server.tool
async def test_input_required_result_elicitation(ctx: Context) -> str:
    """Needs the user's name."""
    answer = await ctx.elicit("What is your name?", NAME_FORM, key="user_name")
    return f"Hello, {answer.content['name']}!" if answer.accepted else "Hello, whoever you are!"


@server.tool
async def test_input_required_result_sampling(ctx: Context) -> str:
    """Needs an answer of the model."""
    return (await ctx.sample("What is the capital of France?", max_tokens=100)).text


@server.tool
async def test_input_required_result_list_roots(ctx: Context) -> str:
    """Needs the roots."""
    return ", ".join(root.uri for root in await ctx.list_roots()) or "no roots"


@server.tool
async def test_input_required_result_request_state(ctx: Context) -> str:
    """Needs a confirmation, and remembers what it asked for."""
    await ctx.step("asked for", lambda: "confirmation")
    form = {"type": "object", "properties": {"ok": {"type": "boolean"}}}
    await ctx.elicit("Please confirm", form, key="confirm")
    return "state-ok"


@server.tool
async def test_input_required_result_multiple_inputs(ctx: Context) -> str:
    """Needs three answers at once."""
    name, greeting = Elicit("What is your name?", NAME_FORM), Sample("Greet somebody", max_tokens=50)
    given = await ctx.ask(user_name=name, greeting=greeting, roots=ListRoots())
    return f"{given['user_name'].action} {given['greeting'].text} {len(given['roots'])}"


@server.tool
async def test_input_required_result_multi_round(ctx: Context) -> str:
    """Needs one answer after the other."""
    name = await ctx.elicit("What is your name?", NAME_FORM, key="step1")
    color_form = {"type": "object", "properties": {"color": {"type": "string"}}}
    color = await ctx.elicit("What is your favourite colour?", color_form, key="step2")
    return f"{name.content} {color.content}"


@server.tool
async def test_input_required_result_tampered_state(ctx: Context) -> str:
    """Needs a confirmation, and notices when somebody changes what it remembers."""
    await ctx.step("secret", lambda: "sealed")
    await ctx.elicit("Please confirm", {"type": "object", "properties": {"ok": {"type": "boolean"}}}, key="confirm")
    return "confirmed"


@server.tool
async def test_input_required_result_capabilities(ctx: Context) -> str:
    """Asks whomever the client can ask."""
    if ctx.client.capabilities.elicitation is not None:
        return str((await ctx.elicit("What is your name?", NAME_FORM)).action)
    return (await ctx.sample("Say something", max_tokens=20)).text


# Resources.


@server.resource("test://static-text", name="Static Text Resource", mime_type="text/plain")
async def static_text() -> str:
    """A text that never changes."""
    return "This is the content of the static text resource."


@server.resource("test://static-binary", name="Static Binary Resource", mime_type="image/png")
async def static_binary() -> bytes:
    """An image that never changes."""
    return PIXEL


@server.resource("test://template/{id}/data", name="Template Resource", mime_type="application/json")
async def template_data(id: str) -> dict[str, Any]:
    """Data by its id."""
    return {"id": id, "templateTest": True, "data": f"Data for ID: {id}"}


@server.resource("test://watched-resource", name="Watched Resource", mime_type="text/plain")
async def watched() -> str:
    """A text that clients may follow."""
    return "Watched resource content"


# Prompts.


@server.prompt
async def test_simple_prompt() -> str:
    """A prompt without arguments."""
    return "This is a simple prompt for testing."


@server.prompt
async def test_prompt_with_arguments(arg1: str, arg2: str) -> str:
    """A prompt with two arguments."""
    return f"Prompt with arguments: arg1='{arg1}', arg2='{arg2}'"


@test_prompt_with_arguments.complete("arg1")
async def complete_arg1(value: str) -> list[str]:
    return [word for word in ("test", "testing", "paris") if word.startswith(value)]


@server.prompt
async def test_prompt_with_embedded_resource(resourceUri: str) -> list[PromptMessage]:
    """A prompt with a resource in place."""
    resource = ResourceContents(resourceUri, "text/plain", "Embedded resource content for testing.")
    return [
        PromptMessage("user", EmbeddedResource(resource=resource)),
        PromptMessage("user", TextContent(text="Please process the embedded resource above.")),
    ]


@server.prompt
async def test_prompt_with_image() -> list[PromptMessage]:
    """A prompt with an image."""
    from base64 import b64encode

    image = ImageContent(data=b64encode(PIXEL).decode(), mime_type="image/png")
    return [
        PromptMessage("user", image),
        PromptMessage("user", TextContent(text="Please analyze the image above.")),
    ]


@server.prompt
async def test_input_required_result_prompt(ctx: Context) -> str:
    """A prompt that needs the user's answer."""
    form = {"type": "object", "properties": {"context": {"type": "string"}}}
    answer = await ctx.elicit("What context should the prompt have?", form, key="user_context")
    return f"Prompt with context: {answer.content}"


# Tasks.

CONFIRM_FORM = {"type": "object", "properties": {"confirm": {"type": "boolean"}}}
EITHER_FORM = {"type": "object", "properties": {"name": {"type": "string"}, "confirm": {"type": "boolean"}}}


@server.tool
async def greet(name: str) -> str:
    """Greets at once."""
    return f"Hello, {name}!"


@server.tool(task=True)
async def slow_compute(seconds: float, label: str = "") -> str:
    """Takes its time."""
    await asyncio.sleep(seconds)
    return f"Computed {label}"


@server.tool(task="required")
async def failing_job() -> str:
    """Fails as a tool, and runs only as a task."""
    await asyncio.sleep(1)
    raise ToolError("The job failed")


@server.tool(task=True)
async def protocol_error_job() -> str:
    """Fails with a JSON-RPC error."""
    raise RpcError(-32050, "The job broke the protocol")


@server.tool(task=True)
async def confirm_delete(filename: str, ctx: Context) -> str:
    """Asks before it deletes."""
    answer = await ctx.elicit(f"Delete {filename}?", CONFIRM_FORM)
    return f"Deleted {filename}" if answer.accepted else f"Kept {filename}"


@server.tool(task=True)
async def multi_input(ctx: Context) -> str:
    """Asks two questions at once."""
    answers = await ctx.ask(name=Elicit("Who?", EITHER_FORM), confirm=Elicit("Really?", EITHER_FORM))
    return f"{answers['name'].content} {answers['confirm'].content}"


@server.tool(task=TaskOptions(required=True, begin="later"))
async def test_tool_with_task(ctx: Context) -> str:
    """Asks before its task begins."""
    answer = await ctx.elicit("What is your name?", NAME_FORM)
    await ctx.task.begin()
    return f"Hello, {answer.content['name']}"


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, default=3001)
    server.run("http", port=parser.parse_args().port, host="localhost")
