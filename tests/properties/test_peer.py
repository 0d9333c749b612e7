"""The peer machine: any split of its stream, and every order of events against a model."""

import json
from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, rule

from dragoman.errors import RpcError
from dragoman.protocol import jsonrpc
from dragoman.protocol.jsonrpc import Limits
from dragoman.protocol.peer import Answered, Event, Peer, PeerReply, Progressed, RequestCancelled, Unmatched
from dragoman.protocol.versions import V2025_03_26, VERSIONS

ids = st.one_of(st.integers(0, 3), st.sampled_from(["0", "a"]))


def encoded(**fields: object) -> bytes:
    return json.dumps({"jsonrpc": "2.0", **fields}).encode()


messages = st.one_of(
    st.builds(lambda id: encoded(id=id, method="tools/call", params={"name": "é"}), ids),
    st.builds(lambda id: encoded(id=id, result={}), ids),
    st.builds(lambda id: encoded(method="notifications/cancelled", params={"requestId": id}), ids),
    st.builds(lambda id: encoded(method="notifications/progress", params={"progressToken": id, "progress": 1}), ids),
    st.sampled_from([b"", b"  ", b"nope", b"\xff\xfe", b"[]", b"[1,{}]", b"x" * 300, b"{" * 250, b'{"jsonrpc":"2.0"}']),
    st.binary(max_size=40).map(lambda data: data.replace(b"\n", b"")),
)
streams = st.lists(st.tuples(messages, st.sampled_from([b"\n", b"\r\n"])), max_size=12).map(
    lambda lines: b"".join(message + ending for message, ending in lines)
)


def fresh_peer(*, batches: bool) -> Peer:
    peer = Peer(Limits(message_bytes=200))
    if batches:
        peer.version = V2025_03_26
    for id in (0, 1, "a"):
        peer.send_request(id, "ping", {}, f"waiter {id!r}")
    return peer


def received(peer: Peer, chunk: bytes | None) -> list[Event]:
    return list(peer.events(chunk))


def seen(events: list[Event]) -> list[object]:
    """Events as values that compare: Raw and errors compare by identity."""
    return [
        (type(event).__name__, *(_plain(getattr(event, name)) for name in event.__struct_fields__)) for event in events
    ]


def _plain(value: object) -> object:
    if isinstance(value, RpcError):
        return (value.code, value.message)
    if isinstance(value, jsonrpc.ResultResponse | jsonrpc.ErrorResponse):
        return seen([value])  # type: ignore[list-item]
    return bytes(value) if type(value).__name__ == "Raw" else value


@given(streams, st.lists(st.integers(0, 3000), max_size=20), st.booleans())
@settings(max_examples=300, deadline=None)
def test_any_split_of_the_stream_brings_the_same_events(stream, cuts, batches):
    whole, split = fresh_peer(batches=batches), fresh_peer(batches=batches)
    expected = seen(received(whole, stream) + received(whole, None))
    edges = [0, *sorted(cut % (len(stream) + 1) for cut in cuts), len(stream)]
    events = [event for start, end in pairwise(edges) for event in received(split, stream[start:end])]
    assert seen(events + received(split, None)) == expected
    assert split.waiting == whole.waiting


@given(streams, st.booleans())
@settings(max_examples=200, deadline=None)
def test_a_stream_brings_what_its_messages_bring_one_by_one(stream, batches):
    whole, single = fresh_peer(batches=batches), fresh_peer(batches=batches)
    lines = [line for line in stream.replace(b"\r\n", b"\n").split(b"\n") if line.strip() and len(line) <= 200]
    events = [event for line in lines for event in single.receive_message(line)]
    assert seen(received(whole, b"".join(line + b"\n" for line in lines))) == seen(events)
    ids = {event.id for event in events if isinstance(event, jsonrpc.Request)}
    assert {id for id in ids if whole.refuse_id(id)} == {id for id in ids if single.refuse_id(id)}
    assert whole.waiting == single.waiting


class PeerAgainstModel(RuleBasedStateMachine):
    """What the machine must keep, said with sets and dicts."""

    sent = Bundle("sent")

    def __init__(self) -> None:
        super().__init__()
        self.peer = Peer()
        self.serving: dict[object, bool] = {}
        self.waiting: dict[object, str] = {}
        self.minted: set[object] = set()

    def receive(self, **fields: object) -> list[Event]:
        return received(self.peer, encoded(**fields) + b"\n")

    @rule(version=st.sampled_from(VERSIONS))
    def agree_on(self, version):
        self.peer.version = version

    @rule(id=ids, method=st.sampled_from(["tools/call", "initialize"]))
    def they_call(self, id, method):
        (event,) = self.receive(id=id, method=method)
        if id in self.serving:
            assert isinstance(event, PeerReply)
            assert json.loads(event.data)["error"]["code"] == -32600
        else:
            assert isinstance(event, jsonrpc.Request)
            self.serving[id] = method == "initialize"

    @rule(id=ids)
    def they_cancel(self, id):
        events = self.receive(method="notifications/cancelled", params={"requestId": id})
        if id not in self.serving:
            assert [type(event) for event in events] == [Unmatched]
            return
        cancellable = self.serving[id] is False
        assert events == ([RequestCancelled(id, None)] if cancellable else [])
        if cancellable:
            self.serving[id] = None  # type: ignore[assignment]

    @rule(id=ids, refuse=st.booleans())
    def we_answer(self, id, refuse):
        data = self.peer.send_error(id, RpcError(-1, "no")) if refuse else self.peer.send_result(id, {})
        answered = id in self.serving and self.serving[id] is not None
        assert (data is not None) == answered
        if data is not None:
            assert json.loads(data)["id"] == id
        self.serving.pop(id, None)

    @rule(target=sent)
    def we_call(self):
        id = self.peer.next_id()
        assert id not in self.minted
        self.minted.add(id)
        self.waiting[id] = f"waiter {id}"
        assert json.loads(self.peer.send_request(id, "ping", {}, self.waiting[id]))["id"] == id
        return id

    @rule(id=sent, refuse=st.booleans())
    def they_answer(self, id, refuse):
        outcome = {"error": {"code": -1, "message": "no"}} if refuse else {"result": {}}
        (event,) = self.receive(id=id, **outcome)
        if id in self.waiting:
            assert isinstance(event, Answered)
            assert event.waiter == self.waiting.pop(id)
        else:
            assert isinstance(event, Unmatched)

    @rule(id=sent)
    def they_progress(self, id):
        events = self.receive(method="notifications/progress", params={"progressToken": id, "progress": 1})
        assert [type(event) for event in events] == ([Progressed] if id in self.waiting else [])

    @rule(id=consumes(sent))
    def we_cancel(self, id):
        assert (self.peer.cancel(id) is not None) == (self.waiting.pop(id, None) is not None)

    @rule()
    def we_close(self):
        assert sorted(self.peer.close()) == sorted(self.waiting.values())
        self.serving.clear()
        self.waiting.clear()

    @rule(garbage=st.sampled_from([b"{", b"\xff", b"5", b'{"jsonrpc":"2.0","id":1.5,"method":"x"}']))
    def they_send_garbage(self, garbage):
        (event,) = received(self.peer, garbage + b"\n")
        assert isinstance(event, PeerReply)

    @invariant()
    def the_tables_agree(self):
        assert set(self.peer.waiting) == set(self.waiting)


PeerAgainstModel.TestCase.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)
TestPeerAgainstModel = PeerAgainstModel.TestCase
