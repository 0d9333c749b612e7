"""Which secrets are masked in what a session file keeps, and what stays as it was."""

import json
import time

import pytest

from dragoman.compose.masking import Masks

SECRET = "s3cr3t-value-0001"


@pytest.mark.parametrize(
    "message",
    [
        {"access_token": SECRET},
        {"params": {"arguments": {"password": SECRET}}},
        {"params": {"clientSecret": SECRET + ' with a "quote" and a \\'}},
        {"text": json.dumps({"api_key": SECRET})},
        {"text": json.dumps({"text": json.dumps({"refresh_token": SECRET})})},
        {"url": f"https://example.com/login?state=x&access_token={SECRET}#end"},
        {"endpoint": f"/messages/?session_id={SECRET}"},
        {"endpoint": f"/messages?x=1&sessionId={SECRET}"},
        {"text": f"Authorization: Bearer {SECRET}"},
        {"text": f"eyJhbGciOiJub25lIn0.{SECRET}.{SECRET}"},
        {"PASSWORD": SECRET},
        {"token": SECRET},
        {"github_token": SECRET, "db_password": SECRET, "api-key": SECRET, "secretKey": SECRET},
        {"password": [SECRET, {"more": SECRET}]},
        {"secret": {"type": "hidden", "value": SECRET}},
        {"text": json.dumps({"password": {"nested": [SECRET]}})},
        {"text": f"connected with password={SECRET} to the database"},
        {"text": f'password="{SECRET} and more"'},
        {"url": f"postgres://admin:{SECRET}@db.example.com/shop"},
        {"text": f"-----BEGIN RSA PRIVATE KEY-----\n{SECRET}\n-----END RSA PRIVATE KEY-----"},
    ],
)
def test_secrets_are_masked_by_their_names_and_their_forms(message):
    masked = Masks().message(json.dumps(message).encode())
    assert SECRET not in masked.decode()
    assert b"***" in masked
    json.loads(masked)


@pytest.mark.parametrize(
    "data",
    [
        b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"passwords","arguments":{"tokens":5}}}',
        b'{"text":"the bearer of news"}',
        b"\xff\xfe no json",
        b'{"password":null,"secret":true,"token":{}}',
        b'{"_meta":{"progressToken":"a1"},"nextPageToken":"b2","max_tokens":5}',
        b'{"properties":{"password":{"type":"string","title":"Password"}}}',
        b'{"text":"{\\"properties\\":{\\"api_key\\":{\\"type\\":\\"string\\"}}}"}',
    ],
)
def test_what_holds_no_secret_stays_as_it_was(data):
    assert Masks().message(data) == data


def test_a_secret_that_the_end_of_a_message_cuts_is_masked():
    for message in (b'{"password":"abc', b'{"password":"abc\\', b'{"text":"{\\"password\\":\\"abc'):
        assert b"abc" not in Masks().message(message)


@pytest.mark.parametrize(
    ("message", "masked"),
    [
        (b'{"password":12345,"pin_token":-1.5e3}', b'{"password":"***","pin_token":"***"}'),
        (b'{"pass\\u0077ord":"abc"}', b'{"pass\\u0077ord":"***"}'),
        (b'{"t":"{\\"pass\\\\u0077ord\\":\\"abc\\"}"}', b'{"t":"{\\"pass\\\\u0077ord\\":\\"***\\"}"}'),
        (b'{"t":"{\\"password\\":\\"a\\\\\\"b\\\\\\\\\\"}","id":1}', b'{"t":"{\\"password\\":\\"***\\"}","id":1}'),
        (b'{"password":["a","b"],"id":1}', b'{"password":"***","id":1}'),
        (b'He said "go": {"password": "abc"} "', b'He said "go": {"password": "***"} "'),
    ],
)
def test_only_the_value_of_a_secret_is_replaced(message, masked):
    assert Masks().message(message) == masked


