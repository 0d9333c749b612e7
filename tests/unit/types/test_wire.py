from __future__ import annotations

import msgspec
import pytest
from msgspec import UNSET, Raw

from dragoman.errors import ValidationError
from dragoman.types import (
    Annotations,
    CacheableResult,
    Icon,
    Implementation,
    PaginatedRequestParams,
    PaginatedResult,
    Params,
    Result,
    ResultType,
    decode,
)
from dragoman.types.wire import Named

encode = msgspec.json.encode


def test_a_snake_case_attribute_is_a_camel_case_field() -> None:
    icon = Icon(src="https://example.org/i.png", mime_type="image/png")
    assert encode(icon) == b'{"src":"https://example.org/i.png","mimeType":"image/png"}'


def test_absent_fields_are_left_out() -> None:
    assert encode(Annotations()) == b"{}"


def test_an_empty_list_and_an_empty_string_are_sent() -> None:
    assert encode(Annotations(audience=[], last_modified="")) == b'{"audience":[],"lastModified":""}'


def test_a_whole_number_stays_whole_and_a_fraction_stays_a_fraction() -> None:
    assert encode(decode(b'{"priority": 1}', Annotations)) == b'{"priority":1}'
    assert encode(decode(b'{"priority": 1.0}', Annotations)) == b'{"priority":1.0}'
    assert encode(decode(b'{"priority": 0.25}', Annotations)) == b'{"priority":0.25}'


def test_a_zero_is_sent() -> None:
    assert encode(CacheableResult(ttl_ms=0, cache_scope="private")) == b'{"ttlMs":0,"cacheScope":"private"}'


def test_null_means_absent() -> None:
    assert encode(decode(b'{"audience": null, "priority": null}', Annotations)) == b"{}"


def test_an_unknown_field_is_dropped() -> None:
    assert encode(decode(b'{"src": "a", "colour": "red"}', Icon)) == b'{"src":"a"}'


def test_meta_travels_under_its_underscore() -> None:
    assert encode(Result(meta={"a/b": [1, None]})) == b'{"_meta":{"a/b":[1,null]}}'
    assert decode(b'{"_meta": {}}', Result).meta == {}


def test_the_meta_of_parameters_stays_as_it_came() -> None:
    params = decode(b'{"_meta": {"n": 1.50, "n": 2}}', Params)
    assert params.meta == Raw(b'{"n": 1.50, "n": 2}')
    assert encode(params) == b'{"_meta":{"n": 1.50, "n": 2}}'


def test_parameters_without_meta_have_none_set() -> None:
    assert decode(b"{}", Params).meta is UNSET
    assert encode(Params()) == b"{}"


def test_a_page_names_its_cursor_and_its_lifetime() -> None:
    page = PaginatedResult(result_type="complete", ttl_ms=5, cache_scope="public", next_cursor="")
    assert encode(page) == b'{"resultType":"complete","ttlMs":5,"cacheScope":"public","nextCursor":""}'


def test_a_request_for_a_page_may_have_an_empty_cursor() -> None:
    assert decode(b'{"cursor": ""}', PaginatedRequestParams).cursor == ""
    assert decode(b"{}", PaginatedRequestParams).cursor is None


def test_an_implementation_has_a_web_site() -> None:
    implementation = Implementation(name="a", version="1", website_url="https://example.org")
    assert encode(implementation) == b'{"name":"a","version":"1","websiteUrl":"https://example.org"}'


def test_what_is_named_may_have_a_title_a_description_and_icons() -> None:
    named = Named(name="a", title="A", description="An a", icons=[Icon(src="a.png", sizes=["any"], theme="dark")])
    assert encode(named) == (
        b'{"name":"a","title":"A","description":"An a","icons":[{"src":"a.png","sizes":["any"],"theme":"dark"}]}'
    )


@pytest.mark.parametrize(
    ("data", "path"),
    [
        (b'{"theme": "sepia", "src": "a"}', "$.theme"),
        (b'{"src": 5}', "$.src"),
        (b'{"mimeType": "image/png"}', "$.src"),
    ],
)
def test_an_icon_that_is_none_is_refused_where_it_is_wrong(data: bytes, path: str) -> None:
    with pytest.raises(ValidationError) as refused:
        decode(data, Icon)
    assert refused.value.path == path


def test_a_number_in_quotes_is_no_number() -> None:
    with pytest.raises(ValidationError, match="Expected `int`, got `str` at"):
        decode(b'{"ttlMs": "5"}', CacheableResult)


@pytest.mark.covers("MRT-13")
def test_result_types_compare_and_encode_as_their_text() -> None:
    assert [*ResultType] == ["complete", "input_required"]
    assert decode(b'{"resultType": "input_required"}', Result).result_type == ResultType.INPUT_REQUIRED
    assert decode(b"{}", Result).result_type is None
    assert msgspec.json.encode(Result(result_type=ResultType.COMPLETE)) == b'{"resultType":"complete"}'
