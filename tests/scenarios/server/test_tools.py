"""How tools are defined, listed and called, seen from the wire."""

import functools
import inspect
from typing import Any

import pytest

from dragoman import Context, DefinitionError, Server, Tool, tool, types
from dragoman.config import Configuration
from dragoman.errors import ToolNotUnique, ValidationError
from dragoman.server import InputSchema
from dragoman.testing.wire import WirePeer
from scenarios.wire import VERSIONS, ask, call_result, text

ERAS = ["none", "handshake", "stateless"]


def listed(server: Server, *, era: str = "none") -> list[types.Json]:
    return ask(server, "tools/list", era=era)["result"]["tools"]


class Weather(Tool):
    """Weather for a city.

    It never rains.
    """

    title = "The weather"

    async def call(self, city: str, *, ctx: Context) -> str:
        """Args: city: Where."""
        return f"{city}: sunny"


def add(a: int, b: int = 2) -> int:
    """Adds numbers."""
    return a + b


ADDITION = {
    "name": "add",
    "description": "Adds numbers.",
    "inputSchema": {
        "type": "object",
        "properties": {"a": {"type": "integer"}, "b": {"type": "integer", "default": 2}},
        "required": ["a"],
    },
    "outputSchema": {
        "type": "object",
        "properties": {"result": {"type": "integer"}},
        "required": ["result"],
        "x-dragoman-wrapped": True,
        "x-fastmcp-wrap-result": True,
    },
}


# Three ways to define.


@pytest.mark.covers("TOOL-01", "TOOL-04")
@pytest.mark.parametrize("era", ERAS)
def test_a_class_with_a_call_method_is_a_tool(era):
    server = Server("weather", tools=[Weather])
    assert listed(server, era=era)[0] == {
        "name": "weather",
        "title": "The weather",
        "description": "Weather for a city.\n\nIt never rains.",
        "inputSchema": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    }
    assert text(call_result(server, "weather", era=era, city="Oslo")) == "Oslo: sunny"


@pytest.mark.covers("TOOL-02", "TOOL-03")
@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("how", ["object", "free decorator", "decorator", "function", "added"])
def test_a_function_is_a_tool_whichever_way_it_is_registered(how, era):
    server = Server(
        "sums", tools={"object": [Tool.define(add)], "free decorator": [tool(add)], "function": [add]}.get(how, [])
    )
    if how == "decorator":
        server.tool(add)
    if how == "added":
        server.add_tool(add)
    assert listed(server, era="stateless") == [ADDITION]
    assert text(call_result(server, "add", era=era, a=1)) == "3"


@pytest.mark.covers("TOOL-01")
def test_an_instance_of_a_tool_class_keeps_its_own_state():
    class Greet(Tool):
        def __init__(self, greeting: str) -> None:
            self.greeting = greeting
            super().__init__(name=greeting.lower())

        def call(self, name: str) -> str:
            return f"{self.greeting} {name}"

    server = Server("greetings", tools=[Greet("Hello"), Greet("Moin")])
    assert text(call_result(server, "moin", name="Ada")) == "Moin Ada"
    assert text(call_result(server, "hello", name="Ada")) == "Hello Ada"


@pytest.mark.covers("TOOL-08")
def test_a_subclass_of_a_tool_class_inherits_what_it_does_not_set():
    class Forecast(Weather):
        """Weather of tomorrow."""

    weather, forecast = listed(Server("weather", tools=[Weather, Forecast]))
    assert (weather["name"], forecast["name"]) == ("weather", "forecast")
    assert forecast["title"] == "The weather"
    assert forecast["description"] == "Weather of tomorrow."


@pytest.mark.covers("TOOL-02", "TOOL-03")
def test_one_tool_serves_any_number_of_servers():
    shared = tool(name="plus")(add)
    servers = [Server("one", tools=[shared]), Server("two", tools=[shared])]
    assert [text(call_result(server, "plus", a=5)) for server in servers] == ["7", "7"]
    assert servers[0].registry.tools["plus"] is servers[1].registry.tools["plus"] is shared


