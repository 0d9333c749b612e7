"""How a client serves its server: requests of the handshake era, and input that a stateless server requires."""

import asyncio
import json

import pytest

from dragoman import AsyncClient, Context, InputNeeded, Server, TransportError
from dragoman.client import Elicitation
from dragoman.client.connect import reconnect
from scenarios.client_peer import NEWEST, STATELESS, Script, until

ELICIT = '{"message": "?", "requestedSchema": {"type": "object", "properties": {"n": {"type": "integer"}}}}'
SERVER = f"""
ASKED = {{}}
def ask(id, method, params=None):
    tell({{"jsonrpc": "2.0", "id": id, "method": method, "params": params or {{}}}})
def elicit(id): ask(id, "elicitation/create", {ELICIT})
def answer(m):
    if m["method"] == "initialize": initialized(m, tools={{}})
    elif m["method"] == "tools/call": CALL.append(m); call(m)
    elif m["method"] is None: ANSWERS[m["id"]] = m.get("result", m.get("error")); answered()
CALL, ANSWERS = [], {{}}
def answered(): pass
"""
STATELESS_SERVER = f"""
def need(m, requests=None, state=None):
    r = {{"resultType": "input_required"}}
    if requests is not None: r["inputRequests"] = requests
    if state is not None: r["requestState"] = state
    result(m, r)
FORM = {{"method": "elicitation/create", "params": {ELICIT}}}
def answer(m):
    if m["method"] == "server/discover": discovered(m, "{STATELESS}", tools={{}}, resources={{}}, prompts={{}})
    elif "id" in m: call(m, m["params"].get("inputResponses"), m["params"].get("requestState"))
"""


def handshaking(tmp_path, code: str) -> list[str]:
    return Script(tmp_path, SERVER + code).command


@pytest.mark.covers("CSR-08")
async def test_requests_of_the_server_are_answered_side_by_side(tmp_path):
    code = """
def call(m): [elicit(n) for n in "abc"]
def answered():
    if len(ANSWERS) == 3: text(CALL[0], " ".join(ANSWERS))
"""
    together = asyncio.Barrier(3)

    async def fill_in(request):
        await asyncio.wait_for(together.wait(), 10)
        return {"n": 1}

    async with AsyncClient(handshaking(tmp_path, code), mode="handshake", on_elicitation=fill_in) as client:
        assert sorted((await client.call_tool("x")).text) == sorted("a b c")


@pytest.mark.covers("LNT-07", "CSR-08", "BEY-11")
async def test_a_request_that_the_server_gives_up_is_cancelled_and_not_answered(tmp_path):
    code = """
def call(m):
    if m["params"]["name"] == "cancel":
        tell({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": "a"}})
        ask("b", "ping")
    else: elicit("a")
def answered():
    if "b" in ANSWERS: text(CALL[1], str(sorted(ANSWERS)))
"""
    asked, given_up = asyncio.Event(), asyncio.Event()

    async def wait(request):
        asked.set()
        try:
            await asyncio.Event().wait()
        finally:
            given_up.set()

    async with AsyncClient(handshaking(tmp_path, code), mode="handshake", on_elicitation=wait) as client:
        first = asyncio.create_task(client.call_tool("ask"))
        await asyncio.wait_for(asked.wait(), 10)
        assert (await client.call_tool("cancel")).text == "['b']"
        await asyncio.wait_for(given_up.wait(), 10)
        first.cancel()
        await asyncio.wait([first])


@pytest.mark.covers("LNT-07")
async def test_a_request_that_is_given_up_in_the_same_breath_is_not_answered(tmp_path):
    code = """
def call(m):
    elicit("a"), tell({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": "a"}})
    ask("b", "ping")
def answered(): text(CALL[0], str(sorted(ANSWERS)))
"""

    async def wait(request):
        await asyncio.Event().wait()

    async with AsyncClient(handshaking(tmp_path, code), mode="handshake", on_elicitation=wait) as client:
        assert (await client.call_tool("x")).text == "['b']"


