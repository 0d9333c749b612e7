from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from dragoman import types
from dragoman.errors import InvalidParams, ValidationError
from dragoman.protocol.recording import Recording
from dragoman.protocol.rounds import LIFETIME, MAX_ROUNDS, MAX_STATE_BYTES, RequestBinding, Rounds, fingerprint
from dragoman.protocol.tokens import KeyRing

RING = KeyRing(bytes(range(32)))
OTHER_RING = KeyRing(bytes(range(32, 64)))
NOW = 1_790_000_000.25
CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
UNITS = {"type": "object", "properties": {"units": {"type": "string"}}}


def elicit(message: str = "Which city?", schema: Any = CITY) -> types.ElicitRequest:
    return types.ElicitRequest(types.ElicitRequestParams(message, requested_schema=schema))


def visit(url: str) -> types.ElicitRequest:
    return types.ElicitRequest(types.ElicitRequestParams("Log in", mode="url", url=url, elicitation_id="1"))


def sample(text: str = "Say hello") -> types.CreateMessageRequest:
    return types.CreateMessageRequest(
        types.CreateMessageRequestParams([types.SamplingMessage("user", types.TextContent(text))], 100)
    )


FORECAST = {"name": "forecast", "arguments": {"days": 3}}


def subject(
    params: Any = FORECAST,
    method: str = "tools/call",
    principal: str | None = None,
    server: str = "weather",
) -> RequestBinding:
    return RequestBinding.of(method, Raw(json.dumps(params).encode()), principal, server=server)


SUBJECT = subject()


def begin(now: float = NOW) -> Rounds:
    return Rounds.resume(SUBJECT, RING, now)


def answer(previous: types.InputRequiredResult, now: float = NOW, **responses: bytes) -> Rounds:
    """The next round: what the client answers, with underscores for the hyphens of the keys."""
    raw = {key.replace("_", "-"): Raw(value) for key, value in responses.items()}
    return Rounds.resume(SUBJECT, RING, now, raw, previous.request_state)


def test_the_result_on_the_wire_holds_the_questions_as_requests() -> None:
    rounds = begin()
    rounds.ask(elicit())
    rounds.ask(types.ListRootsRequest())
    encoded = msgspec.to_builtins(rounds.required())
    assert encoded.keys() == {"inputRequests", "requestState"}
    assert encoded["inputRequests"] == {
        "elicit-1": {
            "method": "elicitation/create",
            "params": {"message": "Which city?", "requestedSchema": CITY},
        },
        "roots-1": {"method": "roots/list"},
    }


def test_a_result_without_questions_still_has_a_state() -> None:
    result = begin().required()
    assert result.input_requests is None
    assert result.request_state is not None


def test_two_questions_in_a_row_are_answered_one_round_after_the_other() -> None:
    first = begin()
    assert first.ask(elicit("Which city?", CITY)) is None

    second = answer(first.required(), elicit_1=b'{"action":"accept","content":{"city":"Oslo"}}')
    assert second.ask(elicit("Which city?", CITY)) == Raw(b'{"action":"accept","content":{"city":"Oslo"}}')
    assert second.ask(elicit("Which units?", UNITS)) is None
    asked = second.required()
    assert asked.input_requests == {"elicit-2": elicit("Which units?", UNITS)}

    third = answer(asked, elicit_2=b'{"action":"decline"}')
    assert third.ask(elicit("Which city?", CITY)) == Raw(b'{"action":"accept","content":{"city":"Oslo"}}')
    assert third.ask(elicit("Which units?", UNITS)) == Raw(b'{"action":"decline"}')
    assert not third.pending


@pytest.mark.parametrize("branch", ["elicit", "sample", "roots", None])
def test_a_handler_may_branch_on_its_first_answer(branch: str | None) -> None:
    branches: dict[str, types.InputRequest] = {
        "elicit": elicit("More?", UNITS),
        "sample": sample(),
        "roots": types.ListRootsRequest(),
    }

    def handle(rounds: Rounds) -> Raw | None:
        chosen = rounds.ask(elicit())
        if chosen is None:
            return None
        kind = msgspec.json.decode(chosen)["content"]["branch"]
        return chosen if kind is None else rounds.ask(branches[kind])

    first = begin()
    assert handle(first) is None
    second = answer(first.required(), elicit_1=json.dumps({"content": {"branch": branch}}).encode())
    reply = handle(second)
    if branch is None:
        assert reply is not None
        return
    assert reply is None
    result = second.required()
    key = "elicit-2" if branch == "elicit" else f"{branch}-1"
    assert result.input_requests == {key: branches[branch]}
    third = answer(result, **{key.replace("-", "_"): b'"the end"'})
    assert handle(third) == Raw(b'"the end"')


