"""Schemas that authors give to a server."""

import pytest

from dragoman import DefinitionError
from dragoman.server import OutputSchema


@pytest.mark.parametrize("keyword", ["$ref", "$dynamicRef"])
@pytest.mark.parametrize("target", ["http://example.com/x", "file:///etc/passwd", "other.json", "other.json#/a"])
def test_references_that_lead_outside_are_refused(keyword, target):
    for document in ({keyword: target}, {"properties": {"a": {"anyOf": [{keyword: target}]}}}):
        with pytest.raises(DefinitionError, match=r"leads outside the JSON Schema; copy its target into \$defs"):
            OutputSchema(document)
