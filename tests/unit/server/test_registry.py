import pytest

from dragoman import DefinitionError, Prompt, Resource, ResourceTemplate, Tool, prompt, tool
from dragoman.server.registry import Registry


def nothing() -> str:
    return ""


class NamedTool(Tool):
    def call(self) -> str:
        return ""


class NamedPrompt(Prompt):
    def render(self) -> str:
        return ""


class NamedResource(Resource):
    uri = "a://b"


class NamedTemplate(ResourceTemplate):
    uri_template = "a://{x}"


@pytest.mark.parametrize("given", [NamedTool, NamedTool(), Tool.define(nothing, name="named_tool")])
def test_a_tool_is_registered_under_its_name(given):
    registry = Registry()
    assert registry.tools == {"named_tool": registry.add_tool(given)}


@pytest.mark.parametrize("given", [NamedPrompt, NamedPrompt(), Prompt.define(nothing, name="named_prompt")])
def test_a_prompt_is_registered_under_its_name(given):
    registry = Registry()
    assert registry.prompts == {"named_prompt": registry.add_prompt(given)}


def test_a_function_becomes_what_it_is_added_as():
    registry = Registry()
    assert isinstance(registry.add_tool(nothing), Tool)
    assert isinstance(registry.add_prompt(nothing), Prompt)


@pytest.mark.parametrize("given", [NamedResource, NamedResource(), Resource(uri="a://b", name="b")])
def test_a_resource_is_registered_under_its_uri(given):
    registry = Registry()
    assert registry.resources == {"a://b": registry.add_resource(given)}


@pytest.mark.parametrize("given", [NamedTemplate, NamedTemplate(), ResourceTemplate(uri_template="a://{x}", name="x")])
def test_a_template_is_registered_under_its_text(given):
    registry = Registry()
    assert registry.templates == {"a://{x}": registry.add_resource(given)}


def test_a_definition_of_another_kind_is_refused():
    registry = Registry()
    with pytest.raises(DefinitionError, match="is not a Tool"):
        registry.add_tool(prompt(nothing))
    with pytest.raises(DefinitionError, match="is not a Prompt"):
        registry.add_prompt(tool(nothing))
    with pytest.raises(DefinitionError, match="is not a Resource"):
        registry.add_resource(tool(nothing))


def test_whoever_keeps_the_registry_is_told_of_every_change():
    changes = []
    registry = Registry(notify=lambda is_fact: changes.append(None))
    added = registry.add_tool(NamedTool)
    registry.remove(added, "tools")
    registry.page_size = 3
    assert len(changes) == 3


@pytest.mark.parametrize("way", ["added", "assigned"])
def test_the_completion_of_a_template_that_is_registered_is_a_change(way):
    changes, template = [], NamedTemplate()
    registry = Registry(notify=lambda is_fact: changes.append(None))
    if way == "added":
        registry.add_resource(template)
    else:
        registry.replace(resource_templates=[template])
    changes.clear()
    template.complete("x")(lambda value: [])
    assert len(changes) == 1
    assert registry.facts.completes


def test_the_registry_knows_whether_anything_is_completed():
    registry = Registry()
    template = registry.add_resource(NamedTemplate())
    assert not registry.facts.completes
    template.complete("x")(lambda value: [value])
    assert registry.facts.completes
    registry.remove(template, "templates")
    assert not registry.facts.completes
