"""How `_meta.ui` is written and read."""

import pytest

from dragoman import DefinitionError, types
from dragoman.protocol.official.apps import (
    ID,
    MIME_TYPE,
    ROW,
    capability,
    checked_settings,
    client_supports,
    require_ui_uri,
    resource_ui,
    tool_meta,
    tool_ui,
)
from dragoman.types.apps import AppPermissions, Csp, ResourceUi, ToolUi

URI = "ui://clock/app.html"


@pytest.mark.covers("APP-01")
def test_the_capability_names_the_mime_type_of_apps():
    assert capability() == {"mimeTypes": ["text/html;profile=mcp-app"]} == ROW.settings
    assert capability(("text/html", MIME_TYPE)) == {"mimeTypes": ["text/html", MIME_TYPE]}


@pytest.mark.covers("LEX-02")
@pytest.mark.parametrize("given", ["text/html", [], ["html"], [5], {"mimeTypes": 5}])
def test_mime_types_are_a_list_of_mime_types(given):
    with pytest.raises(DefinitionError, match="mimeTypes must be a list of MIME types"):
        capability(given)


@pytest.mark.covers("LEX-02")
@pytest.mark.parametrize("key", ["resourceUri", "resource_uri", "visibility", "ui"])
def test_what_belongs_to_a_tool_is_no_setting(key):
    with pytest.raises(ValueError, match=rf"{key!r} is no setting of {ID}: .* @server.tool"):
        checked_settings({"mimeTypes": [MIME_TYPE], key: URI})


def test_other_settings_are_kept():
    assert checked_settings({"com.example/zoom": 3}) == {"com.example/zoom": 3}


@pytest.mark.covers("APP-04")
@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, True),
        ({"mimeTypes": [MIME_TYPE]}, True),
        ({"mimeTypes": ["text/html", MIME_TYPE]}, True),
        ({"mimeTypes": ["text/html"]}, False),
        ({"mimeTypes": []}, False),
        ({"mimeTypes": MIME_TYPE}, False),
        (None, False),
    ],
)
@pytest.mark.parametrize("id", [ID, "io.modelcontextprotocol/apps"])
def test_a_client_shows_apps_if_it_names_the_type_or_no_types(settings, expected, id):
    extensions = {} if settings is None else {id: settings}
    assert client_supports(types.ClientCapabilities(extensions=extensions)) is expected
    assert client_supports({"extensions": extensions}) is expected


@pytest.mark.covers("APP-04")
@pytest.mark.parametrize("given", [None, {}, {"extensions": 5}, {"extensions": {ID: True}}])
def test_a_client_that_declares_nothing_readable_shows_no_apps(given):
    assert client_supports(given) is False


@pytest.mark.covers("APP-04")
def test_a_client_may_show_apps_of_another_type():
    assert client_supports({"extensions": {ID: {"mimeTypes": ["text/x"]}}}, mime_type="text/x")


@pytest.mark.covers("APP-02")
@pytest.mark.parametrize("uri", ["https://a/app.html", "ui:/a", "ui://", "", None, 5])
def test_the_uri_of_an_app_has_its_scheme(uri):
    with pytest.raises(DefinitionError, match="begins with ui://"):
        require_ui_uri(uri)
    assert require_ui_uri(URI) == URI


@pytest.mark.covers("APP-03")
def test_both_spellings_of_the_key_are_written_and_nothing_is_lost():
    meta = {"a": 1, "ui": {"b": 2}}
    assert tool_meta(URI, ["app"], meta) == {
        "a": 1,
        "ui": {"b": 2, "resourceUri": URI, "visibility": ["app"]},
        "ui/resourceUri": URI,
    }
    assert meta == {"a": 1, "ui": {"b": 2}}


@pytest.mark.covers("APP-03")
def test_the_older_spelling_can_be_left_out():
    assert tool_meta(URI, legacy=False) == {"ui": {"resourceUri": URI}}
    assert tool_meta(visibility="app") == {"ui": {"visibility": ["app"]}}


@pytest.mark.covers("APP-03")
@pytest.mark.parametrize("visibility", [[], ["user"], "user", ["app", 5]])
def test_nobody_else_can_see_a_tool(visibility):
    with pytest.raises(DefinitionError, match="'model' and 'app'"):
        tool_meta(URI, visibility)
    with pytest.raises(DefinitionError, match="begins with ui://"):
        tool_meta("clock.html")


@pytest.mark.covers("LEX-04")
@pytest.mark.parametrize(
    ("meta", "expected"),
    [
        (None, ToolUi()),
        ({"ui": {"resourceUri": URI}}, ToolUi(resource_uri=URI)),
        ({"ui/resourceUri": URI}, ToolUi(resource_uri=URI)),
        ({"ui": {"resourceUri": URI}, "ui/resourceUri": "ui://old"}, ToolUi(resource_uri=URI)),
        ({"ui": 5, "ui/resourceUri": 5}, ToolUi()),
        ({"ui": {"resourceUri": 5, "visibility": ["model"]}}, ToolUi(visibility=("model",))),
        ({"ui": {"visibility": "app"}}, ToolUi(visibility=("app",))),
        ({"ui": {"visibility": ["app", 5]}}, ToolUi(visibility=("app",))),
        ({"ui": {"visibility": {"model": True}}}, ToolUi(visibility=())),
    ],
)
def test_what_a_tool_says_is_read_with_defaults(meta, expected):
    assert tool_ui(meta) == expected


@pytest.mark.covers("LEX-05")
@pytest.mark.parametrize(
    ("ui", "expected"),
    [
        ({}, ResourceUi()),
        ({"prefersBorder": True}, ResourceUi(prefers_border=True)),
        ({"prefers_border": False}, ResourceUi(prefers_border=False)),
        ({"prefersBorder": "yes", "domain": "a.example.com"}, ResourceUi(domain="a.example.com")),
        (
            {"csp": {"connectDomains": ["https://a"]}, "permissions": {"camera": {}}},
            ResourceUi(csp=Csp(connect=["https://a"]), permissions=AppPermissions(camera={})),
        ),
        ({"csp": {"connectDomains": "*"}, "permissions": [], "domain": 5}, ResourceUi()),
    ],
)
def test_what_a_resource_says_is_read_and_malformed_parts_are_left_out(ui, expected):
    assert resource_ui({"ui": ui}) == expected
