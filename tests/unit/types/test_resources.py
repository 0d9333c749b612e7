from __future__ import annotations

import msgspec
import pytest
from msgspec import Raw

from dragoman import types
from dragoman.types import (
    Annotations,
    ListResourcesResult,
    ListResourceTemplatesResult,
    ReadResourceRequestParams,
    ReadResourceResult,
    Resource,
    ResourceContents,
    ResourceTemplate,
    ResourceUpdatedNotificationParams,
    SubscribeRequestParams,
    UnsubscribeRequestParams,
    decode,
)
from dragoman.types.resources import ResourceRequestParams

encode = msgspec.json.encode


def test_a_resource_is_listed_by_its_uri() -> None:
    resource = Resource(name="a", uri="file:///a", size=0, annotations=Annotations(priority=0))
    assert encode(ListResourcesResult(resources=[resource], next_cursor="b")) == (
        b'{"resources":[{"name":"a","uri":"file:///a","annotations":{"priority":0},"size":0}],"nextCursor":"b"}'
    )


def test_a_template_is_listed_by_its_text() -> None:
    template = ResourceTemplate(name="a", uri_template="file:///{path}", mime_type="text/plain")
    assert encode(ListResourceTemplatesResult(resource_templates=[template])) == (
        b'{"resourceTemplates":[{"name":"a","uriTemplate":"file:///{path}","mimeType":"text/plain"}]}'
    )


def test_a_resource_is_read_as_text_or_as_a_blob() -> None:
    result = ReadResourceResult(
        ttl_ms=1,
        cache_scope="private",
        contents=[ResourceContents(uri="a:b", text=""), ResourceContents(uri="a:c", blob="AA==", meta={})],
    )
    assert encode(result) == (
        b'{"contents":[{"uri":"a:b","text":""},{"uri":"a:c","blob":"AA==","_meta":{}}],'
        b'"ttlMs":1,"cacheScope":"private"}'
    )
    assert decode(encode(result), ReadResourceResult) == result


def test_a_retried_read_carries_its_answers_and_its_state() -> None:
    params = ReadResourceRequestParams(uri="a:b", input_responses={}, request_state="")
    assert encode(params) == b'{"uri":"a:b","inputResponses":{},"requestState":""}'


@pytest.mark.parametrize("kind", [SubscribeRequestParams, UnsubscribeRequestParams, ResourceUpdatedNotificationParams])
def test_a_message_about_a_resource_names_its_uri(kind: type[ResourceRequestParams]) -> None:
    assert encode(kind(uri="a:b", meta=Raw(b'{"c":1}'))) == b'{"uri":"a:b","_meta":{"c":1}}'


def test_a_uri_is_kept_as_it_was_written() -> None:
    data = '{"uri":"file:///Ünïcode%20and space/../x"}'.encode()
    assert encode(decode(data, ResourceContents)) == data


def test_a_resource_gives_the_text_of_its_parts():
    parts = [types.ResourceContents("a://1", text="one"), types.ResourceContents("a://2", blob="AAAA")]
    assert types.ReadResourceResult(parts).text == "one"
