import json
import random
import time
from functools import partial

import msgspec
import pytest
from msgspec import UNSET, Raw

from dragoman import types
from dragoman.errors import InternalError, InvalidParams, InvalidRequest, ParseError, RpcError, ValidationError
from dragoman.protocol import jsonrpc
from dragoman.protocol.jsonrpc import (
    Batch,
    ErrorResponse,
    Invalid,
    Limits,
    Notification,
    Request,
    ResultResponse,
    decode,
    decode_batch,
    nests_deeper,
)


def invalid(data: bytes, reads=decode) -> Invalid:
    message = reads(data)
    assert isinstance(message, Invalid), message
    return message


def test_a_request_keeps_its_parameters_encoded():
    message = decode(b'{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name": "add"}}')
    assert isinstance(message, Request)
    assert (message.id, message.method, bytes(message.params)) == (7, "tools/call", b'{"name": "add"}')


@pytest.mark.parametrize("params", [b"", b',"params":null'])
def test_absent_and_null_parameters_are_an_empty_object(params):
    message = decode(b'{"jsonrpc":"2.0","id":1,"method":"ping"' + params + b"}")
    assert isinstance(message, Request)
    assert bytes(message.params) == b"{}"


@pytest.mark.parametrize("id", [0, -1, 2**53, 2**64, 10**40, "", "a", "ünï", "a b\n"])
def test_any_integer_and_any_string_is_an_id_and_comes_back_unchanged(id):
    data = json.dumps({"jsonrpc": "2.0", "id": id, "method": "ping"}).encode()
    message = decode(data)
    assert isinstance(message, Request)
    assert message.id == id
    assert json.loads(jsonrpc.encode_result(message.id, {}))["id"] == id


@pytest.mark.parametrize(
    "id", ["1.5", "1.0", "true", "null", "[]", "{}", "1e3", pytest.param("1" * 5000, id="endless")]
)
def test_other_ids_are_invalid_and_the_answer_has_none(id):
    message = invalid(b'{"jsonrpc":"2.0","id":%b,"method":"ping"}' % id.encode())
    assert (message.id, message.error.code, message.answer) == (None, -32600, True)


def test_a_message_without_an_id_is_a_notification():
    message = decode(b'{"jsonrpc":"2.0","method":"notifications/initialized"}')
    assert message == Notification("notifications/initialized", message.params)


def test_a_result_is_kept_encoded():
    message = decode(b'{"jsonrpc":"2.0","id":"a","result":{"x":[1]}}')
    assert isinstance(message, ResultResponse)
    assert (message.id, bytes(message.result)) == ("a", b'{"x":[1]}')


@pytest.mark.parametrize(("id", "expected"), [(b'"id":1,', 1), (b'"id":null,', None), (b"", None)])
def test_an_error_response_becomes_the_error_it_names(id, expected):
    message = decode(b'{"jsonrpc":"2.0",%b"error":{"code":-32602,"message":"no","data":null}}' % id)
    assert isinstance(message, ErrorResponse)
    assert message.id == expected
    assert type(message.error) is InvalidParams
    assert message.error.data is None


def test_a_malformed_error_still_ends_the_wait():
    message = decode(b'{"jsonrpc":"2.0","id":1,"error":"boom"}')
    assert isinstance(message, ErrorResponse)
    assert type(message.error) is InternalError


