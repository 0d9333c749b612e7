import pytest

from dragoman import Argument, View, types
from dragoman.errors import DefinitionError
from dragoman.views import ViewCatalog, Views


def tool(name, *arguments):
    return types.Tool(name=name, input_schema={"type": "object", "properties": {each: {} for each in arguments}})


def catalog(views, *tools, **lists):
    return ViewCatalog(Views.of(views), tools=tools, **lists)


def test_clients_see_renamed_tools_and_no_hidden_ones():
    views = {"search": View(name="find"), "delete_*": View(hidden=True)}
    shown = catalog(views, tool("search"), tool("delete_all"), tool("list"))
    assert list(shown.tools) == ["find", "list"]
    assert shown.tools["find"].upstream.name == "search"
    assert shown.findings == shown.unknown() == []
    shown.require_match()
    assert repr(shown) == "<ViewCatalog: 2 tools, 0 prompts, 0 findings>"


def test_the_tool_that_a_view_gives_a_name_has_it():
    shown = catalog({"search": View(name="find")}, tool("find"), tool("search"))
    assert shown.tools["find"].upstream.name == "search"
    assert [str(finding) for finding in shown.findings] == [
        "The view of 'find' does not match: 'search' would have the name 'find' too"
    ]


def test_a_name_that_views_give_to_two_tools_belongs_to_none():
    shown = catalog({"a": View(name="c"), "b": View(name="c")}, tool("a"), tool("b"))
    assert shown.tools == {}
    assert len(shown.findings) == 2


def test_two_tools_may_swap_their_names():
    shown = catalog({"a": View(name="b"), "b": View(name="a")}, tool("a"), tool("b"))
    assert {name: each.upstream.name for name, each in shown.tools.items()} == {"b": "a", "a": "b"}


def test_a_tool_that_its_view_does_not_match_is_withheld_with_a_warning(caplog):
    shown = catalog({"search": View(arguments={"q": Argument(name="query")})}, tool("search", "text"), tool("list"))
    assert list(shown.tools) == ["list"]
    shown.log_findings()
    assert caplog.messages == [
        "The view of 'search' does not match: the tool has no argument 'q'; it has text. It is withheld from clients."
    ]
    with pytest.raises(DefinitionError, match="no argument 'q'"):
        shown.require_match()


def test_a_name_that_no_definition_has_is_found():
    with pytest.raises(DefinitionError, match="the server has no tool, prompt or resource 'serach'; it has search"):
        catalog({"serach": View(name="find")}, tool("search")).require_match()


def test_prompts_and_resources_have_simple_views():
    views = {
        "greet": View(name="hello", description="Says hello.", meta={"a": 1}),
        "data://a": View(title="A"),
        "data://secret/*": View(hidden=True),
        "*": View(confirm=True),
    }
    shown = catalog(
        views,
        prompts=[types.Prompt(name="greet"), types.Prompt(name="other")],
        resources=[types.Resource(name="a", uri="data://a"), types.Resource(name="b", uri="data://secret/b")],
        resource_templates=[types.ResourceTemplate(name="c", uri_template="data://secret/{id}")],
    )
    assert shown.prompts == {
        "hello": types.Prompt(name="hello", description="Says hello.", meta={"a": 1}),
        "other": types.Prompt(name="other"),
    }
    assert shown.prompt_names == {"hello": "greet", "other": "other"}
    assert shown.resources == [types.Resource(name="a", uri="data://a", title="A")]
    assert shown.resource_templates == []
    assert shown.findings == []
