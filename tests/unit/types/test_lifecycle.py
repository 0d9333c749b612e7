from __future__ import annotations

import msgspec
import pytest

from dragoman.errors import ValidationError
from dragoman.types import (
    CancelledNotificationParams,
    ClientCapabilities,
    DiscoverResult,
    Implementation,
    InitializeRequestParams,
    InitializeResult,
    ListChangedCapability,
    LoggingMessageNotificationParams,
    ProgressNotificationParams,
    RequestMeta,
    ServerCapabilities,
    SetLevelRequestParams,
    decode,
)

encode = msgspec.json.encode


def test_the_meta_of_a_request_has_the_keys_of_the_protocol() -> None:
    meta = RequestMeta(
        protocol_version="2026-07-28",
        client_capabilities=ClientCapabilities(),
        client_info=Implementation(name="a", version="1"),
        log_level="info",
        progress_token=0,
        traceparent="00-1-2-01",
        tracestate="a=b",
        baggage="c=d",
    )
    assert encode(meta) == (
        b'{"io.modelcontextprotocol/protocolVersion":"2026-07-28",'
        b'"io.modelcontextprotocol/clientCapabilities":{},'
        b'"io.modelcontextprotocol/clientInfo":{"name":"a","version":"1"},'
        b'"io.modelcontextprotocol/logLevel":"info",'
        b'"progressToken":0,"traceparent":"00-1-2-01","tracestate":"a=b","baggage":"c=d"}'
    )
    assert decode(encode(meta), RequestMeta) == meta


def test_the_keys_of_others_in_the_meta_of_a_request_are_not_read() -> None:
    assert decode(b'{"org.example/a": 1, "progressToken": "b"}', RequestMeta) == RequestMeta(progress_token="b")


def test_a_client_introduces_itself() -> None:
    params = InitializeRequestParams(
        protocol_version="2025-11-25",
        capabilities=ClientCapabilities(),
        client_info=Implementation(name="a", version="1"),
    )
    assert encode(params) == (
        b'{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"a","version":"1"}}'
    )


def test_a_server_introduces_itself() -> None:
    result = InitializeResult(
        protocol_version="2025-11-25",
        capabilities=ServerCapabilities(tools=ListChangedCapability()),
        server_info=Implementation(name="a", version="1"),
        instructions="",
    )
    assert encode(result) == (
        b'{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},'
        b'"serverInfo":{"name":"a","version":"1"},"instructions":""}'
    )


def test_a_discovered_server_lists_its_versions() -> None:
    result = DiscoverResult(
        result_type="complete",
        ttl_ms=0,
        cache_scope="public",
        supported_versions=["2026-07-28"],
        capabilities=ServerCapabilities(),
    )
    assert encode(result) == (
        b'{"supportedVersions":["2026-07-28"],"capabilities":{},"resultType":"complete","ttlMs":0,"cacheScope":"public"}'
    )


@pytest.mark.parametrize(
    ("params", "data"),
    [
        (CancelledNotificationParams(request_id=0, reason=""), b'{"requestId":0,"reason":""}'),
        (CancelledNotificationParams(request_id="0"), b'{"requestId":"0"}'),
        (CancelledNotificationParams(), b"{}"),
    ],
)
def test_a_cancelled_request_keeps_the_type_of_its_id(params: CancelledNotificationParams, data: bytes) -> None:
    assert encode(params) == data
    assert decode(data, CancelledNotificationParams) == params


def test_progress_is_a_whole_number_or_a_fraction() -> None:
    data = b'{"progressToken":1,"progress":50,"total":100.5,"message":""}'
    assert encode(decode(data, ProgressNotificationParams)) == data


@pytest.mark.parametrize("token", [b"1.5", b"true", b"null", b"[]"])
def test_a_progress_token_is_a_text_or_a_whole_number(token: bytes) -> None:
    with pytest.raises(ValidationError) as refused:
        decode(b'{"progress": 1, "progressToken": ' + token + b"}", ProgressNotificationParams)
    assert refused.value.path == "$.progressToken"


def test_a_level_must_be_known() -> None:
    assert encode(SetLevelRequestParams(level="emergency")) == b'{"level":"emergency"}'
    with pytest.raises(ValidationError, match="Invalid enum value 'trace' at"):
        decode(b'{"level": "trace"}', SetLevelRequestParams)


@pytest.mark.parametrize("value", [b"null", b"false", b"0", b'""', b'{"a":null}', b"[1,1.0]"])
def test_a_log_message_carries_any_value(value: bytes) -> None:
    data = b'{"level":"info","data":' + value + b',"logger":"a"}'
    assert encode(decode(data, LoggingMessageNotificationParams)) == data


def test_a_log_message_without_data_is_refused() -> None:
    with pytest.raises(ValidationError, match=r"missing required field at \$\.data"):
        decode(b'{"level": "info"}', LoggingMessageNotificationParams)