@pytest.mark.covers("TOOL-03")
def test_a_decorated_function_is_still_the_function():
    server = Server("sums")
    decorated = server.tool(add)
    assert decorated(1, b=4) == 5
    assert inspect.signature(decorated) == inspect.signature(add)
    assert (decorated.__name__, decorated.__doc__, decorated.__wrapped__) == ("add", "Adds numbers.", add)


@pytest.mark.covers("TOOL-03")
def test_a_function_may_be_decorated_for_two_servers():
    first, second = Server("first"), Server("second")
    second.tool(first.tool(add))
    assert listed(second, era="stateless") == listed(first, era="stateless") == [ADDITION]
    assert text(call_result(second, "add", a=1)) == "3"


@pytest.mark.covers("TOOL-03", "TOOL-04")
def test_bound_methods_partials_and_callable_objects_are_tools():
    class Scale:
        def __init__(self, factor: int) -> None:
            self.factor = factor

        def times(self, x: int) -> int:
            return x * self.factor

        def __call__(self, x: int) -> int:
            return self.times(x)

    server = Server("scales", tools=[Scale(3).times, Scale(4), functools.partial(add, b=10)])
    assert [entry["name"] for entry in listed(server)] == ["times", "scale", "add"]
    assert [
        text(call_result(server, name, **{key: 2})) for name, key in [("times", "x"), ("scale", "x"), ("add", "a")]
    ] == [
        "6",
        "8",
        "12",
    ]


@pytest.mark.covers("TOOL-01")
@pytest.mark.parametrize("thing", [5, "add", int, Server])
def test_what_is_neither_tool_nor_function_is_refused(thing):
    with pytest.raises(DefinitionError, match="is not a Tool: give a Tool, a class of it, or a function"):
        Server("odd", tools=[thing])


# Names.


@pytest.mark.covers("TOOL-05", "TOOL-06")
@pytest.mark.parametrize("name", ["a", "A.b-c_9", "x" * 128, "getWeather"])
def test_a_name_that_is_given_stays_as_it_is(name):
    server = Server("names", tools=[Tool.define(add, name=name)])
    assert listed(server)[0]["name"] == name
    assert text(call_result(server, name, a=1)) == "3"


@pytest.mark.covers("TOOL-06")
@pytest.mark.parametrize("name", ["a b", "x" * 129, "é", "a/b", "a\n", "<lambda>"])
def test_a_name_that_clients_cannot_use_is_refused(name):
    with pytest.raises(DefinitionError, match="is not allowed: use 1 to 128 letters, digits") as refusal:
        Tool.define(add, name=name)
    assert repr(name) in str(refusal.value)


@pytest.mark.covers("TOOL-07")
def test_two_tools_of_one_name_are_refused():
    with pytest.raises(ToolNotUnique, match="'add'"):
        Server("sums", tools=[add, tool(add)])
    server = Server("sums", tools=[add])
    with pytest.raises(ToolNotUnique, match="'add'"):
        server.tool(name="add")(lambda: 1)
    assert text(call_result(server, "add", a=1)) == "3"


@pytest.mark.covers("TOOL-24")
async def test_tools_come_and_go_while_a_client_is_connected():
    server = Server("sums")
    async with WirePeer(server) as peer:
        assert (await peer.request("tools/list"))["result"] == {"tools": []}
        added = server.add_tool(add)
        assert [entry["name"] for entry in (await peer.request("tools/list"))["result"]["tools"]] == ["add"]
        server.remove_tool(added)
        assert (await peer.request("tools/list"))["result"] == {"tools": []}
        assert (await peer.request("tools/call", {"name": "add"}))["error"]["code"] == -32602
        server.add_tool(add)
        server.remove_tool("add")
        with pytest.raises(DefinitionError, match="'add' is not registered"):
            server.remove_tool("add")
        assert peer.received == []


