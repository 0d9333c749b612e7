from __future__ import annotations

import hmac
import itertools
import string
from base64 import urlsafe_b64encode

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman import types
from dragoman.protocol.eras import Caller
from dragoman.protocol.tokens import NONCE_BYTES, KeyRing, SessionTokens, digest
from dragoman.protocol.versions import VERSIONS

KEY = bytes(range(32))
OTHER_KEY = bytes(range(32, 64))
NONCE = b"sixteen bytes ok"
NOW = 1_790_000_000.5
DAY = 86_400
URL_SAFE = string.ascii_letters + string.digits + "-_"

ring = KeyRing(KEY)


@pytest.mark.parametrize("keys", [(), (b"",), (b"fifteen bytes..",), (KEY, b"short"), (b"short", KEY)])
def test_a_ring_without_keys_or_with_a_short_one_is_refused(keys: tuple[bytes, ...]) -> None:
    with pytest.raises(ValueError, match="at least 16 bytes"):
        KeyRing(*keys)


def test_sixteen_bytes_are_a_key() -> None:
    short = KeyRing(bytes(16))
    assert short.open("a", short.seal("a", b"x")) == b"x"


@given(purpose=st.text(), payload=st.binary())
def test_a_token_opens_to_its_payload_for_its_purpose(purpose: str, payload: bytes) -> None:
    assert ring.open(purpose, ring.seal(purpose, payload)) == payload


def test_a_token_is_the_url_safe_base64_of_tag_and_payload_without_padding() -> None:
    tag = hmac.digest(KEY, b"\x00\x00\x00\x08greeting" + b"hello", "sha256")
    assert ring.seal("greeting", b"hello") == urlsafe_b64encode(tag + b"hello").decode().rstrip("=")
    assert ring.seal("greeting", b"hello") == "BS6slXhBU_jqcrqZR7OGjpJvQWuWDGWthDr2XM1oZ61oZWxsbw"


def test_a_token_says_nothing_outside_the_url_safe_alphabet() -> None:
    tokens = [ring.seal("all", bytes([first, second])) for first in range(256) for second in (0, 63, 255)]
    assert set("".join(tokens)) == set(URL_SAFE)


def test_a_changed_character_anywhere_in_a_token_is_refused() -> None:
    token = ring.seal("greeting", b"hello, world")
    for place, character in enumerate(token):
        for other in set(URL_SAFE) - {character}:
            assert ring.open("greeting", token[:place] + other + token[place + 1 :]) is None


def test_a_cut_or_lengthened_token_is_refused() -> None:
    token = ring.seal("greeting", b"hello, world")
    assert [length for length in range(len(token)) if ring.open("greeting", token[:length]) is not None] == []
    assert [start for start in range(1, len(token)) if ring.open("greeting", token[start:]) is not None] == []
    assert [other for other in URL_SAFE if ring.open("greeting", token + other) is not None] == []


@pytest.mark.parametrize(
    ("sealed_for", "opened_for"),
    [("a", "b"), ("a", ""), ("", "a"), ("a", "a "), ("a", "A"), ("ab", "a"), ("é", "e\N{COMBINING ACUTE ACCENT}")],
)
def test_a_token_does_not_open_for_another_purpose(sealed_for: str, opened_for: str) -> None:
    assert ring.open(opened_for, ring.seal(sealed_for, b"payload")) is None


def test_purpose_and_payload_cannot_trade_characters() -> None:
    tags = {ring.seal(purpose, payload)[:42] for purpose, payload in [("", b"abc"), ("ab", b"c"), ("abc", b"")]}
    assert len(tags) == 3


def test_another_key_does_not_open_a_token() -> None:
    assert KeyRing(OTHER_KEY).open("a", ring.seal("a", b"payload")) is None


def test_every_key_opens_and_the_first_one_seals() -> None:
    old, new = KeyRing(KEY), KeyRing(OTHER_KEY)
    rotating = KeyRing(OTHER_KEY, KEY)
    assert rotating.open("a", old.seal("a", b"old")) == b"old"
    assert rotating.open("a", new.seal("a", b"new")) == b"new"
    assert new.open("a", rotating.seal("a", b"sealed")) == b"sealed"
    assert old.open("a", rotating.seal("a", b"sealed")) is None


URL_SAFE_ORDER = string.ascii_uppercase + string.ascii_lowercase + string.digits + "-_"
URL_SAFE_VALUES = {character: value for value, character in enumerate(URL_SAFE_ORDER)}