@pytest.mark.parametrize(
    ("data", "id", "answer"),
    [
        (b'{"jsonrpc":"1.0","id":4,"method":"ping"}', 4, True),
        (b'{"id":"x","method":"ping"}', "x", True),
        (b'{"jsonrpc":"2.0","id":4,"method":5}', 4, True),
        (b'{"jsonrpc":"2.0","id":4}', 4, True),
        (b'{"jsonrpc":"2.0"}', None, True),
        (b"{}", None, True),
        (b'{"jsonrpc":"2.0","id":4,"method":"rpc.discover"}', 4, True),
        (b'{"jsonrpc":"2.0","method":"rpc.discover"}', None, True),
        (b"5", None, True),
        (b'"text"', None, True),
        (b"null", None, True),
        (b"[]", None, True),
        (b'[{"jsonrpc":"2.0","id":4,"method":"ping"}]', None, True),
        (b'{"jsonrpc":"2.0","id":1.5,"result":{}}', None, False),
        (b'{"jsonrpc":"1.0","id":1,"result":{}}', 1, False),
        (b'{"jsonrpc":"2.0","id":[],"error":{}}', None, False),
        (b'{"jsonrpc":"2.0","result":{}}', None, False),
        (b'{"jsonrpc":"2.0","id":null,"result":{}}', None, False),
    ],
)
def test_json_that_is_no_message_is_an_invalid_request_with_the_id_where_it_was_readable(data, id, answer):
    message = invalid(data)
    assert type(message.error) is InvalidRequest
    assert (message.id, message.answer) == (id, answer)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"   ",
        b"{",
        b'{"jsonrpc":"2.0","id":1,"method":"ping"',
        b'{"jsonrpc":"2.0","id":1,"method":"ping"} x',
        b'{"jsonrpc":"1.0","id":',
        b"nope",
        b"{'jsonrpc':'2.0'}",
        b'{"jsonrpc":"2.0","id":1,"method":"\\ud800"}',
        b'{"jsonrpc":"2.0","id":1,"method":"x","params":{"a":"\\udc00"}}',
        b'{"jsonrpc":"2.0","id":1,"method":"\x01"}',
        b"\x00",
    ],
)
def test_what_is_not_json_is_a_parse_error(data):
    message = invalid(data)
    assert type(message.error) is ParseError
    assert message.id is None


@pytest.mark.parametrize(
    "data",
    [
        b'{"jsonrpc":"2.0","id":1,"method":"\xff"}',
        b'{"jsonrpc":"2.0","id":1,"method":"x","params":{"a":"\xc3\x28"}}',
        b'{"jsonrpc":"2.0","id":1,"method":"x","ignored":"\xed\xa0\x80"}',
        b"\xfe\xff",
    ],
)
def test_bytes_that_are_not_utf_8_are_a_parse_error_even_where_nobody_would_read_them(data):
    assert invalid(data).error.message == "The message is not valid UTF-8"


def test_text_beyond_ascii_is_read():
    message = decode('{"jsonrpc":"2.0","id":1,"method":"é","params":{"a":"😀"}}'.encode())
    assert isinstance(message, Request)
    assert message.method == "é"


def test_a_message_over_the_limit_is_a_parse_error_that_says_how_much_is_accepted():
    data = b'{"jsonrpc":"2.0","id":1,"method":"ping"}'
    assert isinstance(decode(data, Limits(message_bytes=len(data))), Request)
    message = invalid(data, partial(decode, limits=Limits(message_bytes=len(data) - 1)))
    assert message.error.message == f"The message has {len(data)} bytes; at most {len(data) - 1} are accepted"


def nested(levels: int, opening: bytes = b"[", closing: bytes = b"]") -> bytes:
    return opening * levels + closing * levels


@pytest.mark.parametrize(
    ("data", "depth"),
    [
        (b"1", 0),
        (b"[]", 1),
        (b'[{"a":[]}]', 3),
        (b'["[[[[[[", {"a":"\\"]]][[["}]', 2),
        (b'{"a":{"b":[1,2,{}]},"c":[[[]]]}', 4),
        (nested(200), 200),
        (nested(100, b'{"a":[', b"]}"), 200),
        (b"[" + b",".join([nested(3)] * 500) + b"]", 4),
        (b"[" + rb'["\\", "\\\"[[[", "a]"],' * 20_000 + b"[[]]]", 3),
    ],
)
def test_nesting_is_counted_outside_of_strings_only(data, depth):
    padded = data + b" " * 1000
    assert not nests_deeper(padded, depth)
    if depth:
        assert nests_deeper(padded, depth - 1)