def test_questions_asked_together_join_one_round_and_each_kind_counts_for_itself() -> None:
    rounds = begin()
    questions = [elicit("a"), sample(), elicit("b"), types.ListRootsRequest(), elicit("c"), sample()]
    assert [rounds.ask(question) for question in questions] == [None] * 6
    asked = rounds.required().input_requests
    assert asked is not None
    assert list(asked) == ["elicit-1", "sample-1", "elicit-2", "roots-1", "elicit-3", "sample-2"]


def test_a_question_may_have_a_key_of_its_own() -> None:
    rounds = begin()
    rounds.ask(elicit(), "where")
    result = rounds.required()
    assert result.input_requests == {"where": elicit()}
    assert answer(result, where=b"1").ask(elicit(), "where") == Raw(b"1")


def test_keys_by_order_step_around_keys_that_were_given() -> None:
    rounds = begin()
    rounds.ask(elicit(), "elicit-1")
    rounds.ask(elicit())
    rounds.ask(elicit())
    asked = rounds.required().input_requests
    assert asked is not None
    assert list(asked) == ["elicit-1", "elicit-2", "elicit-3"]


@pytest.mark.parametrize("first_key", ["mine", "elicit-1", None])
def test_two_questions_of_one_run_cannot_share_a_key(first_key: str | None) -> None:
    rounds = begin()
    rounds.ask(elicit(), first_key)
    with pytest.raises(ValidationError, match="have the key"):
        rounds.ask(sample(), first_key or "elicit-1")


def test_answers_are_taken_without_a_state_too() -> None:
    rounds = Rounds.resume(SUBJECT, RING, NOW, {"elicit-1": Raw(b"1"), "own": Raw(b"2"), "surplus": Raw(b"3")})
    assert rounds.ask(elicit()) == Raw(b"1")
    assert rounds.ask(sample(), "own") == Raw(b"2")
    assert rounds.ask(sample()) is None


def test_answers_given_without_a_state_are_kept_in_the_next_one() -> None:
    rounds = Rounds.resume(SUBJECT, RING, NOW, {"elicit-1": Raw(b"1")})
    rounds.ask(elicit())
    rounds.ask(elicit("b"))
    later = answer(rounds.required(), elicit_2=b"2")
    assert later.ask(elicit()) == Raw(b"1")
    assert later.ask(elicit("b")) == Raw(b"2")


@pytest.mark.parametrize("responses", [None, {}, {"elicit_2": b"1"}, {"sample_1": b"1"}, {"Elicit_1": b"1"}])
def test_without_the_answer_that_was_asked_for_it_is_asked_again(responses: dict[str, bytes] | None) -> None:
    first = begin()
    first.ask(elicit())
    second = answer(first.required(), **(responses or {}))
    assert second.ask(elicit()) is None
    assert second.required().input_requests == {"elicit-1": elicit()}


def test_answers_that_were_not_asked_for_are_ignored() -> None:
    first = begin()
    first.ask(elicit())
    second = answer(first.required(), elicit_1=b"1", elicit_2=b"2", admin=b"true")
    assert second.recording.inputs == {"elicit-1": Raw(b"1")}
    assert second.ask(elicit()) == Raw(b"1")
    assert second.ask(elicit("b")) is None


def test_a_state_in_which_nothing_was_asked_takes_no_answers() -> None:
    assert answer(begin().required(), elicit_1=b"1").recording.inputs == {}


def test_an_earlier_answer_cannot_be_replaced_in_a_later_round() -> None:
    first = begin()
    first.ask(elicit())
    second = answer(first.required(), elicit_1=b'"first"')
    second.ask(elicit())
    second.ask(elicit("b"))
    third = answer(second.required(), elicit_1=b'"changed"', elicit_2=b"2")
    assert third.ask(elicit()) == Raw(b'"first"')


