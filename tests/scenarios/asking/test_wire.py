"""How questions look on the wire of each version, and what their answers become."""

import enum
import json
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, NotRequired, TypedDict

import msgspec
import pydantic
import pytest

from dragoman import Context, DefinitionError, Elicit, Sample, Server, tool, types
from dragoman.testing.wire import WirePeer
from scenarios.wire import text

ERAS = ["2025-06-18", "2025-11-25", "stateless"]
CAPABILITIES: types.Json = {"elicitation": {"form": {}, "url": {}}, "sampling": {"tools": {}}, "roots": {}}
every_era = pytest.mark.parametrize("era", ERAS)


async def exchange(
    ask: Callable[[Context], Coroutine[Any, Any, Any]], era: str, answer: types.Json
) -> tuple[types.Json, types.Json]:
    """Let a tool ask once; return what the client was asked, without its envelope, and the response."""

    async def handler(ctx: Context) -> str:
        return repr(await ask(ctx))

    server = Server("asking", tools=[handler], secret="a secret of sixteen")
    params = {"name": "handler"}
    async with WirePeer(server, era, capabilities=CAPABILITIES) as peer:
        if era != "stateless":
            id = peer.start("tools/call", params)
            asked = await peer.receive()
            peer.answer(asked.pop("id"), answer)
            del asked["jsonrpc"]
            return asked, await peer.response(id)
        result = (await peer.request("tools/call", params))["result"]
        ((key, asked),) = result["inputRequests"].items()
        retry = {**params, "inputResponses": {key: answer}, "requestState": result["requestState"]}
        return asked, await peer.request("tools/call", retry)


class Color(enum.Enum):
    RED = "#f00"
    LIGHT_BLUE = "#0af"


@dataclass
class AsDataclass:
    name: str
    age: int = 30


class AsStruct(msgspec.Struct):
    name: str
    age: int = 30


class AsTypedDict(TypedDict):
    name: str
    age: NotRequired[int]


class AsModel(pydantic.BaseModel):
    name: str
    age: int = 30


AS_SCHEMA = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "age": {"type": "integer", "default": 30}},
    "required": ["name"],
}


async def requested_schema(schema: Any, era: str) -> str:
    asked, _ = await exchange(lambda ctx: ctx.elicit("Fill in", schema), era, {"action": "decline"})
    return json.dumps(asked["params"]["requestedSchema"])


@every_era
@pytest.mark.covers("ELI-06", "ELI-07")
@pytest.mark.parametrize("schema", [AsDataclass, AsStruct, AsTypedDict, AsModel, AS_SCHEMA], ids=str)
async def test_a_form_is_made_of_any_kind_of_record(era, schema):
    asked, response = await exchange(
        lambda ctx: ctx.elicit("Fill in", schema), era, {"action": "accept", "content": {"name": "Ada", "age": 36}}
    )
    assert asked["method"] == "elicitation/create"
    assert asked["params"]["message"] == "Fill in"
    assert asked["params"].get("mode") == (None if era == "2025-06-18" else "form")
    fields = asked["params"]["requestedSchema"]["properties"]
    has_default = era != "2025-06-18" and schema is not AsTypedDict
    assert fields["age"]["type"] == "integer"
    assert fields["age"].get("default") == (30 if has_default else None)
    assert asked["params"]["requestedSchema"]["required"] == ["name"]
    made = schema(name="Ada", age=36) if isinstance(schema, type) else {"name": "Ada", "age": 36}
    assert repr(made) in text(response)


@dataclass
class Choices:
    """Every kind of choice."""

    titled: Color
    untitled: Literal["a", "b"]
    several: list[Literal["a", "b"]]
    several_titled: list[Color]


TITLED = '[{"const": "#f00", "title": "Red"}, {"const": "#0af", "title": "Light blue"}]'
CHOICES = (
    '{"type": "object", "properties": {'
    f'"titled": {{"type": "string", "oneOf": {TITLED}}}, '
    '"untitled": {"type": "string", "enum": ["a", "b"]}, '
    '"several": {"type": "array", "items": {"type": "string", "enum": ["a", "b"]}}, '
    f'"several_titled": {{"type": "array", "items": {{"anyOf": {TITLED}}}}}'
    '}, "required": ["titled", "untitled", "several", "several_titled"]}'
)


TITLES_BESIDE = '"enum": ["#f00", "#0af"], "enumNames": ["Red", "Light blue"]'
PLAIN_CHOICES = (
    '{"type": "object", "properties": {'
    f'"titled": {{"type": "string", {TITLES_BESIDE}}}, '
    '"untitled": {"type": "string", "enum": ["a", "b"]}, '
    '"several": {"type": "string", "enum": ["a", "b"]}, '
    f'"several_titled": {{"type": "string", {TITLES_BESIDE}}}'
    '}, "required": ["titled", "untitled", "several", "several_titled"]}'
)


