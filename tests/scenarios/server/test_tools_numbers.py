"""Numbers in the results of tools: subclasses, numbers of other packages, and numbers that JSON cannot express."""

import enum
import fractions
import logging
import numbers
from dataclasses import dataclass
from typing import Any

import pydantic
import pytest

from dragoman import Client, Server, ToolError, ToolResult, tool
from scenarios.wire import ask

NAN, INFINITY = float("nan"), float("inf")


class Celsius(float):
    __slots__ = ()


class Count(int):
    __slots__ = ()


class Level(enum.IntEnum):
    LOW = 1


class Share(float, enum.Enum):
    HALF = 0.5


class Int64:
    """Like `numpy.int64`: an integral number that is no `int`."""

    def __init__(self, value: int) -> None:
        self._value = value

    def __repr__(self) -> str:
        return f"Int64({self._value})"

    def __index__(self) -> int:
        return self._value

    __int__ = __index__


class Float32:
    """Like `numpy.float32`: a real number that is no `float`."""

    def __init__(self, value: float) -> None:
        self._value = value

    def __repr__(self) -> str:
        return f"Float32({self._value})"

    def __float__(self) -> float:
        return self._value


numbers.Integral.register(Int64)
numbers.Real.register(Float32)


@dataclass
class Reading:
    celsius: float
    count: int


class Model(pydantic.BaseModel):
    celsius: float


def server_of(value: Any, annotation: Any, *, inline: bool = True) -> Server:
    def get():
        return value

    if annotation is not ...:
        get.__annotations__["return"] = annotation
    return Server("numbers", tools=[tool(inline=inline)(get)])


@pytest.mark.covers("RSP-09")
@pytest.mark.parametrize("inline", [True, False], ids=["inline", "threaded"])
@pytest.mark.parametrize(
    ("value", "annotation", "structured"),
    [
        (Celsius(1.5), float, 1.5),
        (Celsius(1.5), ..., 1.5),
        (Count(3), int, 3),
        (Count(3), float, 3),
        (Level.LOW, int, 1),
        (Share.HALF, float, 0.5),
        (Int64(3), int, 3),
        (Int64(3), float, 3),
        (Float32(2.5), float, 2.5),
        (Float32(2.5), float | None, 2.5),
        (fractions.Fraction(1, 2), float, 0.5),
        ([Celsius(1.0), Int64(2)], list[float], [1.0, 2]),
        ({"n": Int64(3)}, dict[str, int], {"n": 3}),
        ({"n": Int64(3)}, ..., {"n": 3}),
        (Reading(Float32(1.5), Level.LOW), Reading, {"celsius": 1.5, "count": 1}),
    ],
    ids=str,
)
def test_numbers_are_sent_as_their_base_type(value, annotation, structured, inline):
    with Client(server_of(value, annotation, inline=inline)) as client:
        assert client.call_tool("get").structured == structured


@pytest.mark.covers("RSP-09")
@pytest.mark.parametrize(
    ("value", "annotation"), [(Float32(2.5), int), (Celsius(1.5), int), (True, int), (Count(1), bool)]
)
def test_number_of_another_type_is_refused(value, annotation):
    with Client(server_of(value, annotation)) as client, pytest.raises(ToolError, match="Internal error occurred"):
        client.call_tool("get")


@pytest.mark.covers("RSP-10")
@pytest.mark.parametrize("inline", [True, False], ids=["inline", "threaded"])
@pytest.mark.parametrize(
    ("value", "annotation", "cause"),
    [
        (NAN, ..., "$ is nan"),
        (NAN, float, "$ is nan"),
        (NAN, float | None, "$ is nan"),
        (-INFINITY, ..., "$ is -inf"),
        (Float32(NAN), float, "$ is nan"),
        ({"a": [1.0, {"b": INFINITY}], "c": None}, ..., "$.a[1].b is inf"),
        ({"a": NAN}, dict, "$.a is nan"),
        ({"a": NAN}, dict[str, Any], "$.a is nan"),
        ([None, NAN], ..., "$[1] is nan"),
        (Reading(NAN, 1), ..., "$.celsius is nan"),
        (Reading(NAN, 1), Reading, "$.celsius is nan"),
        (Model(celsius=NAN), ..., "$.celsius is nan"),
        (ToolResult("text", structured={"a": NAN}), ..., "$.a is nan"),
    ],
    ids=str,
)
def test_number_without_json_form_is_an_error_that_the_log_names(value, annotation, cause, inline, caplog):
    server = server_of(value, annotation, inline=inline)
    refused = pytest.raises(ToolError, match="Internal error occurred")
    with caplog.at_level(logging.ERROR), Client(server) as client, refused:
        client.call_tool("get")
    assert f"The result of the tool 'get' cannot be sent: {cause}" in caplog.text


@pytest.mark.covers("RSP-10")
@pytest.mark.parametrize("value", [{"a": None}, [None, "nan"], {"null": 1}], ids=str)
def test_null_is_no_error(value):
    with Client(server_of(value, ...)) as client:
        assert client.call_tool("get").structured == value


@pytest.mark.covers("RSP-10")
def test_resource_with_nan_is_an_error_that_the_log_names(caplog):
    server = Server("numbers")

    @server.resource("data://numbers")
    def numbers() -> dict:
        return {"a": NAN}

    with caplog.at_level(logging.ERROR):
        response = ask(server, "resources/read", {"uri": "data://numbers"})
    assert response["error"]["code"] == -32603
    assert "$.a is nan" in caplog.text


@pytest.mark.covers("RSP-11")
@pytest.mark.parametrize("version", ["2025-06-18", "2025-11-25", "2026-07-28"])
@pytest.mark.parametrize("wrap_result", [True, False])
@pytest.mark.parametrize(
    ("value", "annotation"), [(3, int), ([1], list[int]), ({"result": 3}, dict[str, int]), ({"a": 1}, dict)], ids=str
)
def test_client_gets_the_same_value_with_and_without_an_annotation(value, annotation, wrap_result, version):
    def plain():
        return value

    def annotated():
        return value

    annotated.__annotations__["return"] = annotation
    server = Server("values", tools=[tool(wrap_result=wrap_result)(function) for function in (plain, annotated)])
    with Client(server, protocol_version=version) as client:
        assert client.call_tool("plain").structured == value
        assert client.call_tool("annotated").structured == value