@pytest.mark.parametrize(
    "hostile",
    [
        b"\\",
        b'\\"',
        b'"password":\\\\\\"',
        b'"password":[',
        b'{"password":{"a":',
        b'{"password":{"properties":',
        b"eyJ-",
        b"eyJhbGciOiJ-",
        b"bearer ",
        b"//a",
        b"-----BEGIN PRIVATE KEY-----",
        b"token",
        b"token=",
        b'"token"',
    ],
)
def test_masking_time_grows_linearly_with_the_message(hostile):
    def seconds(size: int) -> float:
        message = b'{"token":"x","t":"bearer @ private key ' + hostile * (size // len(hostile))
        masks = Masks()
        best = float("inf")
        for _ in range(3):
            began = time.process_time()
            masks.message(message)
            best = min(best, time.process_time() - began)
        return best

    # Quadratic time would take 64 times as long; 24 leaves room for noise.
    assert seconds(400_000) < 24 * seconds(50_000) + 0.05


def test_further_names_are_masked_as_headers_and_members():
    masks = Masks(["X-Tenant-Key"])
    assert masks.message(b'{"x-tenant-key":"abc"}') == b'{"x-tenant-key":"***"}'
    assert masks.headers({"X-Tenant-Key": "abc"}) == [("X-Tenant-Key", "***")]


def test_headers_keep_their_scheme_and_a_session_becomes_a_digest():
    masked = dict(
        Masks().headers(
            [
                ("Authorization", f"Bearer {SECRET}"),
                ("Cookie", f"a={SECRET}"),
                ("Mcp-Session-Id", SECRET),
                ("Accept", "text/html"),
            ]
        )
    )
    assert masked["Authorization"] == "Bearer ***"
    assert masked["Cookie"] == "***"
    assert masked["Accept"] == "text/html"
    assert masked["Mcp-Session-Id"].startswith("sha256:")
    assert SECRET not in str(masked)


@pytest.mark.parametrize(
    "name",
    [
        *("X-GitHub-Token", "PRIVATE-TOKEN", "X-Access-Token", "DPoP", "X-Amz-Security-Token", "X-Api-Key"),
        *("Ocp-Apim-Subscription-Key", "Proxy-Authorization", "Set-Cookie", "X-Auth-Token"),
    ],
)
def test_secret_headers_are_masked(name):
    assert SECRET not in str(Masks().headers({name: SECRET}))


def test_the_user_of_a_url_is_masked():
    assert Masks().url(f"https://me:{SECRET}@example.com/mcp") == "https://***@example.com/mcp"


def test_each_line_of_a_text_is_masked_and_line_ends_stay():
    text = "started\npassword=hunter2 now\r\nAuthorization: Bearer abcdefgh12345\n\nend"
    assert Masks().lines(text) == "started\npassword=*** now\r\nAuthorization: Bearer ***\n\nend"
    assert Masks().lines("") == ""


@pytest.mark.parametrize(
    ("target", "masked"),
    [
        ("npx server --api-key abc /srv", "npx server --api-key *** /srv"),
        ("server --token=abc --token-file /a", "server --token=*** --token-file /a"),
        ("docker run -e GITHUB_TOKEN=abc image", "docker run -e GITHUB_TOKEN=*** image"),
        ("npx mcp-remote https://x --header X-Api-Key: abc", "npx mcp-remote https://x --header X-Api-Key: ***"),
        ("https://me:abc@example.com/mcp?token=abc&a=1", "https://***@example.com/mcp?token=***&a=1"),
        ("python token.py secret/server.py", "python token.py secret/server.py"),
    ],
)
def test_a_target_keeps_its_words_without_their_secrets(target, masked):
    assert Masks().target(target) == masked


def test_a_line_is_masked_wherever_a_secret_stands_in_it():
    text = "begun with --token=abc, password='a b' and Authorization: Basic abc\nToken: the next line"
    masked = "begun with --token=*** password=*** and Authorization: Basic ***\nToken: *** next line"
    assert Masks().lines(text) == masked


def test_a_long_line_is_masked_in_time_that_grows_with_its_length():
    began = time.perf_counter()
    assert "abc" not in Masks().lines("a.a-" * 250_000 + " token=abc")
    assert time.perf_counter() - began < 5