# What is listed.


@pytest.mark.covers("TOOL-09")
def test_a_description_that_is_given_wins_over_the_docstring_and_an_empty_one_hides_it():
    given, hidden = listed(
        Server("sums", tools=[Tool.define(add, name="x", description="Sums."), tool(description="")(add)])
    )
    assert (given["description"], hidden["description"]) == ("Sums.", "")


@pytest.mark.covers("TOOL-09")
def test_options_that_are_none_are_options_not_given():
    options = dict.fromkeys(["name", "title", "description", "annotations", "meta", "input_schema", "output_schema"])
    assert listed(Server("sums", tools=[tool(**options)(add)]), era="stateless") == [ADDITION]


FULL = {
    "title": "Sum",
    "annotations": {"title": "Hint", "read_only_hint": True, "openWorldHint": False},
    "icons": [{"src": "a.png", "mime_type": "image/png", "sizes": ["1x1"], "theme": "dark"}, types.Icon("b.png")],
    "meta": {"example.com/x": [1, {"y": None}]},
}


@pytest.mark.covers("TOOL-09", "TOOL-19", "TOOL-20", "TOOL-21", "TOOL-22", "TOOL-23")
@pytest.mark.parametrize("era", VERSIONS)
def test_a_listed_tool_has_what_its_version_knows(era):
    expected = {"name": "add", "description": "Adds numbers.", "inputSchema": ADDITION["inputSchema"]}
    if era >= "2025-03-26":
        expected["annotations"] = {"title": "Hint", "readOnlyHint": True, "openWorldHint": False}
    if era >= "2025-06-18":
        expected |= {"title": "Sum", "_meta": {"example.com/x": [1, {"y": None}]}}
        expected["outputSchema"] = ADDITION["outputSchema"]
    if era >= "2025-11-25":
        icon = {"src": "a.png", "mimeType": "image/png", "sizes": ["1x1"], "theme": "dark"}
        expected["icons"] = [icon, {"src": "b.png"}]
    assert listed(Server("sums", tools=[tool(**FULL)(add)]), era=era) == [expected]


@pytest.mark.covers("TOOL-19", "TOOL-23")
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"annotations": {"readOnly": True}}, "has no 'readOnly'; it takes destructiveHint, idempotentHint"),
        ({"annotations": {"readOnlyHint": "yes"}}, "Expected `bool | null`, got `str` - at `\\$.readOnlyHint`"),
        ({"annotations": types.ToolAnnotations(read_only_hint="yes")}, "Expected `bool | null`"),
        ({"annotations": ["readOnlyHint"]}, "must be a ToolAnnotations or a dict, not list"),
        ({"icons": [{"src": "a.png", "theme": "pink"}]}, "Invalid enum value 'pink'"),
        ({"icons": [types.Icon("a.png", theme="pink")]}, "Invalid enum value 'pink'"),
        ({"icons": [{"theme": "dark"}]}, "missing required field `src`"),
        ({"title": 5}, "title of add must be text, not 5"),
        ({"meta": {"x": object()}}, "'add' cannot be listed: "),
        ({"meta": ["x"]}, "'add' cannot be listed: "),
        ({"colour": "red"}, "Tool has no option 'colour'"),
        ({"run": 1}, "Tool has no option 'run'"),
        ({"_method": "x"}, "Tool has no option '_method'"),
        ({"definition": {}}, "Tool has no option 'definition'"),
    ],
)
def test_what_cannot_be_listed_is_refused_when_the_tool_is_defined(options, message):
    with pytest.raises(DefinitionError, match=message):
        Tool.define(add, **options)


# Schemas that the author gives.

CITY = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "properties": {"city": {"$ref": "#/$defs/City"}, "days": {"type": "integer", "maximum": 9}},
    "required": ["city", "days"],
    "additionalProperties": False,
    "$defs": {"City": {"type": "string", "minLength": 2}},
    "x-anything": [1],
}


