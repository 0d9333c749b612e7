"""Methods of a server's own, seen from the wire."""

import threading
from dataclasses import dataclass

import pytest

from dragoman import BlockingContext, Context, DefinitionError, RpcError, Server, types
from dragoman.errors import MethodAlreadyDefined
from dragoman.protocol.methods import METHODS
from dragoman.testing.wire import WirePeer
from scenarios.wire import DEADLINE

ERAS = ["none", "2024-11-05", "handshake", "stateless"]


async def answered(server: Server, method: str, params: types.Json | None, era: str) -> types.Json:
    async with WirePeer(server, era) as peer:
        return await peer.request(method, params)


def stateless_result(value: types.Json) -> types.Json:
    server_info = {"io.modelcontextprotocol/serverInfo": {"name": "acme", "version": "0"}}
    return {**value, "resultType": "complete", "_meta": server_info}


@dataclass
class Point:
    x: int


@pytest.mark.covers("CUS-01", "CUS-02")
@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("value", [8, "eight", [1, 2], {"a": 1}, {}, None, True, Point(3)], ids=str)
async def test_a_method_gives_any_json_value(value, era):
    server = Server("acme")
    server.method("acme/get")(lambda: value)
    plain = {"x": 3} if isinstance(value, Point) else value
    response = await answered(server, "acme/get", None, era)
    wrapped = stateless_result(plain if isinstance(plain, dict) else {"result": plain})
    assert response["result"] == (wrapped if era == "stateless" else plain)


@pytest.mark.covers("CUS-01")
@pytest.mark.parametrize("era", ERAS)
async def test_a_method_takes_its_parameters_by_name(era):
    server = Server("acme")

    @server.method("acme/add")
    def add(a: int, b: int = 2) -> dict:
        return {"sum": a + b}

    assert add(1) == {"sum": 3}
    for params, total in [({"a": 1}, 3), ({"a": 1, "b": 1}, 2), ({"a": "5", "c": 0}, 7)]:
        assert (await answered(server, "acme/add", params, era))["result"]["sum"] == total


@pytest.mark.covers("CUS-01")
@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("params", [None, {}, {"q": [1]}])
async def test_a_method_with_params_takes_all_of_them(params, era):
    server = Server("acme")

    @server.method("acme/all")
    async def all_of_them(params: dict) -> list:
        return sorted(key for key in params if key != "_meta")

    response = await answered(server, "acme/all", params, era)
    found = response["result"]["result"] if era == "stateless" else response["result"]
    assert found == sorted(params or {})


@pytest.mark.covers("CUS-03", "CUS-05")
@pytest.mark.parametrize("name", sorted({method.name for method in METHODS}))
def test_a_method_of_the_protocol_cannot_be_replaced(name):
    with pytest.raises(MethodAlreadyDefined, match=f"'{name}' is defined already"):
        Server("acme").method(name)


@pytest.mark.covers("CUS-03")
async def test_a_method_cannot_be_defined_twice():
    server = Server("acme")
    server.method("acme/one")(lambda: 1)
    with pytest.raises(MethodAlreadyDefined, match="'acme/one'"):
        server.method("acme/one")
    assert (await answered(server, "acme/one", None, "none"))["result"] == 1


@pytest.mark.covers("CUS-04")
def test_a_method_that_cannot_be_served_is_refused():
    def wrong(ctx: Context) -> None: ...

    with pytest.raises(DefinitionError, match="a `def` takes a BlockingContext"):
        Server("acme").method("acme/wrong")(wrong)


@pytest.mark.covers("CUS-04")
@pytest.mark.parametrize("era", ERAS)
async def test_parameters_that_do_not_fit_are_refused_by_name(era):
    server = Server("acme")

    @server.method("acme/add")
    def add(a: int, b: int) -> int:
        return a + b

    response = await answered(server, "acme/add", {"b": "x"}, era)
    assert response["error"] == {
        "code": -32602,
        "message": "Missing required arguments: a. Invalid arguments: b: Expected `int`, got `str`",
    }


@pytest.mark.covers("CUS-04")
async def test_an_error_raised_on_purpose_is_the_answer():
    server = Server("acme")

    @server.method("acme/fail")
    async def fail() -> None:
        raise RpcError(7, "Seven", [7])

    response = await answered(server, "acme/fail", None, "stateless")
    assert response["error"] == {"code": 7, "message": "Seven", "data": [7]}


@pytest.mark.covers("CUS-04")
async def test_a_method_knows_its_request_and_blocks_nobody():
    server = Server("acme", server_context="application")
    gate = threading.Event()

    @server.method("acme/wait")
    def wait(word: str, ctx: BlockingContext) -> list:
        return [gate.wait(DEADLINE), word, ctx.request_id, ctx.server_context]

    async with WirePeer(server) as peer:
        waiting = peer.start("acme/wait", {"word": "w"}, id="first")
        assert "result" in await peer.request("ping")
        gate.set()
        assert (await peer.response(waiting))["result"] == [True, "w", "first", "application"]


@pytest.mark.covers("CUS-01")
async def test_a_method_may_name_the_type_of_its_result_itself():
    server = Server("acme")
    server.method("acme/get")(lambda: {"resultType": "acme", "a": 1})
    response = await answered(server, "acme/get", None, "stateless")
    assert (response["result"]["resultType"], response["result"]["a"]) == ("acme", 1)
