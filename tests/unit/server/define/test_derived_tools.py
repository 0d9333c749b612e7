"""A tool of one's own under a view, called by clients of both eras."""

import asyncio
from dataclasses import dataclass

import pytest

from dragoman import Argument, AsyncClient, Context, Server, Tool, ToolError, View, tool
from dragoman.errors import DefinitionError
from dragoman.server.define.derived_tools import derived_tool

pytestmark = pytest.mark.parametrize("mode", ["handshake", "stateless"])


@dataclass
class Report:
    city: str
    days: int
    units: str


@tool(tags={"weather"}, annotations={"readOnlyHint": True})
def forecast(city: str, days: int = 1, units: str = "C") -> Report:
    """Return the weather of a city."""
    return Report(city, days, units)


def calls(mode, derived, *arguments, **options):
    async def main():
        server = Server("weather", tools=[derived])
        async with AsyncClient(server, mode=mode, **options) as client:
            [listed] = await client.tools()
            results = [await client.call_tool(listed, one, raise_on_error=False) for one in arguments]
        return listed, results

    return asyncio.run(main())


def test_a_derived_tool_runs_its_original_with_other_arguments(mode):
    view = View(name="oslo", arguments={"city": Argument(fixed="Oslo"), "days": Argument(name="for", default=3)})
    listed, [result, refused] = calls(mode, derived_tool(forecast, view), {"units": "F"}, {"city": "Rome"})
    assert (listed.name, listed.description) == ("oslo", "Return the weather of a city.")
    assert listed.input_schema["properties"].keys() == {"for", "units"}
    assert listed.annotations.read_only_hint
    assert result.structured == {"city": "Oslo", "days": 3, "units": "F"}
    assert refused.is_error
    assert "'oslo' has no argument 'city'" in refused.text


def test_a_derived_tool_of_a_derived_tool_applies_both_views(mode):
    first = derived_tool(forecast, View(name="a", arguments={"city": Argument(name="place")}, pick="city"))
    second = derived_tool(first, View(name="b", arguments={"place": Argument(name="where", default="Bergen")}))
    listed, [result] = calls(mode, second, {})
    assert listed.input_schema["properties"].keys() == {"where", "days", "units"}
    assert result.structured == "Bergen"


def test_a_fixed_argument_may_depend_on_the_request(mode):
    async def client_name(ctx: Context) -> str:
        return ctx.client.info.name

    derived = derived_tool(forecast, View(name="mine", arguments={"city": Argument(fixed=client_name)}))
    _, [result] = calls(mode, derived, {}, name="tester")
    assert result.structured["city"] == "tester"


def test_a_computed_value_that_does_not_fit_fails_without_telling_the_client_what_it_is(mode, caplog):
    derived = derived_tool(forecast, View(name="mine", arguments={"city": Argument(fixed=lambda ctx: {"secret": 1})}))
    _, [result] = calls(mode, derived, {})
    assert result.is_error
    assert "secret" not in result.text
    assert "does not take" in caplog.text


def test_a_derived_tool_lists_the_schema_of_what_it_picks(mode):
    listed, [result] = calls(mode, derived_tool(forecast, View(name="days", pick="{days: days}")), {"city": "Oslo"})
    assert result.structured == {"days": 1}
    assert listed.output_schema["required"] == ["days"]


def test_a_function_reshapes_the_result(mode):
    async def shorten(result, ctx):
        return f"{ctx.client.info.name}: {result.content[0].text[:7]}"

    listed, [result] = calls(mode, derived_tool(forecast, View(result=shorten)), {"city": "Oslo"}, name="tester")
    assert result.structured == result.text == 'tester: {"city"'
    assert listed.output_schema is None


@pytest.mark.parametrize(("answer", "text"), [({}, "Oslo"), (False, "did not confirm"), (None, "did not confirm")])
def test_a_user_confirms_each_call(mode, answer, text):
    questions = []

    def on_elicitation(request):
        questions.append(request.message)
        return answer

    derived = derived_tool(forecast, View(name="paid", confirm=True))
    _, [result] = calls(mode, derived, {"city": "Oslo"}, on_elicitation=on_elicitation)
    assert questions == ['Call the tool \'paid\' with {"city":"Oslo"}?']
    assert text in result.text
    assert result.is_error is (answer != {})


def test_a_client_that_cannot_ask_its_user_cannot_call_a_tool_that_needs_confirmation(mode):
    derived = derived_tool(forecast, View(name="paid", confirm="Really?"))

    async def main():
        async with AsyncClient(Server("weather", tools=[derived]), mode=mode) as client:
            await client.call_tool("paid", {"city": "Oslo"})

    with pytest.raises(Exception, match="elicitation"):
        asyncio.run(main())


def test_a_tool_that_asks_runs_again_under_its_view(mode):
    runs = []

    @tool
    async def book(city: str, ctx: Context) -> str:
        runs.append(city)
        nights = await ctx.elicit("Nights?", int)
        return f"{city} {nights.content}"

    derived = derived_tool(book, View(name="book_oslo", arguments={"city": Argument(fixed="Oslo")}))
    _, [result] = calls(mode, derived, {}, on_elicitation=lambda request: {"value": 2})
    assert result.text == "Oslo 2"
    assert set(runs) == {"Oslo"}


def test_a_tool_of_a_class_keeps_the_options_of_the_class(mode):
    class Weather(Tool):
        name = "weather"
        timeout = 5.0
        tags = ("sky",)

        def call(self, city: str) -> str:
            if city == "":
                raise ToolError("Which city?")
            return city

    derived = derived_tool(Weather(), View(name="other", arguments={"city": Argument(name="town")}))
    assert (derived.timeout, set(derived.tags)) == (5.0, {"sky"})
    _, [result, failed] = calls(mode, derived, {"town": "Oslo"}, {"town": ""})
    assert result.text == "Oslo"
    assert failed.text == "Which city?"


@pytest.mark.parametrize(
    ("view", "message"),
    [
        (View(hidden=True), "hides it"),
        (View(name="a b"), "not allowed"),
        (View(arguments={"town": Argument(fixed="x")}), "has no argument 'town'"),
    ],
)
def test_a_view_that_derives_no_tool_is_refused(mode, view, message):
    with pytest.raises(DefinitionError, match=message):
        derived_tool(forecast, view)