def forecast(**given: Any) -> str:
    return repr(sorted(given.items()))


@pytest.mark.covers("SCH-01", "SCH-06")
@pytest.mark.parametrize("era", VERSIONS)
@pytest.mark.parametrize("schema", [CITY, InputSchema(CITY)], ids=["dict", "object"])
def test_an_input_schema_that_is_given_is_listed_verbatim(schema, era):
    server = Server("weather", tools=[tool(input_schema=schema)(forecast)])
    assert listed(server, era=era)[0]["inputSchema"] == CITY


@pytest.mark.covers("SCH-01", "TOOL-12", "TOOL-14", "TOOL-17", "BEY-10")
@pytest.mark.parametrize(
    ("arguments", "answer"),
    [
        ({"city": "Oslo", "days": 3}, "[('city', 'Oslo'), ('days', 3)]"),
        ({"city": "12", "days": "3"}, "[('city', '12'), ('days', 3)]"),
        (
            {"city": "O", "days": 10},
            'Invalid arguments: city: "O" is shorter than 2 characters; days: 10 is greater than',
        ),
        ({"days": "x"}, 'Missing required arguments: city. Invalid arguments: days: "x" is not of type "integer"'),
        ({}, "Missing required arguments: city, days"),
        ({"city": "Oslo", "days": 3, "x": 1}, "Invalid arguments: Additional properties are not allowed"),
    ],
)
def test_arguments_are_compared_with_a_given_schema(arguments, answer):
    server = Server("weather", tools=[tool(input_schema=CITY)(forecast)])
    result = call_result(server, "forecast", **arguments)
    assert text(result).startswith(answer)
    assert result.get("isError", False) is not answer.startswith("[")


@pytest.mark.covers("TOOL-12", "TOOL-13")
def test_without_validation_only_missing_arguments_are_refused():
    configuration = Configuration(validate_tool_call_arguments=False)
    server = Server("weather", tools=[tool(input_schema=CITY)(forecast)], configuration=configuration)
    assert text(call_result(server, "forecast", city="O", days="x")) == "[('city', 'O'), ('days', 'x')]"
    assert call_result(server, "forecast", days=1) == {
        "content": [{"type": "text", "text": "Missing required arguments: city"}],
        "isError": True,
    }


@pytest.mark.covers("SCH-03", "SCH-08", "SCH-09")
@pytest.mark.parametrize("option", ["input_schema", "output_schema"])
@pytest.mark.parametrize(
    ("schema", "message"),
    [
        (
            {"type": "object", "properties": {"a": {"$ref": "https://example.com/a.json"}}},
            "leads outside the JSON Schema",
        ),
        ({"type": "object", "properties": {"a": {"$ref": "file:///etc/passwd"}}}, "leads outside the JSON Schema"),
        ({"type": "object", "properties": {"a": {"type": "text"}}}, "Invalid JSON Schema: properties.a.type"),
        ({"type": "object", "properties": {"a": {"type": "string", "pattern": "("}}}, "Invalid JSON Schema"),
        ("schema", "A JSON Schema must be an object, not str"),
    ],
)
def test_a_schema_that_cannot_be_served_is_refused_when_the_tool_is_defined(schema, message, option):
    with pytest.raises(DefinitionError, match=message):
        tool(**{option: schema})(forecast)


@pytest.mark.covers("SCH-03")
@pytest.mark.parametrize("era", ERAS)
def test_schemas_of_properties_without_a_type_are_those_of_objects(era):
    properties = {"properties": {"city": {"type": "string"}}, "required": ["city"]}
    made = tool("get", input_schema=properties, output_schema=properties)(lambda city: {"city": city})
    [listed] = ask(Server("weather", tools=[made]), "tools/list", era=era)["result"]["tools"]
    assert listed["inputSchema"] == listed["outputSchema"] == {"type": "object", **properties}