def test_inputs_are_all_answers_so_far() -> None:
    first = begin()
    first.ask(elicit(), "a")
    first.ask(sample(), "b")
    second = answer(first.required(), a=b"1")
    assert second.recording.inputs == {"a": Raw(b"1")}
    second.ask(elicit(), "a")
    second.ask(sample(), "b")
    assert answer(second.required(), b=b"2").recording.inputs == {"a": Raw(b"1"), "b": Raw(b"2")}


@pytest.mark.parametrize(
    ("asked", "then", "holds"),
    [
        (elicit("Which city?"), elicit("Which city, please?"), True),
        (elicit(schema={"a": 1, "b": {"c": 2, "d": 3}}), elicit(schema={"b": {"d": 3, "c": 2}, "a": 1}), True),
        (elicit(schema=CITY), elicit(schema=UNITS), False),
        (elicit(schema={"required": ["a", "b"]}), elicit(schema={"required": ["b", "a"]}), False),
        (elicit(schema=None), elicit(schema={}), False),
        (elicit(), types.ElicitRequest(types.ElicitRequestParams("a", mode="form", requested_schema=CITY)), True),
        (visit("https://a/1"), visit("https://a/1"), True),
        (visit("https://a/1"), visit("https://a/2"), False),
        (visit("https://a/1"), elicit(), False),
        (types.ElicitRequest(types.ElicitRequestParams("a", mode="url")), elicit(schema=None), False),
        (sample("Say hello"), sample("Say goodbye"), True),
        (sample(), elicit(), False),
        (sample(), types.ListRootsRequest(), False),
        (types.ListRootsRequest(), types.ListRootsRequest(types.Params()), True),
    ],
)
def test_an_answer_holds_for_the_schema_and_not_for_the_words(
    asked: types.InputRequest, then: types.InputRequest, *, holds: bool
) -> None:
    first = begin()
    first.ask(asked, "key")
    second = answer(first.required(), key=b'{"action":"accept"}')
    assert (second.ask(then, "key") is not None) is holds
    assert second.pending is not holds
    assert (fingerprint(asked) == fingerprint(then)) is holds


def test_after_a_change_of_schema_the_old_answer_stays_refused_while_there_is_no_new_one() -> None:
    first = begin()
    first.ask(elicit(schema=CITY))
    second = answer(first.required(), elicit_1=b'"for the city"')
    second.ask(elicit(schema=UNITS))
    assert answer(second.required()).ask(elicit(schema=UNITS)) is None


def test_an_answered_question_can_be_asked_again() -> None:
    first = begin()
    first.ask_again(elicit(), "age")
    second = answer(first.required(), age=b"-1")
    assert second.recording.inputs == {"age": Raw(b"-1")}
    second.ask_again(elicit(), "age")
    result = second.required()
    assert result.input_requests == {"age": elicit()}
    assert answer(result).recording.inputs == {}
    assert answer(result, age=b"36").recording.inputs == {"age": Raw(b"36")}


def test_asking_again_claims_the_key_as_asking_does() -> None:
    rounds = begin()
    rounds.ask(elicit(), "age")
    with pytest.raises(ValidationError, match="have the key 'age'"):
        rounds.ask_again(elicit(), "age")


@pytest.mark.parametrize("schema", [{"a": "\ud800"}, {"a": object()}, {"a": {1, object}}])
def test_a_schema_that_cannot_be_json_is_a_validation_error(schema: Any) -> None:
    first = begin()
    first.ask(elicit(schema=schema))
    with pytest.raises(ValidationError, match="cannot be sent as JSON"):
        first.required()
    earlier = begin()
    earlier.ask(elicit())
    with pytest.raises(ValidationError, match="cannot be sent as JSON"):
        answer(earlier.required(), elicit_1=b"1").ask(elicit(schema=schema))


def test_a_schema_may_have_keys_that_only_json_makes_text() -> None:
    assert fingerprint(elicit(schema={1: "a"})) == fingerprint(elicit(schema={"1": "a"}))


