"""Messages that are too small to exceed a limit are not measured; what comes of them is what measuring gives."""

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman.protocol.jsonrpc import Invalid, Limits, decode
from properties.test_peer import seen

texts = st.text(st.sampled_from('ab"\\\\[]{}é'), max_size=4)
nested = st.recursive(
    st.none() | st.integers(0, 9) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=8,
)
messages = st.builds(
    lambda params: msgspec.json.encode({"jsonrpc": "2.0", "id": 1, "method": "m", "params": params}), nested
)
pieces = st.lists(st.sampled_from([b"[", b"]", b"{", b"}", b'"', b"\\", b":", b",", b"1", b"a", b"\xff"])).map(b"".join)


@given(messages | pieces, st.integers(0, 8), st.integers(0, 120))
@settings(max_examples=500, deadline=None)
def test_a_message_that_is_not_measured_is_within_the_limits(data, nesting, message_bytes):
    limits, measuring = (Limits(message_bytes=message_bytes, nesting=nesting) for _ in range(2))
    for name in ("always_shallow_bytes", "always_shallow_object_bytes"):
        msgspec.structs.force_setattr(measuring, name, -1)
    found, measured = decode(data, limits), decode(data, measuring)
    if isinstance(found, Invalid) and isinstance(measured, Invalid):
        # Of what is no JSON, and nested besides, either may be said.
        assert (found.id, found.error.code, found.answer) == (measured.id, measured.error.code, measured.answer)
    else:
        assert seen([found]) == seen([measured])
