"""Wire objects that authors give as structs or as dicts."""

import pytest

from dragoman import DefinitionError, types
from dragoman.server.wire_objects import optional_wire_object, wire_object, wire_objects


def test_a_wire_object_is_spelled_either_way_at_every_depth():
    given = {"tools": {"list_changed": True}, "resources": {"listChanged": True}, "experimental": {"any_key": {}}}
    made = wire_object(given, types.ServerCapabilities, "capabilities")
    assert made.tools.list_changed is made.resources.list_changed is True
    assert made.experimental == {"any_key": {}}


def test_a_wire_object_with_a_key_that_does_not_exist_is_refused_at_every_depth():
    with pytest.raises(DefinitionError, match="capabilities: tools has no 'changed'; it takes listChanged"):
        wire_object({"tools": {"changed": True}}, types.ServerCapabilities, "capabilities")
    with pytest.raises(DefinitionError, match=r"capabilities: Expected `object \| null`"):
        wire_object({"tools": True}, types.ServerCapabilities, "capabilities")


def test_no_wire_objects_are_none():
    assert optional_wire_object(None, types.Icon, "An icon") is None
    assert wire_objects(None, types.Icon, "An icon") is wire_objects([], types.Icon, "An icon") is None