def test_steps_are_recorded_for_later_rounds() -> None:
    first = begin()
    assert first.recording.steps.get("charge") is None
    first.recording.steps["charge"] = Raw(b'{"receipt":7}')
    first.recording.steps["nothing"] = Raw(json.dumps(None).encode())
    second = answer(first.required())
    assert second.recording.steps.get("charge") == Raw(b'{"receipt":7}')
    assert second.recording.steps.get("nothing") == Raw(b"null")
    assert second.recording.steps.get("other") is None
    second.recording.steps["more"] = Raw(json.dumps(1).encode())
    third = answer(second.required())
    assert [third.recording.steps.get(name) for name in ("charge", "more")] == [Raw(b'{"receipt":7}'), Raw(b"1")]


@pytest.mark.parametrize("value", [object(), "\ud800", float], ids=["object", "surrogate", "type"])
def test_what_cannot_be_json_cannot_be_kept(value: Any) -> None:
    rounds = begin()
    with pytest.raises(ValidationError, match="cannot be sent as JSON"):
        rounds.required(value)


@pytest.mark.parametrize("state", [None, {"page": 2, "seen": ["a"]}, [], "text", 0, False])
def test_the_author_gets_back_the_state(state: Any) -> None:
    assert begin().recording.state == Raw(b"null")
    assert msgspec.json.decode(answer(begin().required(state)).recording.state) == state


def test_the_authors_state_outlives_rounds_that_do_not_mention_it() -> None:
    first = begin().required({"page": 2})
    second = answer(first)
    second.ask(elicit())
    third = answer(second.required(), elicit_1=b"1")
    assert third.recording.state == Raw(b'{"page":2}')
    assert answer(third.required(None)).recording.state == Raw(b"null")


def refused(request_state: str, subject: RequestBinding = SUBJECT, ring: KeyRing = RING, now: float = NOW) -> bool:
    try:
        Rounds.resume(subject, ring, now, {}, request_state)
    except InvalidParams:
        return True
    return False


def sealed() -> str:
    rounds = begin()
    rounds.ask(elicit())
    state = rounds.required({"author": "state"}).request_state
    assert state is not None
    return state


def test_a_state_that_was_changed_anywhere_is_refused() -> None:
    state = sealed()
    for place, character in enumerate(state):
        assert refused(state[:place] + ("A" if character != "A" else "B") + state[place + 1 :])


@pytest.mark.parametrize(
    "state", ["", "x", "{}", "ключ", "\ud800", "A" * 1_000_000], ids=lambda state: ascii(state[:9])
)
def test_a_state_that_was_made_up_is_refused_with_a_remedy(state: str) -> None:
    with pytest.raises(InvalidParams, match="send the request again without it") as refusal:
        Rounds.resume(SUBJECT, RING, NOW, {}, state)
    assert refusal.value.code == -32602


@pytest.mark.parametrize(("age", "expected"), [(0, False), (LIFETIME, False), (LIFETIME + 1, True), (-5, False)])
def test_a_state_expires_after_ten_minutes(age: int, *, expected: bool) -> None:
    assert LIFETIME == 600
    rounds = Rounds.resume(SUBJECT, RING, 1000)
    state = rounds.required().request_state
    assert state is not None
    assert refused(state, now=1000 + age) is expected


def test_each_round_renews_the_lifetime() -> None:
    second = Rounds.resume(SUBJECT, RING, NOW + 500, {}, sealed()).required().request_state
    assert second is not None
    assert not refused(second, now=NOW + 1000)


@pytest.mark.parametrize(
    "other",
    [
        subject(method="prompts/get"),
        subject(method="tools/CALL"),
        subject(principal="mallory"),
        subject(principal=""),
        subject(server="other"),
        subject(server=""),
        subject({"name": "other", "arguments": {"days": 3}}),
        subject({"name": "forecast", "arguments": {"days": 4}}),
        subject({"name": "forecast", "arguments": {"days": "3"}}),
        subject({"name": "forecast", "arguments": {"days": 3, "city": "Oslo"}}),
        subject({"name": "forecast", "arguments": {"days": 3, "requestState": "x"}}),
        subject({"name": "forecast", "arguments": {"days": 3, "_meta": {}}}),
        subject({"name": "forecast", "arguments": {}}),
        subject({"name": "forecast"}),
        subject({}),
    ],
)
def test_a_state_opens_for_no_other_request(other: RequestBinding) -> None:
    assert refused(sealed(), other)