@pytest.mark.covers("LCAPS-03", "CSR-01")
async def test_what_is_not_served_is_refused_and_ping_is_answered(tmp_path):
    code = """
def call(m): ask("a", "tasks/result"), ask("b", "sampling/createMessage"), ask("c", "ping"), ask("d", "roots/list")
def answered():
    if len(ANSWERS) == 4: text(CALL[0], str([ANSWERS[n].get("code", ANSWERS[n]) for n in "abcd"]))
"""
    async with AsyncClient(handshaking(tmp_path, code), mode="handshake") as client:
        assert (await client.call_tool("x")).text == "[-32601, -32601, {}, -32601]"


@pytest.mark.covers("CSR-01")
async def test_a_handler_that_fails_says_nothing_of_why(tmp_path):
    code = """
def call(m): ask("a", "sampling/createMessage", {"messages": [], "maxTokens": 5})
def answered(): text(CALL[0], json.dumps(ANSWERS["a"]))
"""

    def fail(request):
        raise RuntimeError("the password is 1234")

    async with AsyncClient(handshaking(tmp_path, code), mode="handshake", on_sampling=fail) as client:
        said = (await client.call_tool("x")).text
        assert "-32603" in said
        assert "1234" not in said


@pytest.mark.covers("CSR-07", "CSR-09")
@pytest.mark.parametrize("version", [NEWEST, STATELESS])
async def test_one_handler_serves_both_eras(version):
    server = Server("asker")

    @server.tool
    async def book(ctx: Context) -> str:
        found = await ctx.elicit("How many?", {"type": "object", "properties": {"n": {"type": "integer"}}})
        return str(found.content)

    async with AsyncClient(server, protocol_version=version, on_elicitation=lambda request: {"n": 3}) as client:
        assert "3" in (await client.call_tool("book")).text


@pytest.mark.covers("CSR-09")
async def test_input_is_gathered_side_by_side_and_the_request_made_again_with_it(tmp_path):
    code = """
def call(m, given, state):
    if given is None: need(m, {"a": FORM, "b": FORM}, "sealed")
    else: text(m, json.dumps([given, state]))
"""
    script = Script(tmp_path, STATELESS_SERVER + code)
    together = asyncio.Barrier(2)

    async def fill_in(request):
        await asyncio.wait_for(together.wait(), 10)
        return {"n": 1}

    async with AsyncClient(script.command, on_elicitation=Elicitation(fill_in, max_concurrent=2)) as client:
        answers, state = json.loads((await client.call_tool("x", {"city": "Oslo"})).text)
        assert answers == {key: {"action": "accept", "content": {"n": 1}} for key in "ab"}
        assert state == "sealed"
    first, second = [m for m in script.received if m["method"] == "tools/call"]
    assert first["id"] != second["id"]
    assert second["params"]["arguments"] == first["params"]["arguments"] == {"city": "Oslo"}


@pytest.mark.covers("CSR-09")
@pytest.mark.parametrize("ask", ["read_resource", "get_prompt"])
async def test_input_is_gathered_for_resources_and_prompts_too(tmp_path, ask):
    code = """
def call(m, given, state):
    if given is None: need(m, {"a": FORM})
    elif m["method"] == "resources/read": result(m, {"contents": []})
    else: result(m, {"messages": []})
"""
    script = Script(tmp_path, STATELESS_SERVER + code)
    async with AsyncClient(script.command, on_elicitation=lambda request: {"n": 1}) as client:
        await getattr(client, ask)("file:///a")
    again = script.received[-1]["params"]
    assert again["inputResponses"]["a"]["content"] == {"n": 1}
    assert "requestState" not in again


@pytest.mark.covers("CSR-09")
async def test_a_state_that_the_server_no_longer_gives_is_not_sent(tmp_path):
    code = """
SEEN = []
def call(m, given, state):
    SEEN.append((sorted(given or ()), state))
    if len(SEEN) == 1: need(m, {"a": FORM}, "one")
    elif len(SEEN) == 2: need(m, {"b": FORM})
    elif len(SEEN) == 3: need(m, state="three")
    else: text(m, str(SEEN))
"""
    script = Script(tmp_path, STATELESS_SERVER + code)
    async with AsyncClient(script.command, on_elicitation=lambda request: {"n": 1}) as client:
        said = (await client.call_tool("x")).text
    assert said == str([([], None), (["a"], "one"), (["b"], None), ([], "three")])