def test_a_message_nested_too_deeply_is_a_parse_error():
    head, tail = b'{"jsonrpc":"2.0","id":1,"method":"x","params":', b"}"
    assert isinstance(decode(head + nested(127) + tail), Request)
    assert invalid(head + nested(128) + tail).error.message == "The message is nested deeper than 128 levels"


@pytest.mark.parametrize(
    "data",
    [b"[" * 100_000, b'{"a":' * 100_000, nested(100_000), b"]" * 100_000, b'"[' * 100_000],
    ids=["opened", "objects", "nested", "closed", "strings"],
)
def test_unbalanced_and_endless_nesting_is_a_parse_error(data):
    assert type(invalid(data).error) is ParseError
    batch = decode_batch(data)
    assert type(batch.error) is ParseError if data.startswith(b"[") else batch is None


@pytest.mark.parametrize(
    "wrap", [b"%b", b'{"jsonrpc":"2.0","id":1,"method":"x","params":%b}', b'{"jsonrpc":"1.0","a":%b}']
)
def test_a_limit_above_what_the_interpreter_can_nest_does_not_crash(wrap):
    data, limits = wrap % nested(200_000), Limits(nesting=10**6)
    assert isinstance(decode(data, limits), Invalid)
    assert isinstance(decode_batch(data, limits), Invalid if wrap == b"%b" else type(None))


def test_the_nesting_is_what_counting_bracket_by_bracket_finds():
    chance = random.Random(7)
    for _ in range(2000):
        depth = deepest = 0
        data = b""
        for _ in range(chance.randrange(1, 60)):
            token = chance.choice(
                [b"[", b"{", b"]", b"}", b"1,", b'"a"', b'"["', b'"]]"', rb'"\"["', rb'"\\"', rb'"\\\"{"']
            )
            depth += (token in (b"[", b"{")) - (token in (b"]", b"}"))
            deepest = max(deepest, depth)
            data += token
        assert not nests_deeper(data, deepest), data
        assert deepest == 0 or nests_deeper(data, deepest - 1), data