@every_era
@pytest.mark.covers("ELI-08")
async def test_choices_are_said_as_the_version_knows_them(era):
    expected = PLAIN_CHOICES if era == "2025-06-18" else CHOICES
    assert json.loads(await requested_schema(Choices, era)) == json.loads(expected)


@every_era
@pytest.mark.covers("ELI-08")
async def test_chosen_values_arrive_as_what_they_stand_for(era):
    several, titled = ("a", "#f00") if era == "2025-06-18" else (["a"], ["#f00"])
    content = {"titled": "#0af", "untitled": "b", "several": several, "several_titled": titled}
    _, response = await exchange(
        lambda ctx: ctx.elicit("Choose", Choices), era, {"action": "accept", "content": content}
    )
    assert repr(Choices(Color.LIGHT_BLUE, "b", ["a"], [Color.RED])) in text(response)


@dataclass
class Defaults:
    """Fields that need not be filled in."""

    agreed: bool = True
    ratio: float = 0.5
    word: str = "yes"
    choice: Literal["a", "b"] = "b"
    color: Color = Color.RED
    several: list[Literal["a", "b"]] = field(default_factory=lambda: ["a"])
    note: str | None = None


@every_era
@pytest.mark.covers("ELI-07", "ELI-08")
async def test_defaults_are_said_to_the_versions_that_know_them(era):
    schema = json.loads(await requested_schema(Defaults, era))
    assert "required" not in schema
    defaults = {name: said["default"] for name, said in schema["properties"].items() if "default" in said}
    if era == "2025-06-18":
        assert defaults == {"agreed": True}
    else:
        expected = {"agreed": True, "ratio": 0.5, "word": "yes", "choice": "b", "color": "#f00"}
        assert {name: value for name, value in defaults.items() if name != "several"} == expected
    assert schema["properties"]["note"] == {"type": "string"}


@dataclass
class Limits:
    word: Annotated[str, msgspec.Meta(min_length=2, max_length=5, title="Word", description="A word")]
    number: Annotated[int, msgspec.Meta(ge=1, le=9)]


@every_era
@pytest.mark.covers("ELI-06")
async def test_titles_descriptions_and_limits_are_said(era):
    assert json.loads(await requested_schema(Limits, era))["properties"] == {
        "word": {"type": "string", "title": "Word", "description": "A word", "minLength": 2, "maxLength": 5},
        "number": {"type": "integer", "minimum": 1, "maximum": 9},
    }


@pytest.mark.covers("ELI-06")
@pytest.mark.parametrize("schema", [{"type": "string"}, {"type": "object"}])
def test_a_form_is_an_object_with_properties(schema):
    with pytest.raises(DefinitionError, match="object with properties"):
        Elicit("Fill in", schema)


@pytest.mark.covers("ELI-06")
@pytest.mark.parametrize("schema", [list[str], AsDataclass | None])
def test_a_single_field_is_one_that_a_form_can_have(schema):
    with pytest.raises(DefinitionError, match="'value'"):
        Elicit("Fill in", schema)


@every_era
@pytest.mark.covers("ELI-06")
@pytest.mark.parametrize("schema", [AsDataclass, AS_SCHEMA], ids=["type", "dict"])
@pytest.mark.parametrize(
    "answer",
    [
        {"action": "accept", "content": {"name": "Ada", "age": "old"}},
        {"action": "accept", "content": {"age": 1}},
        {"action": "accept"},
        {"action": "ponder"},
        {"content": {"name": "Ada"}},
        {"action": "accept", "content": [1]},
    ],
    ids=["wrong kind", "missing", "no content", "unknown action", "no action", "no object"],
)
async def test_an_answer_that_does_not_fit_is_refused(era, schema, answer):
    _, response = await exchange(lambda ctx: ctx.elicit("Fill in", schema), era, answer)
    assert response["error"]["code"] == -32602
    assert "The answer" in response["error"]["message"]


# Pages to visit.


@pytest.mark.covers("ELI-03", "BEY-15")
@pytest.mark.parametrize("era", ["2025-11-25", "stateless"])
@pytest.mark.parametrize("id", ["visit-1", None])
async def test_a_page_to_visit_has_an_id_in_the_version_that_demands_one(era, id):
    asked, response = await exchange(
        lambda ctx: ctx.elicit_url("Sign in", "https://example.com/in", id), era, {"action": "accept"}
    )
    identified = {"elicitationId": id or "https://example.com/in"} if era == "2025-11-25" else {}
    assert asked == {
        "method": "elicitation/create",
        "params": {"mode": "url", "message": "Sign in", "url": "https://example.com/in", **identified},
    }
    assert text(response) == "ElicitResult(action='accept', content=None)"


# Models and roots.


@tool
def add(left: int, right: int) -> int:
    """Add two numbers."""
    return left + right


SAID = {"role": "assistant", "model": "poet", "stopReason": "endTurn"}