def test_a_state_of_one_principal_opens_for_nobody_else() -> None:
    alice = subject(principal="alice")
    state = Rounds.resume(alice, RING, NOW).required().request_state
    assert state is not None
    assert not refused(state, alice)
    assert refused(state, SUBJECT)
    assert refused(state, subject(principal="bob"))


def test_a_state_sealed_with_another_key_is_refused_until_the_key_is_in_the_ring() -> None:
    assert refused(sealed(), ring=OTHER_RING)
    assert not refused(sealed(), ring=KeyRing(bytes(range(32, 64)), bytes(range(32))))


def test_a_token_for_another_purpose_is_no_state() -> None:
    assert refused(RING.seal("session 7 weather /mcp", b"[]"))
    assert refused(RING.seal("requestState", b"[]"))


@pytest.mark.parametrize(
    "params",
    [
        {"arguments": {"days": 3}, "name": "forecast"},
        {"name": "forecast", "arguments": {"days": 3}, "_meta": {"progressToken": 1}},
        {"name": "forecast", "arguments": {"days": 3}, "inputResponses": {"a": 1}, "requestState": "x"},
    ],
)
def test_order_and_what_changes_from_round_to_round_make_no_other_request(params: Any) -> None:
    assert subject(params) == SUBJECT
    assert not refused(sealed(), subject(params))


def test_the_order_of_nested_keys_makes_no_other_request() -> None:
    first = subject({"arguments": {"a": {"x": 1, "y": [{"p": 1, "q": 2}]}, "b": 2}})
    second = subject({"arguments": {"b": 2, "a": {"y": [{"q": 2, "p": 1}], "x": 1}}})
    assert first == second


def test_white_space_and_escapes_make_no_other_request() -> None:
    spaced = Raw(b'{ "name" : "forec\\u0061st", "arguments":\n{"days":3} }')
    assert RequestBinding.of("tools/call", spaced, None, server="weather") == SUBJECT


@pytest.mark.parametrize(
    "params",
    [
        b"[]",
        b"[1, 2]",
        b"null",
        b'"text"',
        b"7",
        b"",
        b"{",
        b'{"a": "\\ud800"}',
        b'{"a": "\xff"}',
        b'{"a": 1e999}',
        b'{"a": ' + b"9" * 5000 + b"}",
        b'{"a": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
        b'{"a": ' + b"[" * 100_000,
    ],
    ids=lambda params: repr(params[:20]),
)
def test_parameters_that_are_not_an_object_are_invalid(params: bytes) -> None:
    with pytest.raises(InvalidParams, match="Invalid parameters for tools/call"):
        RequestBinding.of("tools/call", Raw(params), None, server="weather")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
)


@given(params=st.dictionaries(st.text(), JSON, max_size=4))
def test_any_object_is_a_subject(params: dict[str, Any]) -> None:
    encoded = Raw(msgspec.json.encode(params))
    backwards = Raw(msgspec.json.encode(dict(reversed(params.items()))))
    first = RequestBinding.of("tools/call", encoded, None, server="weather")
    assert first == RequestBinding.of("tools/call", backwards, None, server="weather")


STATE: list[Any] = [SUBJECT.method, SUBJECT.params, "", int(NOW) + 10, 1, [{"a": [None, 1]}, {}, {}, None]]


@pytest.mark.parametrize(
    ("fields", "opens"),
    [
        (STATE, True),
        ([*STATE, "a field of a later release"], True),
        (STATE[:-1], False),
        ([], False),
        ({"method": "tools/call"}, False),
        ([*STATE[:3], "soon", *STATE[4:]], False),
        ([*STATE[:3], 10**400, *STATE[4:]], True),
        ([*STATE[:5], {"a": 1}], False),
        ([*STATE[:5], [{"a": 1}]], False),
        ([*STATE[:2], "not base64!", *STATE[3:]], False),
    ],
)
def test_a_state_that_another_release_sealed_is_refused_unless_it_can_be_read(fields: Any, *, opens: bool) -> None:
    assert refused(RING.seal("requestState weather", json.dumps(fields).encode())) is not opens


@pytest.mark.parametrize(
    "payload",
    [b"", b"\xff", b"[", b'["\xff"]', json.dumps(STATE).encode()[:-5] + b"[" * 100_000 + b"]" * 100_000 + b"]"],
    ids=lambda payload: repr(payload[:10]),
)
def test_a_sealed_payload_that_is_no_state_is_refused(payload: bytes) -> None:
    assert refused(RING.seal("requestState weather", payload))