@pytest.mark.covers("SCH-01", "SCH-02")
def test_tools_have_their_schemas_whether_given_or_derived():
    def add(a: int, b: int = 2) -> int:
        return a + b

    given = {"type": "object", "properties": {"a": {"type": "integer"}, "b": {}}}
    server = Server("sums", tools=[add])
    server.tool(name="raw", input_schema=given, output_schema={"type": "integer"})(add)
    server.tool(name="untyped")(lambda: None)
    derived, raw, untyped = server.tools
    assert derived.input_schema == {
        "type": "object",
        "properties": {"a": {"type": "integer"}, "b": {"type": "integer", "default": 2}},
        "required": ["a"],
    }
    assert raw.input_schema["properties"] == given["properties"]
    assert derived.output_schema == raw.output_schema == {"type": "integer"}
    assert (untyped.input_schema, untyped.output_schema) == ({"type": "object", "properties": {}}, None)
    with pytest.raises(ValidationError, match="a: "):
        derived.input_schema.validate({"a": "x"})


# Arguments.


@pytest.mark.covers("TOOL-11", "TOOL-12", "BEY-10")
@pytest.mark.parametrize("era", ERAS)
def test_everything_that_is_missing_or_wrong_is_named_at_once(era):
    def book(city: str, days: int, beds: list[int], name: str) -> str:
        return city

    result = call_result(Server("hotel", tools=[book]), "book", era=era, days="many", beds=[1, "x", None])
    assert result["isError"] is True
    assert text(result) == (
        "Missing required arguments: city, name. Invalid arguments: days: Expected `int`, got `str`;"
        " beds[1]: Expected `int`, got `str`; beds[2]: Expected `int`, got `null`"
    )


@pytest.mark.covers("TOOL-17")
def test_text_that_holds_json_is_read_only_where_no_text_is_asked_for():
    def show(a: int, b: list[int], c: dict[str, int], d: str, e: str | int, f: bool = False) -> str:
        return repr((a, b, c, d, e, f))

    result = call_result(Server("shows", tools=[show]), "show", a="1", b="[2, 3]", c='{"x": 4}', d="5", e="6", f="true")
    assert text(result) == "(1, [2, 3], {'x': 4}, '5', '6', True)"


@pytest.mark.covers("TOOL-18")
@pytest.mark.parametrize("given", [{}, {"arguments": None}, {"arguments": {}}], ids=["absent", "null", "empty"])
@pytest.mark.parametrize("schema", [None, {"type": "object"}], ids=["derived schema", "given schema"])
def test_no_arguments_are_absent_null_or_empty(given, schema):
    def now(zone: str = "UTC") -> str:
        return zone

    server = Server("clock", tools=[tool(input_schema=schema)(now)])
    response = ask(server, "tools/call", {"name": "now", **given})
    assert response["result"] == {"content": [{"type": "text", "text": "UTC"}]}


@pytest.mark.covers("TOOL-12")
@pytest.mark.parametrize(
    "schema", [None, {"type": "object", "properties": {"a": {}}}], ids=["derived schema", "given schema"]
)
@pytest.mark.parametrize("arguments", [[1], "x", 5, True])
def test_arguments_that_are_no_object_do_not_fit(arguments, schema):
    server = Server("sums", tools=[tool(input_schema=schema)(add)])
    result = ask(server, "tools/call", {"name": "add", "arguments": arguments})["result"]
    assert result["isError"] is True
    assert text(result).startswith("Invalid arguments: ")


@pytest.mark.covers("TOOL-10", "BEY-08")
@pytest.mark.parametrize("era", ERAS)
def test_an_unknown_tool_is_an_error(era):
    response = ask(Server("empty"), "tools/call", {"name": "nope", "arguments": {}}, era=era)
    assert response["error"] == {"code": -32602, "message": "Unknown tool: nope"}