@pytest.mark.covers("CSR-10")
async def test_ten_rounds_are_enough(tmp_path):
    code = """
SEEN = []
def call(m, given, state): SEEN.append(1); need(m, {"a": FORM}, f"after {len(SEEN)}")
"""
    script, answers = Script(tmp_path, STATELESS_SERVER + code), []
    async with AsyncClient(script.command, on_elicitation=lambda request: answers.append(1) or {"n": 1}) as client:
        with pytest.raises(InputNeeded, match="10 times") as caught:
            await client.call_tool("x")
        assert len(answers) == 10
        assert caught.value.state == "after 11"
        assert list(caught.value.requests) == ["a"]


@pytest.mark.covers("CSR-10")
async def test_a_state_without_questions_is_brought_back_after_growing_pauses(tmp_path, monkeypatch):
    paused = []

    async def pause(turn):
        paused.append(turn)

    monkeypatch.setattr("dragoman.client.session.pause", pause)
    code = """
def call(m, given, state):
    n = int(state or 0)
    if m["params"]["name"] == "patient" and n == 4: text(m, f"done, given {given}")
    else: need(m, state=str(n + 1))
"""
    script = Script(tmp_path, STATELESS_SERVER + code)
    async with AsyncClient(script.command) as client:
        assert (await client.call_tool("patient")).text == "done, given None"
        assert paused == [1, 2, 3, 4]
        with pytest.raises(InputNeeded) as caught:
            await client.call_tool("endless")
        assert caught.value.requests == {}
    assert reconnect.FIRST_PAUSE > 0


@pytest.mark.covers("CSR-11")
async def test_who_has_no_handler_is_told_what_is_needed_and_may_answer_by_hand(tmp_path):
    code = """
def call(m, given, state):
    if given is None: need(m, {"a": FORM}, "sealed")
    else: text(m, f"{given['a']['content']['n']} {state}")
"""
    async with AsyncClient(Script(tmp_path, STATELESS_SERVER + code).command) as client:
        with pytest.raises(InputNeeded, match="needs input") as caught:
            await client.call_tool("x")
        assert caught.value.requests["a"].params.message == "?"
        answers = {"a": {"action": "accept", "content": {"n": 4}}}
        result = await client.call_tool("x", input_responses=answers, request_state=caught.value.state)
        assert result.text == "4 sealed"


@pytest.mark.covers("CSR-12", "BEY-01")
async def test_a_result_of_an_unknown_type_is_refused_and_one_of_none_is_complete(tmp_path):
    code = """
def call(m, given, state):
    content = [{"type": "text", "text": "ok"}]
    result(m, {"content": content, **({"resultType": "task"} if m["params"]["name"] == "odd" else {})})
"""
    async with AsyncClient(Script(tmp_path, STATELESS_SERVER + code).command) as client:
        with pytest.raises(TransportError, match="unknown type 'task'"):
            await client.call_tool("odd")
        assert (await client.call_tool("even")).text == "ok"


@pytest.mark.covers("CSR-09")
async def test_a_call_that_is_given_up_gives_up_its_questions(tmp_path):
    code = "def call(m, given, state): need(m, {'a': FORM, 'b': FORM})"
    asked, given_up = [], []

    async def wait(request):
        asked.append(1)
        try:
            await asyncio.Event().wait()
        finally:
            given_up.append(1)

    script, elicitation = Script(tmp_path, STATELESS_SERVER + code), Elicitation(wait, max_concurrent=2)
    async with AsyncClient(script.command, on_elicitation=elicitation) as client:
        call = asyncio.create_task(client.call_tool("x"))
        await until(lambda: len(asked) == 2)
        call.cancel()
        await asyncio.wait([call])
        assert given_up == [1, 1]