def respellings(token: str) -> list[str]:
    last = URL_SAFE_VALUES[token[-1]]
    unused_bits = [URL_SAFE_ORDER[last ^ bit] for bit in (1, 2)]
    return [
        token + "=",
        token + "==",
        token + "\n",
        " " + token,
        token[:10] + "\n" + token[10:],
        token[:10] + "!" + token[10:],
        token.replace("-", "+").replace("_", "/"),
        *(token[:-1] + other for other in unused_bits),
    ]


def test_a_token_has_exactly_one_spelling() -> None:
    token = ring.seal("spelling", b"payload 3")
    assert len(token) % 4 == 3, "the last character must have bits to spare"
    assert set(token) & {"-", "_"}, "the alphabets must differ"
    for respelled in respellings(token):
        assert respelled != token
        assert ring.open("spelling", respelled) is None


@pytest.mark.parametrize(
    "token",
    [
        "",
        "=",
        "A",
        "AAAA",
        "A" * 43,
        "A" * 5,
        "\x00" * 44,
        "ключ" * 20,
        "\ud800" * 50,
        "é" + "A" * 60,
        "A" * 10_000_000,
        "-" * 1_000_001,
    ],
    ids=lambda token: f"{token[:6]!a} x {len(token)}",
)
def test_any_text_may_be_presented_as_a_token(token: str) -> None:
    assert ring.open("a", token) is None


@given(purpose=st.text(), value=st.binary(), nonce=st.binary(min_size=NONCE_BYTES, max_size=NONCE_BYTES))
def test_an_encrypted_value_decrypts_to_itself_for_its_purpose(purpose: str, value: bytes, nonce: bytes) -> None:
    assert ring.decrypt(purpose, ring.encrypt(purpose, value, nonce)) == value


def test_an_empty_value_is_a_value() -> None:
    assert ring.decrypt("cart", ring.encrypt("cart", b"", NONCE)) == b""


def test_an_encrypted_value_does_not_show_the_value() -> None:
    value = b"the plain text of a value that is longer than one block of any hash function" * 3
    first, second = ring.encrypt("cart", value, NONCE), ring.encrypt("cart", value, bytes(NONCE_BYTES))
    assert len(first) == len(value) + 32 + NONCE_BYTES
    assert not any(value[place : place + 4] in first for place in range(len(value) - 4))
    assert first[32 + NONCE_BYTES :] != second[32 + NONCE_BYTES :], "another nonce hides the value differently"


def test_the_mask_of_one_value_does_not_uncover_another() -> None:
    one, other = (ring.encrypt("cart", bytes(64), bytes([number]) * NONCE_BYTES) for number in (1, 2))
    assert one[32 + NONCE_BYTES :] != other[32 + NONCE_BYTES :]
    assert KeyRing(OTHER_KEY).encrypt("cart", bytes(64), bytes([1]) * NONCE_BYTES)[48:] != one[48:]


@pytest.mark.parametrize(("sealed_for", "opened_for"), [("cart", "bill"), ("cart", "car"), ("", "t"), ("a", "a ")])
def test_an_encrypted_value_does_not_decrypt_for_another_purpose(sealed_for: str, opened_for: str) -> None:
    assert ring.decrypt(opened_for, ring.encrypt(sealed_for, b"t", NONCE)) is None


def test_a_token_is_no_encrypted_value_of_the_same_purpose() -> None:
    tag = hmac.digest(KEY, b"\x00\x00\x00\x04cart" + NONCE + b"x", "sha256")
    assert ring.decrypt("cart", tag + NONCE + b"x") is None


def test_a_changed_byte_anywhere_in_an_encrypted_value_is_refused() -> None:
    data = ring.encrypt("cart", b"apples", NONCE)
    for place in range(len(data)):
        assert ring.decrypt("cart", data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :]) is None


def test_a_cut_or_lengthened_encrypted_value_is_refused() -> None:
    data = ring.encrypt("cart", b"apples", NONCE)
    assert not [length for length in range(len(data)) if ring.decrypt("cart", data[:length]) is not None]
    assert ring.decrypt("cart", data + b"\0") is None


@given(data=st.binary(max_size=80))
def test_any_bytes_may_be_presented_as_an_encrypted_value(data: bytes) -> None:
    assert ring.decrypt("cart", data) is None


def test_every_key_decrypts_and_the_first_one_encrypts() -> None:
    before, between, after = KeyRing(KEY), KeyRing(OTHER_KEY, KEY), KeyRing(OTHER_KEY)
    old, new = before.encrypt("cart", b"old", NONCE), between.encrypt("cart", b"new", NONCE)
    assert (between.decrypt("cart", old), between.decrypt("cart", new)) == (b"old", b"new")
    assert (after.decrypt("cart", old), after.decrypt("cart", new)) == (None, b"new")
    assert before.decrypt("cart", new) is None


