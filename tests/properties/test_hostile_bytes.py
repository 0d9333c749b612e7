"""Random and mutated bytes: only the documented errors, and the next message is read all the same."""

import os
import random
from contextlib import suppress

import pytest

from dragoman import types
from dragoman.errors import RpcError, ValidationError
from dragoman.protocol import eras, headers, inbound, jsonrpc
from dragoman.protocol.peer import Peer
from dragoman.protocol.sse import EventDecoder, EventId
from dragoman.protocol.tokens import KeyRing, SessionTokens
from dragoman.protocol.uritemplate import UriTemplate
from dragoman.protocol.versions import V2025_03_26
from dragoman.types import decode

ROUNDS = int(os.environ.get("DRAGOMAN_HOSTILE_ROUNDS", "4000"))
"""`make soak` asks for 100,000."""

META = (
    b'"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":'
    b'{"sampling":{"tools":{}}},"progressToken":"p"}'
)
SEEDS = [
    b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"add","arguments":{"a":[1,{"b":"c"}]},%b}}' % META,
    (
        b'{"jsonrpc":"2.0","id":"x","method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},'
        b'"clientInfo":{"name":"n","version":"1"}}}'
    ),
    b'{"jsonrpc":"2.0","id":1,"result":{"tools":[{"name":"a","inputSchema":{"type":"object"}}],"nextCursor":"2"}}',
    b'{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"hi"},{"type":"video"}],"isError":false}}',
    b'{"jsonrpc":"2.0","id":1,"error":{"code":-32022,"message":"no","data":{"supported":["2025-11-25"]}}}',
    b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1,"reason":"r\xc3\xa9"}}',
    b'[{"jsonrpc":"2.0","id":1,"method":"ping"},{"jsonrpc":"2.0","id":2,"method":"ping"}]',
]
GRAINS = [
    b'"',
    b"\\",
    b"{",
    b"}",
    b"[",
    b"]",
    b":",
    b",",
    b"null",
    b"1e999",
    b"9" * 40,
    b"\\ud800",
    b"\xff",
    b"\n",
    b"\x00",
]
OFFER = eras.Offer.of(types.ServerCapabilities(tools=types.ListChangedCapability()))


def mutated(random_source: random.Random) -> bytes:
    if random_source.random() < 0.1:
        return random_source.randbytes(random_source.randrange(80))
    data = bytearray(random_source.choice(SEEDS))
    for _ in range(random_source.randrange(1, 6)):
        at = random_source.randrange(len(data) + 1)
        match random_source.randrange(4):
            case 0:
                data[at : at + random_source.randrange(1, 9)] = b""
            case 1:
                data[at:at] = random_source.choice(GRAINS)
            case 2:
                data[at : at + 1] = random_source.randbytes(1)
            case _:
                start = random_source.randrange(len(data) + 1)
                data[at:at] = data[start : start + random_source.randrange(1, 40)]
    return bytes(data)


def corpus(seed: int):
    random_source = random.Random(seed)
    for _ in range(ROUNDS):
        yield mutated(random_source)


PING = b'{"jsonrpc":"2.0","id":"next","method":"ping"}'


def test_decoding_a_message_never_raises_and_the_next_message_is_read():
    for data in corpus(1):
        for reads in (jsonrpc.decode, jsonrpc.decode_batch):
            message = reads(data)
            if isinstance(message, jsonrpc.Invalid):
                jsonrpc.encode_error(message.id, message.error)
        assert isinstance(jsonrpc.decode(PING), jsonrpc.Request)


def test_opening_a_request_raises_nothing_but_rpc_errors():
    opened = refused = 0
    for data in corpus(2):
        message = jsonrpc.decode(data)
        if isinstance(message, jsonrpc.Request):
            try:
                eras.open(message, OFFER)
                opened += 1
            except RpcError as error:
                jsonrpc.encode_error(message.id, error)
                refused += 1
    assert opened
    assert refused


def test_a_post_is_always_answered_with_something_that_can_be_sent():
    sent = headers.read(
        [
            (b"content-type", b"application/json"),
            (b"mcp-protocol-version", b"2026-07-28"),
            (b"mcp-method", b"tools/call"),
        ]
    )
    for data in corpus(3):
        outcome = inbound.receive_post(sent, data, OFFER)
        if isinstance(outcome, inbound.Rejection):
            assert 400 <= outcome.status < 500
            assert jsonrpc.encode_error(outcome.id, outcome.error, null_id=outcome.null_id)


@pytest.mark.parametrize("version", [None, V2025_03_26])
def test_a_peer_never_raises_and_serves_the_next_line(version):
    peer = Peer()
    peer.version = version or peer.version
    for data in corpus(4):
        list(peer.events(data + b"\n"))
        peer.close()
        (event,) = peer.events(PING + b"\n")
        assert isinstance(event, jsonrpc.Request)


@pytest.mark.parametrize("kind", [types.ListToolsResult, types.CallToolResult, types.DiscoverResult, types.RequestMeta])
def test_decoding_a_wire_type_raises_nothing_but_validation_errors(kind):
    for data in corpus(5):
        with suppress(ValidationError):
            assert isinstance(decode(data, kind), kind)


def test_event_streams_tokens_event_ids_templates_and_headers_take_anything():
    events = EventDecoder(10_000)
    tokens = SessionTokens(KeyRing(b"k" * 32), server="s", path="/mcp")
    template = UriTemplate("users://{id}/files{/path}{?q}")
    for data in corpus(6):
        text = data.decode("latin-1")
        events.receive(data)
        assert tokens.open(text, principal=None, now=0) is None
        EventId.decode(text)
        template.match(text)
        headers.read([(b"mcp-param-a", data), (b"mcp-name", data), (b"accept", data)])
        inbound.accepted_types(text)
