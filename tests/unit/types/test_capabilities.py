from __future__ import annotations

import msgspec
import pytest

from dragoman.errors import ValidationError
from dragoman.types import (
    ClientCapabilities,
    ElicitationCapability,
    ListChangedCapability,
    ResourcesCapability,
    RootsCapability,
    SamplingCapability,
    ServerCapabilities,
    decode,
)

encode = msgspec.json.encode


def test_a_capability_without_options_is_an_empty_object() -> None:
    capabilities = ServerCapabilities(tools=ListChangedCapability(), logging={}, completions={})
    assert encode(capabilities) == b'{"tools":{},"completions":{},"logging":{}}'


def test_an_option_that_is_denied_differs_from_one_that_is_absent() -> None:
    capabilities = ServerCapabilities(
        prompts=ListChangedCapability(list_changed=False),
        resources=ResourcesCapability(subscribe=False, list_changed=True),
    )
    assert encode(capabilities) == (
        b'{"prompts":{"listChanged":false},"resources":{"subscribe":false,"listChanged":true}}'
    )


def test_what_a_client_can_do_is_kept() -> None:
    capabilities = ClientCapabilities(
        sampling=SamplingCapability(tools={}),
        elicitation=ElicitationCapability(form={}, url={}),
        roots=RootsCapability(list_changed=True),
    )
    assert encode(capabilities) == (
        b'{"sampling":{"tools":{}},"elicitation":{"form":{},"url":{}},"roots":{"listChanged":true}}'
    )


@pytest.mark.parametrize("kind", [ClientCapabilities, ServerCapabilities])
def test_extensions_and_experiments_and_tasks_are_kept_whole(kind: type[msgspec.Struct]) -> None:
    data = b'{"tasks":{"list":{}},"extensions":{"org.example/a":{"b":[1,null]}},"experimental":{"c":{"d":1.0}}}'
    assert encode(decode(data, kind)) == data


@pytest.mark.parametrize("kind", [ClientCapabilities, ServerCapabilities])
def test_a_capability_unknown_here_does_no_harm(kind: type[msgspec.Struct]) -> None:
    assert encode(decode(b'{"telepathy": {"range": 5}}', kind)) == b"{}"


def test_a_capability_that_is_no_object_is_refused() -> None:
    with pytest.raises(ValidationError) as refused:
        decode(b'{"tools": true}', ServerCapabilities)
    assert refused.value.path == "$.tools"


@pytest.mark.parametrize("kind", [ClientCapabilities, ServerCapabilities])
def test_the_settings_of_an_extension_are_found_by_either_spelling_of_its_id(
    kind: type[ClientCapabilities] | type[ServerCapabilities],
) -> None:
    declared = kind(extensions={"io.modelcontextprotocol/apps": {"mimeTypes": []}, "com.example/a": {}})
    assert declared.extension("io.modelcontextprotocol/ui") == {"mimeTypes": []}
    assert declared.extension("io.modelcontextprotocol/apps") == {"mimeTypes": []}
    assert declared.extension("com.example/a") == {}
    assert declared.extension("com.example/b") is None
    assert kind().extension("com.example/a") is None