def filled(unit: bytes, before: bytes = b"", size: int = 4 * 1024 * 1024) -> bytes:
    return before + (unit * (size // len(unit) + 1))[: size - len(before)]


@pytest.mark.parametrize(
    ("data", "is_deeper"),
    [
        (filled(nested(124)), False),
        (filled(b"[],"), False),
        (filled(b"["), True),
        (filled(b'"",', nested(129)), True),
        (filled(b'"[",[],', nested(129)), True),
        (filled(b'"[["[[', b"[" * 129), True),
        (filled(rb"\"", b"[" * 129 + b'"'), True),
        (filled(rb"\\\"", b"[" * 129 + b'"'), True),
    ],
    ids=["deep", "flat", "opened", "empty strings", "strings", "long strings", "escaped quotes", "escapes"],
)
def test_the_nesting_of_four_mebibytes_is_found_in_an_instant_whatever_they_hold(data, is_deeper):
    spent = []
    for _ in range(3):
        started = time.process_time()
        assert nests_deeper(data, 128) == is_deeper
        spent.append(time.process_time() - started)
    assert min(spent) < 0.5  # a third of that on an idle machine


def test_an_array_is_a_batch_and_no_message():
    data = b'[{"jsonrpc":"2.0","id":1,"method":"ping"},{"jsonrpc":"2.0","method":"x"},5,[]]'
    batch = decode_batch(data)
    assert isinstance(batch, Batch)
    assert [type(message) for message in batch.messages] == [Request, Notification, Invalid, Invalid]
    assert type(invalid(data).error) is InvalidRequest


def test_a_batch_may_follow_white_space():
    assert isinstance(decode_batch(b' \n[{"jsonrpc":"2.0","id":1,"method":"ping"}]'), Batch)


@pytest.mark.parametrize(
    ("data", "kind"),
    [(b"[]", InvalidRequest), (b"[1,", ParseError), (b"[" + b",".join([b"1"] * 1001) + b"]", InvalidRequest)],
)
def test_empty_broken_and_oversized_batches_are_refused_whole(data, kind):
    assert type(invalid(data, decode_batch).error) is kind


def test_a_batch_of_as_many_messages_as_allowed_is_read():
    batch = decode_batch(b"[" + b",".join([b"1"] * 1000) + b"]")
    assert isinstance(batch, Batch)
    assert len(batch.messages) == 1000


def test_messages_are_encoded_compactly():
    assert jsonrpc.encode_request(1, "ping") == b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{}}'
    assert jsonrpc.encode_notification("x", {"a": 1}) == b'{"jsonrpc":"2.0","method":"x","params":{"a":1}}'
    assert jsonrpc.encode_result("é", Raw(b"[1]")) == '{"jsonrpc":"2.0","id":"é","result":[1]}'.encode()
    assert jsonrpc.encode_batch([b"1", b"2"]) == b"[1,2]"


def test_an_error_has_its_data_only_when_there_is_some():
    assert jsonrpc.encode_error(1, RpcError(-5, "no")) == b'{"jsonrpc":"2.0","id":1,"error":{"code":-5,"message":"no"}}'
    assert b'"data":null' in jsonrpc.encode_error(1, RpcError(-5, "no", None))


def test_an_unknown_id_is_omitted_or_null_as_the_version_wants():
    assert jsonrpc.encode_error(None, ParseError("x")).startswith(b'{"jsonrpc":"2.0","error"')
    assert jsonrpc.encode_error(None, ParseError("x"), null_id=True).startswith(b'{"jsonrpc":"2.0","id":null,"error"')


def cycle() -> list[object]:
    itself: list[object] = []
    itself.append(itself)
    return itself


@pytest.mark.parametrize(
    "value",
    ["\ud800", {"\udc00": 1}, object(), cycle(), 10**5000],
    ids=["lone surrogate", "lone surrogate as key", "no JSON type", "cycle", "endless integer"],
)
def test_what_cannot_be_json_is_a_validation_error(value):
    with pytest.raises(ValidationError, match="cannot be sent as JSON"):
        jsonrpc.encode_result(1, {"value": value})
    with pytest.raises(ValidationError, match="cannot be sent as JSON"):
        jsonrpc.encode_notification("x", {"value": value})
    with pytest.raises(ValidationError, match="cannot be sent as JSON"):
        jsonrpc.encode_request(1, "tools/call", value)


def test_the_decoder_is_usable_after_every_failure():
    for data in (b"{", b"[" * 10**5, b"\xff", b'{"jsonrpc":"2.0","id":1.5,"method":"x"}'):
        assert isinstance(decode(data), Invalid)
        assert isinstance(decode(b'{"jsonrpc":"2.0","id":1,"method":"ping"}'), Request)


def test_decoding_what_was_encoded_gives_the_message_back():
    error = RpcError(-5, "no", {"a": [1]})
    request = decode(jsonrpc.encode_request(3, "m", {"a": 1}))
    assert isinstance(request, Request)
    assert (request.id, request.method, msgspec.json.decode(request.params)) == (3, "m", {"a": 1})
    failure = decode(jsonrpc.encode_error("x", error))
    assert isinstance(failure, ErrorResponse)
    assert (failure.error.code, failure.error.message, failure.error.data) == (-5, "no", {"a": [1]})
    assert decode(jsonrpc.encode_error(None, RpcError(1, "")))
    assert RpcError(1, "").data is UNSET


@pytest.mark.parametrize("number", [float("nan"), float("inf"), -float("inf")])
def test_a_request_with_a_number_that_is_not_finite_is_refused(number):
    for params in ({"a": number}, {"a": [{"b": (1, number)}]}, {"a": types.Root(number)}):
        with pytest.raises(ValidationError, match="no number"):
            jsonrpc.encode_request(1, "tools/call", params)


def test_a_request_with_null_and_finite_numbers_is_sent():
    params = {"a": None, "b": 1.5, "c": "null", "d": [1, True, types.Root("x:1")], "e": Raw(b"null")}
    assert b'"b":1.5' in jsonrpc.encode_request(1, "tools/call", params)
