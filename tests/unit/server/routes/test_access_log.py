"""What the access log says of an exchange."""

from types import SimpleNamespace

import pytest

from dragoman.server.routes.access_log import access_fields
from dragoman.transports.http.exchange import ExchangeRecord


def exchange(**attributes: object) -> SimpleNamespace:
    usual = {"method": "POST", "gone": False, "principal": None, "headers": (), "extra_headers": ()}
    return SimpleNamespace(**(usual | attributes))


def request(method: str, id: object = 1, **params: object) -> SimpleNamespace:
    return SimpleNamespace(id=id, method=SimpleNamespace(name=method), params=SimpleNamespace(**params))


def record(status: int | None = 200, *requests: SimpleNamespace) -> ExchangeRecord:
    made = ExchangeRecord(requests=list(requests))
    if status is not None:
        made.add(status, 10)
        made.add(500, 5)
    return made


def test_the_first_status_and_all_bytes_count():
    fields = access_fields(exchange(), record(), "/mcp")
    assert fields.pop("ms") >= 0
    assert fields == {"method": "POST", "path": "/mcp", "status": 200, "bytes": 15}


@pytest.mark.parametrize(("gone", "status"), [(True, 499), (False, 500)])
def test_an_exchange_without_a_response_has_a_status(gone, status):
    assert access_fields(exchange(gone=gone), record(None), "/mcp")["status"] == status


def test_the_response_to_head_has_no_bytes():
    assert access_fields(exchange(method="HEAD"), record(), "/")["bytes"] == 0


def test_a_call_names_its_tool_and_a_batch_says_how_many_messages_it_has():
    fields = access_fields(exchange(), record(200, request("tools/call", "a\nb", name="add")), "/mcp")
    assert (fields["mcp_method"], fields["name"], fields["request_id"]) == ("tools/call", "add", "a\\nb")
    fields = access_fields(exchange(), record(200, request("ping", None), request("ping")), "/mcp")
    assert (fields["mcp_method"], fields["messages"], "name" in fields, "request_id" in fields) == (
        "ping",
        2,
        False,
        False,
    )


def test_texts_of_clients_are_cut_and_escaped():
    fields = access_fields(exchange(principal="p" * 300), record(), "/\x1b[2J" + "x" * 300)
    assert (len(fields["principal"]), fields["path"][:7]) == (203, "/\\x1b[2")


def test_a_session_is_named_by_a_digest_on_both_sides_of_its_begin():
    line = (b"mcp-session-id", b"a sealed token")
    named = [
        access_fields(exchange(**{where: (line,)}), record(), "/")["session"] for where in ("headers", "extra_headers")
    ]
    assert named[0] == named[1]
    assert (len(named[0]), "sealed" in named[0]) == (8, False)
