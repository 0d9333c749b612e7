"""What is bound to a client: what it shows, and what its contents are."""

import pytest

from dragoman import DefinitionError, types
from dragoman.client.bound import (
    AsyncBoundPrompt,
    AsyncBoundResource,
    AsyncBoundResourceTemplate,
    AsyncBoundTool,
)


def template(text):
    return AsyncBoundResourceTemplate(None, types.ResourceTemplate(name="t", uri_template=text, mime_type="text/plain"))


def test_what_a_server_did_not_say_is_empty():
    tool = AsyncBoundTool(None, types.Tool(name="t", input_schema={"type": "object"}))
    assert (tool.title, tool.description, tool.icons, tool.meta, tool.output_schema) == (None, None, [], {}, None)
    assert tool.annotations == types.ToolAnnotations()
    assert AsyncBoundPrompt(None, types.Prompt(name="p")).arguments == []
    resource = AsyncBoundResource(None, types.Resource(name="r", uri="x:1"))
    assert (resource.mime_type, resource.size, resource.uri) == (None, None, "x:1")


def test_what_a_server_said_is_shown():
    icon = types.Icon(src="https://example.com/i.png")
    definition = types.Tool(
        name="t", title="T", description="d", input_schema={"type": "object"}, icons=[icon], meta={"x": 1}
    )
    tool = AsyncBoundTool(None, definition)
    assert (tool.title, tool.description, tool.icons, tool.meta) == ("T", "d", [icon], {"x": 1})
    assert tool.definition is definition
    assert repr(tool) == "<AsyncBoundTool 't'>"


@pytest.mark.parametrize(
    ("text", "arguments", "uri"),
    [
        ("x:///{id}", {"id": 3}, "x:///3"),
        ("x:///{id}", {"id": "a/b c"}, "x:///a%2Fb%20c"),
        ("x:///{+path}", {"path": "a/b"}, "x:///a/b"),
        ("x:///{id}{?flag,n}", {"id": 1, "flag": True, "n": 1.5}, "x:///1?flag=true&n=1.5"),
        ("x:///{id}{?flag}", {"id": 1, "flag": None}, "x:///1"),
    ],
)
def test_a_template_is_filled_in(text, arguments, uri):
    assert template(text).uri(**arguments) == uri
    assert template(text).mime_type == "text/plain"


def test_a_variable_that_there_is_not_is_refused():
    with pytest.raises(TypeError, match=r"x:///{id} has no variable 'ID'; there are: id"):
        template("x:///{id}").uri(ID=3)


def test_a_template_that_cannot_be_filled_in_says_so():
    with pytest.raises(DefinitionError):
        template("x:///{list*}").uri(list="a")