def test_a_purpose_may_be_any_text() -> None:
    assert ring.open("\ud800", ring.seal("\ud800", b"x")) == b"x"


@pytest.mark.parametrize(
    ("principal", "expected"),
    [
        (None, b""),
        ("", bytes.fromhex("e3b0c44298fc1c149afbf4c8")),
        ("alice", bytes.fromhex("2bd806c97f0e00af1a1fc332")),
    ],
)
def test_a_principal_has_a_short_fingerprint_and_nobody_has_none(principal: str | None, expected: bytes) -> None:
    assert digest(principal) == expected


def test_principals_that_are_not_unicode_differ_too() -> None:
    assert len({digest("\ud800"), digest("\udfff"), digest("?")}) == 3


sessions = SessionTokens(ring, server="weather", path="/mcp")
CALLER = Caller(
    VERSIONS[1],
    types.ClientCapabilities(
        sampling=types.SamplingCapability(),
        elicitation=types.ElicitationCapability(form={}, url={}),
        roots=types.RootsCapability(list_changed=True),
    ),
    types.Implementation("claude-code", "2.1.42"),
)


def seal(caller: Caller = CALLER, principal: str | None = None, now: float = NOW) -> str:
    return sessions.seal(caller, principal=principal, now=now, nonce=NONCE)


def caller_of(tokens: SessionTokens, token: str, *, principal: str | None, now: float) -> Caller | None:
    opened = tokens.open(token, principal=principal, now=now)
    return None if opened is None else opened.caller


@pytest.mark.parametrize("origin", [b"", digest("https://app.example")])
def test_a_session_id_carries_the_origin_that_it_began_with(origin: bytes) -> None:
    token = sessions.seal(CALLER, principal="ann", now=NOW, nonce=NONCE, origin=origin)
    opened = sessions.open(token, principal="ann", now=NOW)
    assert opened is not None
    assert opened.origin == origin


@pytest.mark.parametrize("version", VERSIONS, ids=lambda version: version.name)
def test_a_session_id_carries_who_calls(version: object) -> None:
    caller = msgspec.structs.replace(CALLER, version=version)
    assert caller_of(sessions, seal(caller), principal=None, now=NOW) == caller


def test_a_client_without_a_name_has_none_afterwards() -> None:
    caller = Caller(VERSIONS[1])
    assert caller_of(sessions, seal(caller), principal=None, now=NOW) == caller


def test_empty_names_are_names() -> None:
    caller = Caller(VERSIONS[1], info=types.Implementation("", ""))
    assert caller_of(sessions, seal(caller), principal=None, now=NOW) == caller


EVERY_CAPABILITY = [
    types.ClientCapabilities(sampling=sampling, elicitation=elicitation, roots=roots)
    for sampling, elicitation, roots in itertools.product(
        [
            None,
            *(types.SamplingCapability(context=c, tools=t) for c, t in itertools.product([None, {}], repeat=2)),
        ],
        [
            None,
            *(types.ElicitationCapability(form=f, url=u) for f, u in itertools.product([None, {}], repeat=2)),
        ],
        [None, types.RootsCapability(), types.RootsCapability(list_changed=True)],
    )
]


def test_every_combination_of_capabilities_survives() -> None:
    assert len(EVERY_CAPABILITY) == 75
    for capabilities in EVERY_CAPABILITY:
        opened = caller_of(sessions, seal(Caller(VERSIONS[1], capabilities)), principal=None, now=NOW)
        assert opened is not None
        assert opened.capabilities == capabilities


def test_a_capability_that_is_false_is_not_declared_afterwards() -> None:
    declared = types.ClientCapabilities(roots=types.RootsCapability(list_changed=False))
    opened = caller_of(sessions, seal(Caller(VERSIONS[1], declared)), principal=None, now=NOW)
    assert opened is not None
    assert opened.capabilities == types.ClientCapabilities(roots=types.RootsCapability())


def test_what_only_decorates_or_experiments_is_not_carried() -> None:
    small = Caller(VERSIONS[1], types.ClientCapabilities(), types.Implementation("a", "1"))
    large = Caller(
        VERSIONS[1],
        types.ClientCapabilities(
            tasks={"list": {}}, extensions={"x/y": {"z": 1}}, experimental={"blob": {"data": "x" * 100_000}}
        ),
        types.Implementation(
            "a",
            "1",
            title="A",
            description="d" * 1000,
            website_url="https://a",
            icons=[types.Icon("data:" + "x" * 9999)],
        ),
        "debug",
    )
    assert len(seal(large)) == len(seal(small))
    assert caller_of(sessions, seal(large), principal=None, now=NOW) == small


