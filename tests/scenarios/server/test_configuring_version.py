"""A server that serves one version alone."""

from functools import partial

import pytest

import dragoman
from dragoman import (
    Configuration,
    DefinitionError,
    Prompt,
    Resource,
    ResourceTemplate,
    Server,
    Tool,
    prompt,
    resource,
    tool,
    types,
)
from dragoman.config import PROCESS
from scenarios import wire
from scenarios.wire import ENVELOPE, HANDSHAKE_VERSIONS, introduction

ask = partial(wire.ask, era="none")
ICON = {"src": "https://example.com/icon.png"}


@pytest.fixture(autouse=True)
def _restored(monkeypatch):
    monkeypatch.setattr(PROCESS, "configuration", Configuration())


def pinned(version, **options):
    return Server("pinned", configuration=Configuration(protocol_version=version), **options)


def nothing() -> str:
    return ""


@pytest.mark.covers("VER-02", "VER-04")
@pytest.mark.parametrize("version", HANDSHAKE_VERSIONS)
@pytest.mark.parametrize("asked", [*HANDSHAKE_VERSIONS, "2026-07-28", "1999-01-01"])
def test_a_handshake_agrees_on_the_pinned_version_whatever_was_asked_for(version, asked):
    assert (
        ask(pinned(version), "initialize", introduction(protocolVersion=asked))["result"]["protocolVersion"] == version
    )


@pytest.mark.covers("VER-02")
@pytest.mark.parametrize("version", HANDSHAKE_VERSIONS)
def test_a_pinned_handshake_version_refuses_the_stateless_era(version):
    server = pinned(version)
    error = ask(server, "tools/list", {"_meta": ENVELOPE})["error"]
    assert (error["code"], error["data"]["supported"]) == (-32022, [version])
    assert ask(server, "server/discover")["error"]["code"] == -32601
    assert ask(server, "tools/list")["result"] == {"tools": []}


@pytest.mark.covers("VER-02")
def test_a_pinned_stateless_version_refuses_the_handshake_era():
    server = pinned("2026-07-28")
    assert ask(server, "tools/list", {"_meta": ENVELOPE})["result"]["tools"] == []
    discovered = ask(server, "server/discover", {"_meta": ENVELOPE})["result"]
    assert discovered["supportedVersions"] == ["2026-07-28"]
    for method, params in (("initialize", introduction(protocolVersion="2025-11-25")), ("tools/list", None)):
        assert ask(server, method, params)["error"]["code"] == -32602


@pytest.mark.covers("VER-02")
def test_a_version_that_does_not_exist_is_refused_at_once():
    with pytest.raises(DefinitionError, match=r"no protocol version '2025-01-01'; there are 2026-07-28, 2025-11-25"):
        Configuration(protocol_version="2025-01-01")
    with pytest.raises(DefinitionError, match="no protocol version '2025-01-01'"):
        dragoman.configure(protocol_version="2025-01-01")


@pytest.mark.covers("SRV-04", "VER-02")
def test_a_configuration_that_a_server_uses_may_be_changed_and_the_server_follows():
    configuration = Configuration()
    server = Server(configuration=configuration)
    assert len(server.offering.offer.versions) == 5
    configuration.protocol_version = "2025-06-18"
    assert [version.name for version in server.offering.offer.versions] == ["2025-06-18"]
    server.configuration.protocol_version = None
    assert len(server.offering.offer.versions) == 5


@pytest.mark.covers("VER-02")
def test_a_pin_of_the_process_holds_for_servers_that_were_made_before_until_it_is_taken_back():
    server, other = Server(), pinned("2025-06-18")
    dragoman.configure(protocol_version="2024-11-05")
    assert [version.name for version in server.offering.offer.versions] == ["2024-11-05"]
    assert [version.name for version in other.offering.offer.versions] == ["2025-06-18"]
    dragoman.configure(protocol_version=None)
    assert len(server.offering.offer.versions) == 5


class TitledTool(Tool):
    title = "A title"

    def call(self) -> str:
        return ""


class TitledPrompt(Prompt):
    title = "A title"

    def render(self) -> str:
        return ""


class TitledResource(Resource):
    uri = "docs://readme"
    title = "A title"


class TitledTemplate(ResourceTemplate):
    uri_template = "docs://{name}"
    title = "A title"

    def read(self, name: str) -> str:
        return name


def made_of(decorator, **options):
    return decorator(name="thing", **options)(nothing)


def resource_of(uri="docs://a", **options):
    return resource(uri, name="thing", **options)(nothing)


