"""What a stateless client sends back: answers and states, its own and others."""

from dataclasses import dataclass
from typing import Any

import pytest

from dragoman import Context, Elicit, Server, types
from dragoman.testing.wire import WirePeer
from scenarios.wire import text

CAPABILITIES: types.Json = {"elicitation": {}, "roots": {}}
ADA = {"action": "accept", "content": {"name": "Ada"}}
GRACE = {"action": "accept", "content": {"name": "Grace"}}


@dataclass
class Name:
    name: str


SECRET, OLD = "a secret of sixteen", "the secret of last year"


def asking_server(name: str = "asking", secret: Any = SECRET) -> Server:
    server = Server(name, secret=secret)

    @server.tool
    async def greet(ctx: Context, greeting: str = "Hello") -> str:
        return f"{greeting} {(await ctx.elicit('Who?', Name)).content.name}"

    @server.tool
    async def greet_two(ctx: Context) -> str:
        answers = await ctx.ask(first=Elicit("First?", Name), second=Elicit("Second?", Name))
        return " ".join(answer.content.name for answer in answers.values())

    @server.prompt(name="greet")
    async def greet_in_a_prompt(ctx: Context) -> str:
        return f"Hello {(await ctx.elicit('Who?', Name)).content.name}"

    return server


def client(server: Server) -> WirePeer:
    return WirePeer(server, "stateless", capabilities=CAPABILITIES)


async def asked(server: Server, params: types.Json) -> types.Json:
    """Return the result of a tool call, which asks."""
    async with client(server) as peer:
        result = (await peer.request("tools/call", params))["result"]
    assert result["resultType"] == "input_required"
    return result


async def retried(
    server: Server, params: types.Json, answers: Any = None, state: Any = None, method: str = "tools/call"
) -> types.Json:
    """Return the response to a request that comes again."""
    given = {"inputResponses": answers, "requestState": state}
    async with client(server) as peer:
        return await peer.request(method, params | {key: value for key, value in given.items() if value is not None})


@pytest.mark.covers("MRT-03")
async def test_another_connection_to_another_server_of_the_same_name_and_secret_goes_on():
    state = (await asked(asking_server(), {"name": "greet"}))["requestState"]
    assert text(await retried(asking_server(), {"name": "greet"}, {"elicit-1": ADA}, state)) == "Hello Ada"


@pytest.mark.covers("MRT-03")
async def test_of_several_questions_only_those_without_an_answer_are_asked_again():
    server = asking_server()
    state = (await asked(server, {"name": "greet_two"}))["requestState"]
    again = (await retried(server, {"name": "greet_two"}, {"second": GRACE}, state))["result"]
    assert list(again["inputRequests"]) == ["first"]
    answered = await retried(server, {"name": "greet_two"}, {"first": ADA}, again["requestState"])
    assert text(answered) == "Ada Grace"


@pytest.mark.covers("MRT-05")
async def test_a_state_that_was_changed_is_refused():
    server = asking_server()
    state = (await asked(server, {"name": "greet"}))["requestState"]
    middle = len(state) // 2
    other = "A" if state[middle] != "A" else "B"
    for changed in (state[:middle] + other + state[middle + 1 :], state[:-4], state + "AAAA", "", "no state"):
        error = (await retried(server, {"name": "greet"}, {"elicit-1": ADA}, changed))["error"]
        assert error["code"] == -32602
        assert "Invalid or expired requestState" in error["message"]


@pytest.mark.covers("MRT-05")
@pytest.mark.parametrize(("seconds", "is_refused"), [(590, False), (610, True)])
async def test_a_state_is_good_for_ten_minutes(monkeypatch, seconds, is_refused):
    now = [1_000_000.0]
    monkeypatch.setattr("dragoman.server.request.asking.time.time", lambda: now[0])
    server = asking_server()
    state = (await asked(server, {"name": "greet"}))["requestState"]
    now[0] += seconds
    response = await retried(server, {"name": "greet"}, {"elicit-1": ADA}, state)
    assert (response.get("error", {}).get("code") == -32602) is is_refused


@pytest.mark.covers("MRT-05")
@pytest.mark.parametrize(
    "stranger", [asking_server("another"), asking_server(secret="another secret of 16")], ids=["by name", "by secret"]
)
async def test_a_state_of_another_server_is_refused(stranger):
    state = (await asked(asking_server(), {"name": "greet"}))["requestState"]
    assert (await retried(stranger, {"name": "greet"}, {"elicit-1": ADA}, state))["error"]["code"] == -32602


@pytest.mark.covers("MRT-05")
@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("tools/call", {"name": "greet_two"}),
        ("tools/call", {"name": "greet", "arguments": {"greeting": "Bye"}}),
        ("prompts/get", {"name": "greet"}),
    ],
    ids=["other tool", "other arguments", "other method"],
)
async def test_a_state_of_another_request_is_refused(method, params):
    server = asking_server()
    state = (await asked(server, {"name": "greet"}))["requestState"]
    assert (await retried(server, params, {"elicit-1": ADA}, state, method))["error"]["code"] == -32602


@pytest.mark.covers("MRT-06")
async def test_a_state_sealed_with_an_earlier_secret_opens_while_that_is_kept():
    state = (await asked(asking_server(secret=OLD), {"name": "greet"}))["requestState"]
    response = await retried(asking_server(secret=[SECRET, OLD]), {"name": "greet"}, {"elicit-1": ADA}, state)
    assert text(response) == "Hello Ada"


@pytest.mark.covers("MRT-01")
async def test_only_tools_prompts_and_resources_may_ask():
    server = Server("asking", secret="a secret of sixteen")
    refusals: list[str] = []

    @server.on_complete
    async def complete(ref: Any, argument: Any, ctx: Context) -> list[str]:
        try:
            await ctx.elicit("Who?", Name)
        except Exception as error:
            refusals.append(str(error))
        return []

    @server.prompt
    def any_prompt(word: str) -> str:
        return word

    params = {"ref": {"type": "ref/prompt", "name": "any_prompt"}, "argument": {"name": "word", "value": ""}}
    async with client(server) as peer:
        await peer.request("completion/complete", params)
    assert refusals == ["A handler of completion/complete cannot ask the client"]
