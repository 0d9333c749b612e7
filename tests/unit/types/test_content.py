from __future__ import annotations

import msgspec
import pytest

from dragoman.types import (
    Annotations,
    AudioContent,
    ContentBlock,
    EmbeddedResource,
    Icon,
    ImageContent,
    ResourceContents,
    ResourceLink,
    SamplingMessageContentBlock,
    TextContent,
    ToolResultContent,
    ToolUseContent,
    UnknownContent,
)
from dragoman.types.content import Block, text_block

encode = msgspec.json.encode

BLOCKS = [
    (TextContent(text=""), b'{"type":"text","text":""}'),
    (
        TextContent(text="hi", meta={"a": 1}, annotations=Annotations(audience=["user"], priority=1)),
        b'{"type":"text","text":"hi","_meta":{"a":1},"annotations":{"audience":["user"],"priority":1}}',
    ),
    (
        ImageContent(data="AA==", mime_type="image/png"),
        b'{"type":"image","data":"AA==","mimeType":"image/png"}',
    ),
    (
        AudioContent(data="AA==", mime_type="audio/wav"),
        b'{"type":"audio","data":"AA==","mimeType":"audio/wav"}',
    ),
    (
        ResourceLink(uri="file:///a", name="a", size=0, icons=[Icon(src="a.png")]),
        b'{"type":"resource_link","uri":"file:///a","name":"a","size":0,"icons":[{"src":"a.png"}]}',
    ),
    (
        EmbeddedResource(resource=ResourceContents(uri="file:///a", text="")),
        b'{"type":"resource","resource":{"uri":"file:///a","text":""}}',
    ),
    (
        EmbeddedResource(resource=ResourceContents(uri="file:///a", blob="", mime_type="x/y")),
        b'{"type":"resource","resource":{"uri":"file:///a","mimeType":"x/y","blob":""}}',
    ),
]

SAMPLING_BLOCKS = [
    *BLOCKS[:4],
    (
        ToolUseContent(id="1", name="add", input={"a": None}),
        b'{"type":"tool_use","id":"1","name":"add","input":{"a":null}}',
    ),
    (
        ToolResultContent(tool_use_id="1", content=[TextContent(text="3")], is_error=False),
        b'{"type":"tool_result","toolUseId":"1","content":[{"type":"text","text":"3"}],"isError":false}',
    ),
    (
        ToolResultContent(tool_use_id="1", content=[], structured_content=None),
        b'{"type":"tool_result","toolUseId":"1","content":[],"structuredContent":null}',
    ),
]


@pytest.mark.parametrize(("block", "data"), BLOCKS)
def test_a_content_block_is_told_by_its_type(block: Block, data: bytes) -> None:
    assert encode(block) == data
    assert msgspec.json.decode(data, type=ContentBlock) == block


@pytest.mark.parametrize(("block", "data"), SAMPLING_BLOCKS)
def test_a_sampling_block_is_told_by_its_type(block: Block, data: bytes) -> None:
    assert encode(block) == data
    assert msgspec.json.decode(data, type=SamplingMessageContentBlock) == block


@pytest.mark.parametrize(("block", "data"), [*BLOCKS, *SAMPLING_BLOCKS])
def test_a_block_says_its_type(block: Block, data: bytes) -> None:
    assert block.type == msgspec.json.decode(data)["type"]


def test_the_type_can_be_asked_of_the_class() -> None:
    assert [kind.type for kind in (TextContent, ImageContent, AudioContent, ResourceLink, EmbeddedResource)] == [
        "text",
        "image",
        "audio",
        "resource_link",
        "resource",
    ]


def test_unknown_content_says_the_type_that_it_came_with() -> None:
    assert UnknownContent({"type": "video", "url": "https://example.org"}).type == "video"


def test_unknown_content_without_a_type_says_nothing() -> None:
    assert UnknownContent({"url": "https://example.org"}).type == ""


def test_unknown_content_whose_type_is_no_text_says_it_as_text() -> None:
    assert UnknownContent({"type": 5}).type == "5"


def test_unknown_content_is_encoded_as_it_came() -> None:
    block = UnknownContent({"type": "video", "mime_type": None, "b": [1, 1.0, True]})
    assert encode([block]) == b'[{"type":"video","mime_type":null,"b":[1,1.0,true]}]'


def test_a_blob_that_is_given_as_bytes_becomes_base64():
    assert ResourceContents("a://b", "image/png", blob=b"\x00\xff").blob == "AP8="
    assert ResourceContents("a://b", blob="AP8=").blob == "AP8="
    assert ResourceContents("a://b", text="x").blob is None
    assert encode(ResourceContents("a://b", blob=b"")) == b'{"uri":"a://b","blob":""}'


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"type": "text", "text": "a"}, "every TextContent has the type 'text'"),
        ({"text": "a", "_meta": {}}, "_meta= is called meta="),
        ({"txt": "a"}, "TextContent: "),
    ],
)
def test_an_argument_that_a_block_does_not_have_is_explained(given, message):
    with pytest.raises(TypeError, match=message):
        TextContent(**given)
    with pytest.raises(TypeError, match="mimeType= is called mime_type="):
        ImageContent(data="", mimeType="image/png")


def test_a_text_block_is_a_text_content():
    assert text_block("hi") == TextContent("hi")
    assert encode(text_block("hi")) == encode(TextContent("hi"))
