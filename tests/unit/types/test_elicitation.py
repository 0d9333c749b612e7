from __future__ import annotations

import msgspec
import pytest
from msgspec import Raw

from dragoman.errors import ValidationError
from dragoman.types import (
    BooleanSchema,
    ElicitationCompleteNotificationParams,
    ElicitRequestParams,
    ElicitResult,
    EnumItems,
    EnumOption,
    MultiSelectEnumSchema,
    NumberSchema,
    SingleSelectEnumSchema,
    StringSchema,
    decode,
)

encode = msgspec.json.encode


@pytest.mark.parametrize(
    ("schema", "data"),
    [
        (
            StringSchema(type="string", min_length=0, format="date-time", default=""),
            b'{"type":"string","minLength":0,"format":"date-time","default":""}',
        ),
        (
            NumberSchema(type="integer", minimum=0, maximum=1.5, default=0),
            b'{"type":"integer","minimum":0,"maximum":1.5,"default":0}',
        ),
        (
            BooleanSchema(type="boolean", title="Sure?", default=False),
            b'{"title":"Sure?","type":"boolean","default":false}',
        ),
        (
            SingleSelectEnumSchema(type="string", enum=["a"], enum_names=["A"]),
            b'{"type":"string","enum":["a"],"enumNames":["A"]}',
        ),
        (
            SingleSelectEnumSchema(type="string", one_of=[EnumOption(const="a", title="A")], default="a"),
            b'{"type":"string","oneOf":[{"const":"a","title":"A"}],"default":"a"}',
        ),
        (
            MultiSelectEnumSchema(type="array", items=EnumItems(type="string", enum=["a"]), min_items=0, default=[]),
            b'{"type":"array","items":{"type":"string","enum":["a"]},"minItems":0,"default":[]}',
        ),
        (
            MultiSelectEnumSchema(type="array", items=EnumItems(any_of=[EnumOption(const="a", title="A")])),
            b'{"type":"array","items":{"anyOf":[{"const":"a","title":"A"}]}}',
        ),
    ],
)
def test_a_form_field_is_encoded_as_its_schema(schema: msgspec.Struct, data: bytes) -> None:
    assert encode(schema) == data
    assert decode(data, type(schema)) == schema


def test_a_form_without_a_mode_keeps_its_schema_whole() -> None:
    data = b'{"message":"Who?","requestedSchema":{"type":"object","properties":{"a":{"type":"string","x":null}}}}'
    assert encode(decode(data, ElicitRequestParams)) == data


def test_a_url_elicitation_names_its_url_and_its_id() -> None:
    params = ElicitRequestParams(
        message="Log in", mode="url", url="https://example.org", elicitation_id="1", task=Raw(b'{"ttl":5}')
    )
    assert encode(params) == (
        b'{"message":"Log in","mode":"url","url":"https://example.org","elicitationId":"1","task":{"ttl":5}}'
    )


def test_an_unknown_mode_is_refused() -> None:
    with pytest.raises(ValidationError) as refused:
        decode(b'{"message": "a", "mode": "voice"}', ElicitRequestParams)
    assert refused.value.path == "$.mode"


def test_an_answer_keeps_every_kind_of_value() -> None:
    data = b'{"action":"accept","content":{"a":1,"b":1.0,"c":false,"d":"","e":["f"]}}'
    assert encode(decode(data, ElicitResult)) == data


def test_a_declined_form_has_no_content() -> None:
    assert encode(ElicitResult(action="decline")) == b'{"action":"decline"}'


def test_the_end_of_an_elicitation_names_it() -> None:
    assert encode(ElicitationCompleteNotificationParams(elicitation_id="1")) == b'{"elicitationId":"1"}'
