import msgspec
import pytest

from dragoman import types
from dragoman.types.apps import AppPermissions, Csp, ResourceUi, ToolUi


def test_the_origins_have_short_names_in_python_and_those_of_the_specification_on_the_wire() -> None:
    csp = Csp(connect=["https://a"], resources=["https://b"], frames=["https://c"], base_uris=["https://d"])
    assert msgspec.to_builtins(csp) == {
        "connectDomains": ["https://a"],
        "resourceDomains": ["https://b"],
        "frameDomains": ["https://c"],
        "baseUriDomains": ["https://d"],
    }


def test_what_is_not_asked_for_is_not_sent() -> None:
    ui = ResourceUi(permissions=AppPermissions(clipboard_write={}), prefers_border=False)
    assert msgspec.to_builtins(ui) == {"permissions": {"clipboardWrite": {}}, "prefersBorder": False}
    assert msgspec.to_builtins(ToolUi()) == {}


@pytest.mark.parametrize(
    ("visibility", "by_model", "by_app"),
    [(["model", "app"], True, True), (["model"], True, False), (["app"], False, True), ([], False, False)],
)
def test_a_tool_is_visible_to_those_who_are_named(visibility: list[str], by_model: bool, by_app: bool) -> None:
    ui = msgspec.convert({"visibility": visibility}, ToolUi)
    assert (ui.model_visible, ui.app_visible) == (by_model, by_app)


def test_a_tool_is_visible_to_all_unless_it_says_otherwise() -> None:
    assert ToolUi().visibility == ("model", "app")


def test_the_package_has_the_types_too() -> None:
    assert types.ToolUi is ToolUi
    assert types.Csp is Csp