def test_without_a_seal_the_caller_keeps_the_recording_and_rounds_have_no_limit() -> None:
    recording = Recording()
    for number in range(1, MAX_ROUNDS + 2):
        rounds = Rounds(recording)
        asked = [elicit(str(one)) for one in range(1, number + 1)]
        assert [rounds.ask(one) is None for one in asked] == [*[False] * (number - 1), True]
        result = rounds.required(number)
        assert (result.input_requests, result.request_state) == ({f"elicit-{number}": asked[-1]}, None)
        recording.answer({f"elicit-{number}": Raw(b"1")})
    assert recording.state == Raw(b"11")


def test_an_answer_to_another_question_is_dropped_and_the_new_question_is_answered_in_its_place() -> None:
    recording = Recording()
    Rounds(recording).ask(elicit())
    for schema in (CITY, UNITS):
        rounds = Rounds(recording)
        assert rounds.ask(elicit(schema=schema)) is None
        rounds.required()
        assert recording.unanswered == {"elicit-1"}
        recording.answer({"elicit-1": Raw(b"1")})
        assert Rounds(recording).ask(elicit(schema=schema)) == Raw(b"1")


def test_a_request_is_sent_back_at_most_ten_times() -> None:
    assert MAX_ROUNDS == 10
    rounds = begin()
    for _ in range(10):
        rounds = answer(rounds.required())
    rounds.ask(elicit())
    with pytest.raises(ValidationError, match="at most 10 rounds"):
        rounds.required()


def largest_step() -> int:
    low, high = 0, MAX_STATE_BYTES
    while high - low > 1:
        middle = (low + high) // 2
        rounds = begin()
        rounds.recording.steps["step"] = Raw(json.dumps("x" * middle).encode())
        try:
            rounds.required()
            low = middle
        except ValidationError:
            high = middle
    return low


def test_a_state_has_at_most_64_kib_as_it_travels() -> None:
    assert MAX_STATE_BYTES == 65_536
    size = largest_step()
    rounds = begin()
    rounds.recording.steps["step"] = Raw(json.dumps("x" * size).encode())
    state = rounds.required().request_state
    assert state is not None
    assert len(state) == MAX_STATE_BYTES
    rounds.recording.steps["step"] = Raw(json.dumps("x" * (size + 1)).encode())
    with pytest.raises(ValidationError, match="at most 65536 travel: keep large values on the server"):
        rounds.required()


@pytest.mark.parametrize("source", ["answers", "author"])
def test_whatever_makes_a_state_too_large_is_refused(source: str) -> None:
    large = "x" * MAX_STATE_BYTES
    if source == "answers":
        with pytest.raises(ValidationError, match="keep large values on the server"):
            Rounds.resume(SUBJECT, RING, NOW, {"a": Raw(json.dumps(large).encode())}).required()
    else:
        with pytest.raises(ValidationError, match="keep large values on the server"):
            begin().required(large)


def test_a_state_is_readable_but_says_who_it_is_for_only_as_a_digest() -> None:
    state = Rounds.resume(subject(principal="alice@example.com"), RING, NOW).required().request_state
    assert state is not None
    payload = RING.open("requestState weather", state)
    assert payload is not None
    assert b"alice" not in payload
    assert b"forecast" not in payload


def test_a_run_that_begins_again_keeps_answers_and_steps_and_asks_by_the_same_keys() -> None:
    rounds = begin()
    rounds.ask(elicit())
    rounds = answer(rounds.required(), elicit_1=b"1")
    assert rounds.ask(elicit()) == Raw(b"1")
    before = rounds.keys
    assert before == {"elicit-1"}
    assert rounds.ask(elicit()) is None
    assert rounds.ask(sample(), "mine") is None
    rounds.recording.steps["paid"] = Raw(b"true")
    rounds.rewind(before)
    assert not rounds.pending
    assert rounds.keys == before
    assert rounds.ask(elicit()) is None
    assert rounds.ask(sample(), "mine") is None
    required = rounds.required()
    assert required.input_requests is not None
    assert sorted(required.input_requests) == ["elicit-2", "mine"]
    assert rounds.recording.steps == {"paid": Raw(b"true")}
