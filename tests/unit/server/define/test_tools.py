"""Tools, where the wire does not show it."""

import pytest

from dragoman import DefinitionError, Tool, tool


def add(a: int, b: int) -> int:
    return a + b


def test_a_tool_of_a_class_can_be_called_as_its_method():
    class Add(Tool):
        def call(self, a: int, b: int) -> int:
            return a + b

    assert Add()(1, b=2) == 3


def test_the_bare_class_is_no_tool():
    with pytest.raises(DefinitionError, match="Tool must define a method `call`"):
        Tool()
    with pytest.raises(TypeError, match="Tool must define a method `call`"):
        Tool.define(add).call()


def test_the_decorator_takes_a_function_or_options():
    assert tool(add).name == "add"
    assert tool(name="plus", scopes=["sum"])(add).scopes == ["sum"]


def test_whether_results_are_wrapped_follows_from_the_schema():
    def record() -> dict[str, int]: ...

    assert (tool(add).output.wraps, tool(record).output.wraps) == (True, False)