def test_capabilities_that_are_not_carried_are_not_even_looked_at() -> None:
    assert seal(Caller(VERSIONS[1], types.ClientCapabilities(experimental={"blob": {"data": object()}})))


@pytest.mark.parametrize(
    ("name", "version", "opened_name", "opened_version"),
    [
        ("n" * 256, "v" * 64, "n" * 256, "v" * 64),
        ("n" * 257, "v" * 65, "n" * 256, "v" * 64),
        ("é" * 300, "1", "é" * 256, "1"),
        (
            "\N{PERSONAL COMPUTER}" * 300,
            "\N{PERSONAL COMPUTER}" * 300,
            "\N{PERSONAL COMPUTER}" * 256,
            "\U0001f4bb" * 64,
        ),
        ("x" * 10_000_000, "y" * 10_000_000, "x" * 256, "y" * 64),
        ("lone \ud800", "\udfff", "lone ?", "?"),
    ],
    ids=["longest", "one more", "two bytes", "four bytes", "huge", "surrogates"],
)
def test_long_names_are_cut_and_the_id_stays_below_2048_bytes(
    name: str, version: str, opened_name: str, opened_version: str
) -> None:
    caller = msgspec.structs.replace(CALLER, info=types.Implementation(name, version))
    token = seal(caller, principal="p" * 1000)
    assert len(token) < 2048
    opened = caller_of(sessions, token, principal="p" * 1000, now=NOW)
    assert opened is not None
    assert opened.info == types.Implementation(opened_name, opened_version)


def test_the_nonce_makes_ids_differ() -> None:
    first = sessions.seal(CALLER, principal=None, now=NOW, nonce=b"a" * 16)
    second = sessions.seal(CALLER, principal=None, now=NOW, nonce=b"b" * 16)
    assert first != second


@pytest.mark.parametrize(
    ("server", "path"),
    [
        ("weather", "/other"),
        ("other", "/mcp"),
        ("weather", ""),
        ("", "/mcp"),
        ("weather /mcp", ""),
        ("weather /", "mcp"),
    ],
)
def test_an_id_is_bound_to_server_and_path(server: str, path: str) -> None:
    assert SessionTokens(ring, server=server, path=path).open(seal(), principal=None, now=NOW) is None


def test_server_and_path_cannot_trade_characters() -> None:
    first = SessionTokens(ring, server="a b", path="c").seal(CALLER, principal=None, now=NOW, nonce=NONCE)
    assert SessionTokens(ring, server="a", path="b c").open(first, principal=None, now=NOW) is None


def test_another_worker_with_the_same_key_takes_the_session_up() -> None:
    worker = SessionTokens(KeyRing(OTHER_KEY, KEY), server="weather", path="/mcp")
    assert caller_of(worker, seal(), principal=None, now=NOW) == CALLER


@pytest.mark.parametrize(
    ("sealed_for", "opened_by"),
    [("alice", "bob"), ("alice", None), (None, "alice"), (None, ""), ("", None), ("alice", "Alice"), ("é", "e\u0301")],
)
def test_an_id_opens_for_its_principal_only(sealed_for: str | None, opened_by: str | None) -> None:
    token = seal(principal=sealed_for)
    assert caller_of(sessions, token, principal=opened_by, now=NOW) is None
    assert caller_of(sessions, token, principal=sealed_for, now=NOW) == CALLER


@pytest.mark.parametrize(
    ("age", "opens"),
    [
        (0, True),
        (1, True),
        (DAY, True),
        (DAY + 1, False),
        (10 * DAY, False),
        (-60, True),
        (-61, False),
        (-DAY, False),
    ],
)
def test_an_id_opens_from_a_minute_before_its_issue_until_it_is_a_day_old(age: int, *, opens: bool) -> None:
    assert (caller_of(sessions, seal(now=1000), principal=None, now=1000 + age) is not None) is opens


def test_the_greatest_age_can_be_chosen() -> None:
    brief = SessionTokens(ring, server="weather", path="/mcp", max_age=10)
    assert caller_of(brief, seal(now=1000), principal=None, now=1010) == CALLER
    assert caller_of(brief, seal(now=1000), principal=None, now=1011) is None