@every_era
@pytest.mark.covers("SMP-01", "SMP-02")
async def test_every_parameter_of_sampling_is_on_the_wire(era):
    async def ask(ctx: Context) -> str:
        answer = await ctx.sample(
            "Write",
            max_tokens=9,
            system_prompt="Be brief",
            model_preferences={"hints": [{"name": "poet"}], "cost_priority": 0.5},
            include_context="none",
            temperature=0.5,
            stop_sequences=["end"],
            metadata={"any": 1},
        )
        return f"{answer.text} {answer.model} {answer.stop_reason}"

    asked, response = await exchange(ask, era, {**SAID, "content": {"type": "text", "text": "a poem"}})
    assert asked == {
        "method": "sampling/createMessage",
        "params": {
            "messages": [{"role": "user", "content": {"type": "text", "text": "Write"}}],
            "maxTokens": 9,
            "systemPrompt": "Be brief",
            "modelPreferences": {"hints": [{"name": "poet"}], "costPriority": 0.5},
            "includeContext": "none",
            "temperature": 0.5,
            "stopSequences": ["end"],
            "metadata": {"any": 1},
        },
    }
    assert text(response) == "'a poem poet endTurn'"


@every_era
@pytest.mark.covers("SMP-02")
async def test_what_is_not_given_to_a_model_is_not_sent(era):
    asked, _ = await exchange(
        lambda ctx: ctx.sample(types.SamplingMessage("user", types.TextContent("Write"))),
        era,
        {**SAID, "content": {"type": "text", "text": "a poem"}},
    )
    assert sorted(asked["params"]) == ["maxTokens", "messages"]


@pytest.mark.covers("SMP-01", "BEY-16")
@pytest.mark.parametrize("era", ["2025-11-25", "stateless"])
async def test_a_model_may_be_given_tools(era):
    plain = {"name": "plain", "input_schema": {"type": "object"}}
    used = {"type": "tool_use", "id": "1", "name": "add", "input": {"left": 1, "right": 2}}
    asked, response = await exchange(
        lambda ctx: ctx.sample("Add", tools=[add, add.definition, plain], tool_choice=types.ToolChoice("required")),
        era,
        {**SAID, "content": [used]},
    )
    assert [offered["name"] for offered in asked["params"]["tools"]] == ["add", "add", "plain"]
    assert asked["params"]["toolChoice"] == {"mode": "required"}
    assert "ToolUseContent" in text(response)


def conversation(*messages: tuple[types.Role, list[Any]]) -> list[types.SamplingMessage]:
    return [types.SamplingMessage(role, blocks) for role, blocks in messages]


USE = types.ToolUseContent(id="1", name="add", input={})
ANSWERED = types.ToolResultContent(tool_use_id="1", content=[])
OTHER = types.ToolResultContent(tool_use_id="2", content=[])
TEXT = types.TextContent("text")


@pytest.mark.covers("SMP-01")
@pytest.mark.parametrize(
    "messages",
    [
        conversation(("assistant", [USE])),
        conversation(("assistant", [USE]), ("user", [TEXT])),
        conversation(("assistant", [USE]), ("user", [ANSWERED, TEXT])),
        conversation(("assistant", [USE]), ("user", [OTHER])),
        conversation(("assistant", [USE]), ("user", [ANSWERED, ANSWERED])),
        conversation(("user", [ANSWERED])),
    ],
    ids=["last", "unanswered", "mixed", "other", "twice", "unasked"],
)
def test_tool_uses_and_their_results_must_balance(messages):
    with pytest.raises(DefinitionError, match="tool"):
        Sample(messages)


@pytest.mark.covers("SMP-01")
def test_balanced_tool_uses_are_accepted():
    question = Sample(conversation(("assistant", [USE, TEXT]), ("user", [ANSWERED])))
    assert len(question.request().params.messages) == 2


@pytest.mark.covers("SMP-01")
def test_a_message_that_is_none_is_refused():
    with pytest.raises(DefinitionError, match="sampling message"):
        Sample({"role": "nobody", "content": {"type": "text", "text": "x"}})


@every_era
@pytest.mark.covers("ROO-01", "BEY-17")
async def test_roots_are_listed(era):
    roots = [{"uri": "file:///home", "name": "home"}, {"uri": "file:///tmp"}]
    asked, response = await exchange(lambda ctx: _described(ctx.list_roots()), era, {"roots": roots})
    assert asked["method"] == "roots/list"
    assert text(response) == "[('file:///home', 'home'), ('file:///tmp', None)]"


async def _described(listing: Coroutine[Any, Any, list[types.Root]]) -> list[Any]:
    return [(root.uri, root.name) for root in await listing]


@every_era
@pytest.mark.covers("ROO-01", "SMP-01")
@pytest.mark.parametrize("kind", ["list_roots", "sample"])
async def test_a_malformed_answer_of_roots_or_a_model_is_refused(era, kind):
    async def ask(ctx: Context) -> Any:
        return await (ctx.list_roots() if kind == "list_roots" else ctx.sample("Write"))

    _, response = await exchange(ask, era, {"nothing": "of use"})
    assert response["error"]["code"] == -32602
    assert "malformed" in response["error"]["message"]