TITLED_ARGUMENT = prompt(name="thing", arguments=[types.PromptArgument("a", title="A")])(lambda a: a)
LACKING = [
    ("tools", TitledTool, "The tool 'titled_tool' has title", "2025-03-26"),
    ("tools", made_of(tool, title="T"), "The tool 'thing' has title", "2025-03-26"),
    ("tools", made_of(tool, icons=[ICON]), "The tool 'thing' has icons", "2025-06-18"),
    ("tools", made_of(tool, meta={"example.com/a": 1}), "The tool 'thing' has meta", "2025-03-26"),
    ("tools", made_of(tool, annotations={"readOnlyHint": True}), "The tool 'thing' has annotations", "2024-11-05"),
    ("tools", made_of(tool, output_schema={"type": "object"}), "The tool 'thing' has output_schema", "2025-03-26"),
    ("prompts", TitledPrompt, "The prompt 'titled_prompt' has title", "2025-03-26"),
    ("prompts", made_of(prompt, meta={"example.com/a": 1}), "The prompt 'thing' has meta", "2025-03-26"),
    ("prompts", made_of(prompt, icons=[ICON]), "The prompt 'thing' has icons", "2025-06-18"),
    ("prompts", TITLED_ARGUMENT, "The prompt 'thing' has arguments[0].title", "2025-03-26"),
    ("resources", TitledResource, "The resource 'titled_resource' has title", "2025-03-26"),
    ("resources", resource_of(icons=[ICON]), "The resource 'thing' has icons", "2025-06-18"),
    (
        "resources",
        resource_of(annotations={"lastModified": "2026-01-01T00:00:00Z"}),
        "The resource 'thing' has annotations.last_modified",
        "2025-03-26",
    ),
    ("resource_templates", TitledTemplate, "The resource template 'titled_template' has title", "2025-03-26"),
]
ADDING = {
    "tools": Server.add_tool,
    "prompts": Server.add_prompt,
    "resources": Server.add_resource,
    "resource_templates": Server.add_resource,
}


def refusal(said, version):
    return f"{said}, which the pinned protocol version {version} lacks; leave it out, or do not pin the version"


@pytest.mark.covers("SRV-24")
@pytest.mark.parametrize(("kind", "given", "said", "version"), LACKING)
def test_what_the_pinned_version_lacks_is_refused_when_the_server_is_made(kind, given, said, version):
    with pytest.raises(DefinitionError) as refused:
        pinned(version, **{kind: [given]})
    assert str(refused.value) == refusal(said, version)
    assert isinstance(refused.value, ValueError)


@pytest.mark.covers("SRV-25")
@pytest.mark.parametrize(("kind", "given", "said", "version"), LACKING)
def test_it_is_refused_at_registration_too_and_nothing_is_registered(kind, given, said, version):
    server = pinned(version)
    with pytest.raises(DefinitionError) as refused:
        ADDING[kind](server, given)
    assert str(refused.value) == refusal(said, version)
    assert server.registry.definitions() == []


@pytest.mark.covers("SRV-25")
@pytest.mark.parametrize(("kind", "given", "said", "version"), LACKING)
def test_a_server_cannot_be_pinned_later_to_a_version_that_lacks_what_it_has(kind, given, said, version):
    server = Server(**{kind: [given]})
    with pytest.raises(DefinitionError) as refused:
        server.configuration = Configuration(protocol_version=version)
    assert str(refused.value) == refusal(said, version)
    assert server.configuration == Configuration()


@pytest.mark.covers("SRV-24")
@pytest.mark.parametrize(("kind", "given", "said", "version"), LACKING)
def test_the_newest_versions_and_servers_that_are_not_pinned_take_it(kind, given, said, version):
    for server in (Server(), pinned("2025-11-25"), pinned("2026-07-28")):
        ADDING[kind](server, given)
        assert len(server.registry.definitions()) == 1


@pytest.mark.covers("SRV-24")
@pytest.mark.parametrize(
    ("options", "said", "version"),
    [
        ({"title": "T"}, "The server 'pinned' has title", "2025-03-26"),
        ({"description": "D"}, "The server 'pinned' has description", "2025-06-18"),
        ({"website_url": "https://example.com"}, "The server 'pinned' has website_url", "2025-06-18"),
        ({"icons": [ICON]}, "The server 'pinned' has icons", "2025-06-18"),
        ({"capabilities": {"completions": {}}}, "What the server 'pinned' declares has completions", "2024-11-05"),
        (
            {"capabilities": {"extensions": {"a/b": {}}}},
            "What the server 'pinned' declares has extensions",
            "2025-03-26",
        ),
    ],
)
def test_what_the_pinned_version_cannot_say_of_the_server_is_refused(options, said, version):
    with pytest.raises(DefinitionError) as refused:
        pinned(version, **options)
    assert str(refused.value) == refusal(said, version)
    pinned("2025-11-25", **options)


@pytest.mark.covers("SRV-24")
@pytest.mark.parametrize("version", HANDSHAKE_VERSIONS)
def test_an_output_schema_that_only_follows_from_the_return_annotation_is_not_refused(version):
    server = pinned(version)

    @server.tool
    def count() -> int:
        return 3

    [listed] = ask(server, "tools/list")["result"]["tools"]
    assert ("outputSchema" in listed) == (version >= "2025-06-18")


@pytest.mark.covers("SRV-24")
def test_plain_definitions_are_taken_by_every_version():
    for version in [*HANDSHAKE_VERSIONS, "2026-07-28"]:
        server = pinned(version, tools=[nothing], prompts=[nothing], instructions="Use it.")
        server.resource("docs://a", mime_type="text/plain", size=1, annotations={"priority": 1})(nothing)
        server.resource("docs://{name}")(lambda name: name)
        assert len(server.registry.definitions()) == 4