def test_an_id_says_until_when_it_opens() -> None:
    opened = sessions.open(seal(now=1000.9), principal=None, now=1000)
    assert opened is not None
    assert opened.expires_at == 1000 + DAY == 1000 + sessions.max_age


PURPOSE = "session 7 weather /mcp"
VALID = ["2025-11-25", int(NOW), 0, b"", NONCE, "name", "1", b""]


@pytest.mark.parametrize(
    ("fields", "opens"),
    [
        (VALID, True),
        ([*VALID, b"", "a field of a later release"], True),
        (VALID[:7], True),
        (VALID[:5], True),
        (VALID[:4], False),
        ([], False),
        (["2099-01-01", *VALID[1:]], False),
        ([None, *VALID[1:]], False),
        ([VALID[0], "yesterday", *VALID[2:]], False),
        ([VALID[0], 2**63, *VALID[2:]], False),
        ([VALID[0], -(2**63), *VALID[2:]], False),
        ([*VALID[:2], 2**40, *VALID[3:]], True),
        ([*VALID[:3], "no bytes", *VALID[4:]], False),
        ({"version": "2025-11-25"}, False),
        (None, False),
    ],
)
def test_an_id_that_another_release_sealed_opens_only_if_it_can_be_read(fields: object, *, opens: bool) -> None:
    token = ring.seal(PURPOSE, msgspec.msgpack.encode(fields))
    assert (caller_of(sessions, token, principal=None, now=NOW) is not None) is opens


@pytest.mark.parametrize(
    ("names", "info"),
    [
        (["name", "1"], types.Implementation("name", "1")),
        (["name"], None),
        (["name", None], None),
        ([None, "1"], None),
        ([], None),
    ],
)
def test_a_client_has_a_name_and_a_version_or_neither(
    names: list[str | None], info: types.Implementation | None
) -> None:
    opened = caller_of(
        sessions, ring.seal(PURPOSE, msgspec.msgpack.encode([*VALID[:5], *names])), principal=None, now=NOW
    )
    assert opened is not None
    assert opened.info == info


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        b"\xc1",
        b"{}",
        b"\xff" * 50,
        b"\x97\xa1\xff",
        b"\xdd\xff\xff\xff\xff",
        msgspec.msgpack.encode(VALID)[:-1],
        b"\x99" + msgspec.msgpack.encode(VALID)[1:] + b"\x91" * 100_000,
    ],
)
def test_a_sealed_payload_that_is_no_session_does_not_open(payload: bytes) -> None:
    assert caller_of(sessions, ring.seal(PURPOSE, payload), principal=None, now=NOW) is None


@given(payload=st.binary(max_size=200))
def test_no_sealed_payload_makes_opening_fail(payload: bytes) -> None:
    opened = caller_of(sessions, ring.seal(PURPOSE, payload), principal=None, now=NOW)
    assert opened is None or isinstance(opened, Caller)


def carried(extensions: dict[str, types.Json], name: str = "n") -> dict[str, types.Json] | None:
    declared = types.ClientCapabilities(extensions={**extensions, "com.example/unknown": {}})
    caller = Caller(VERSIONS[1], declared, types.Implementation(name, "1" * 64))
    token = sessions.seal(caller, principal=None, now=NOW, nonce=NONCE, extensions=extensions)
    assert len(token) < 2048
    opened = caller_of(sessions, token, principal=None, now=NOW)
    assert opened is not None
    return opened.capabilities.extensions


def test_extensions_that_the_server_has_are_carried_as_far_as_there_is_room() -> None:
    some: dict[str, types.Json] = {"a/b": {"number": 2**70, "list": [1.5, None]}, "a/c": {}}
    assert carried(some) == some
    assert carried({}) is None
    assert carried({"a/b": {"text": "x" * 2000}, "a/c": {"d": 1}}) == {"a/b": {}, "a/c": {"d": 1}}
    many: dict[str, types.Json] = {f"com.example/{number:04}": {} for number in range(1000)}
    assert 0 < len(carried(many) or ()) < 100
    longest = "\N{PERSONAL COMPUTER}" * 300
    assert carried(some, longest) == some
    assert carried({"com.example/" + "x" * 2000: {}}, longest) is None


def test_a_digest_tells_values_and_purposes_apart_and_needs_the_first_key() -> None:
    assert ring.digest("audit", b"tea") == ring.digest("audit", b"tea")
    others = [ring.digest("audit", b"coffee"), ring.digest("other", b"tea"), KeyRing(b"x" * 16).digest("audit", b"tea")]
    assert ring.digest("audit", b"tea") not in others
    assert len(ring.digest("audit", b"")) == 64
