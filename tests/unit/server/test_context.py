"""What a handler knows of its request, where the wire does not show it."""

from typing import Any

import pytest
from msgspec import UNSET, Raw

from dragoman import BlockingContext, Cancelled, Context
from dragoman.protocol.eras import Caller, Request
from dragoman.protocol.methods import METHODS
from dragoman.protocol.versions import LATEST_HANDSHAKE
from dragoman.server.call import Call, Session

KINDS = pytest.mark.parametrize("kind", [Context, BlockingContext])


def call(meta: Any = UNSET, **options: Any) -> Call:
    return Call(Request(7, METHODS[0], None, Caller(LATEST_HANDSHAKE), meta=meta), Session(), **options)


@KINDS
def test_the_end_of_a_request_is_noticed_when_asked_for(kind):
    served = call()
    context = kind(served)
    context.raise_if_cancelled()
    assert context.cancelled is False
    served.cancelled = True
    assert context.cancelled is True
    with pytest.raises(Cancelled, match="The client cancelled request 7"):
        context.raise_if_cancelled()


@KINDS
def test_the_meta_of_a_request_is_read_anew_each_time(kind):
    context = kind(call(Raw(b'{"traceparent":"00-1","baggage":5,"x":{"y":1}}')))
    context.meta["x"]["y"] = 2
    assert context.meta["x"] == {"y": 1}
    assert context.trace == {"traceparent": "00-1"}
    assert kind(call()).meta == {}
    assert kind(call()).trace == {}


@KINDS
def test_a_context_knows_who_asks(kind):
    context = kind(call(principal="ada", server_context=[1]))
    assert (context.request_id, context.session_id, context.principal, context.server_context) == (7, None, "ada", [1])
    assert context.client.version is LATEST_HANDSHAKE
