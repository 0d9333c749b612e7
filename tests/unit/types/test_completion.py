from __future__ import annotations

import msgspec
import pytest

from dragoman.errors import ValidationError
from dragoman.types import (
    CompleteRequestParams,
    CompleteResult,
    Completion,
    CompletionArgument,
    CompletionContext,
    PromptReference,
    ResourceTemplateReference,
    decode,
)

encode = msgspec.json.encode


def test_a_prompt_reference_is_told_by_its_type() -> None:
    params = CompleteRequestParams(
        ref=PromptReference(name="review", title="Review"),
        argument=CompletionArgument(name="language", value=""),
        context=CompletionContext(arguments={"framework": "none"}),
    )
    assert encode(params) == (
        b'{"ref":{"type":"ref/prompt","name":"review","title":"Review"},'
        b'"argument":{"name":"language","value":""},"context":{"arguments":{"framework":"none"}}}'
    )
    assert decode(encode(params), CompleteRequestParams) == params


def test_a_resource_template_reference_is_told_by_its_type() -> None:
    data = b'{"ref": {"type": "ref/resource", "uri": "file:///{path}"}, "argument": {"name": "path", "value": "a"}}'
    assert decode(data, CompleteRequestParams).ref == ResourceTemplateReference(uri="file:///{path}")


def test_a_reference_to_anything_else_is_refused() -> None:
    data = b'{"ref": {"type": "ref/tool", "name": "a"}, "argument": {"name": "b", "value": "c"}}'
    with pytest.raises(ValidationError) as refused:
        decode(data, CompleteRequestParams)
    assert refused.value.path == "$.ref.type"


def test_that_there_is_no_more_is_sent() -> None:
    result = CompleteResult(completion=Completion(values=[], total=0, has_more=False))
    assert encode(result) == b'{"completion":{"values":[],"total":0,"hasMore":false}}'


def test_references_have_the_type_of_the_wire() -> None:
    assert PromptReference(name="review").type == "ref/prompt"
    assert ResourceTemplateReference(uri="users://{id}").type == "ref/resource"
