import pytest

from dragoman import Configuration, DefinitionError, tool, types
from dragoman.protocol.versions import V2025_03_26, VERSIONS
from dragoman.server.settings import ServerSettings


async def around(data, call_next):
    await call_next()


def settings_of(**configuration):
    return ServerSettings.of(Configuration(**configuration), Configuration())


def test_nothing_configured_serves_every_version_validates_arguments_and_observes_nothing():
    settings = settings_of()
    assert (settings.versions, settings.pinned) == (VERSIONS, None)
    assert (settings.is_observed, settings.validates_arguments, settings.validates_results) == (False, True, False)


@pytest.mark.parametrize("configuration", [{"around_request": around}, {"instrumentation_callback": print}])
def test_either_hook_observes(configuration):
    assert settings_of(**configuration).is_observed


def test_a_pin_serves_one_version():
    assert settings_of(protocol_version="2025-03-26").versions == (V2025_03_26,)


def test_what_is_said_otherwise_is_not_lost():
    listed = types.Tool(name="a", input_schema={"type": "object"}, output_schema={"type": "integer"})
    heard = types.AudioContent("AA==", "audio/wav")
    assert settings_of(protocol_version="2025-11-25").require_carried("The tool", listed) is None
    assert settings_of(protocol_version="2024-11-05").require_carried("The block", heard) is None


def test_nothing_is_carried_by_every_version():
    assert settings_of(protocol_version="2024-11-05").require_carried("Nothing", None) is None


def test_the_path_of_what_is_lost_leads_through_lists_and_objects():
    link = types.ResourceLink(name="a", uri="a://b", icons=[types.Icon("https://example.com/a.png")])
    result = types.CallToolResult([types.TextContent("a"), link])
    with pytest.raises(DefinitionError, match=r"^The result has content\[1\]\.icons, which .* 2025-06-18 lacks"):
        settings_of(protocol_version="2025-06-18").require_carried("The result", result)


def test_a_definition_is_checked_without_being_changed():
    counting = tool(name="count")(lambda: 3)
    before = counting.definition
    settings_of(protocol_version="2024-11-05").require_definition_carried(counting)
    assert counting.definition is before
