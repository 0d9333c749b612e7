"""How fast is one tools/call through the core, against the types of the official Python SDK?

"codec": the envelope and the call decoded with their arguments, and a text result encoded in its envelope. "2025-11-25"
and "2026-07-28": the same with everything that a version demands, on both sides: is the method there, who is calling,
which fields may be sent. Each side runs in its own environment and process; the rounds alternate, and the ratio is that
of the medians, because times on a shared machine mean little alone.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

from processes import ENVIRONMENT, python
from rows import Effort, Row, Wanted, alternate

ROWS = {"codec": "codec", "codec_handshake": "2025-11-25", "codec_stateless": "2026-07-28"}

_CALL = '{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"add","arguments":{"a":2,"b":40}%s}}'
_META = (
    ',"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{},'
    '"io.modelcontextprotocol/clientInfo":{"name":"bench","version":"1"}}'
)
_PLAIN = (_CALL % "").encode()
REQUESTS = {"codec": _PLAIN, "2025-11-25": _PLAIN, "2026-07-28": (_CALL % _META).encode()}


def dragoman_work(row: str) -> Callable[[], bytes]:
    """Return one call through dragoman."""
    import msgspec

    from dragoman import types
    from dragoman.protocol import eras, jsonrpc

    offer = eras.Offer.of(types.ServerCapabilities(tools=types.ListChangedCapability()))
    arguments_of = msgspec.json.Decoder(dict[str, int])
    request = REQUESTS[row]

    params_of = msgspec.json.Decoder(types.CallToolRequestParams)

    def codec() -> bytes:
        message = jsonrpc.decode(request)
        assert isinstance(message, jsonrpc.Request)
        arguments = arguments_of.decode(params_of.decode(message.params).arguments)  # type: ignore[arg-type]
        result = types.CallToolResult([types.TextContent(str(arguments["a"] + arguments["b"]))])
        return jsonrpc.encode_result(message.id, result)

    def versioned() -> bytes:
        message = jsonrpc.decode(request)
        assert isinstance(message, jsonrpc.Request)
        opened = eras.open(message, offer)
        arguments = arguments_of.decode(opened.params.arguments)
        result = types.CallToolResult([types.TextContent(str(arguments["a"] + arguments["b"]))])
        return jsonrpc.encode_result(opened.id, eras.seal(result, opened.caller.version))

    return codec if row == "codec" else versioned


def mcp_types_work(row: str) -> Callable[[], bytes]:
    """Return one call through the official types."""
    import mcp_types
    from mcp_types.methods import parse_client_request, serialize_server_result

    request = REQUESTS[row]

    def answer(message: Any, arguments: Any, shape: Callable[[dict[str, Any]], dict[str, Any]]) -> bytes:
        content = [mcp_types.TextContent(type="text", text=str(arguments["a"] + arguments["b"]))]
        result = mcp_types.CallToolResult(content=content).model_dump(by_alias=True, mode="json", exclude_none=True)
        response = mcp_types.JSONRPCResponse(jsonrpc="2.0", id=message.id, result=shape(result))
        encoded: bytes = response.model_dump_json(by_alias=True, exclude_none=True).encode()
        return encoded

    def codec() -> bytes:
        message = mcp_types.jsonrpc_message_adapter.validate_json(request)
        return answer(message, mcp_types.CallToolRequestParams.model_validate(message.params).arguments, lambda r: r)

    def versioned() -> bytes:
        message = mcp_types.jsonrpc_message_adapter.validate_json(request)
        call = parse_client_request(message.method, row, message.params)
        return answer(message, call.params.arguments, lambda r: serialize_server_result("tools/call", row, r))

    return codec if row == "codec" else versioned


WORK = {"dragoman": dragoman_work, "mcp": mcp_types_work}


def calls_per_second(side: str, row: str, seconds: float) -> float:
    """Return calls per second of one side in this process."""
    work = WORK[side](row)
    if b'"42"' not in work():
        raise SystemExit(f"{side} answered wrongly: {work()!r}")
    calls, started = 0, time.perf_counter()
    while (elapsed := time.perf_counter() - started) < seconds:
        for _ in range(200):
            work()
        calls += 200
    return calls / elapsed


def measure(effort: Effort, wanted: Wanted) -> Iterator[Row]:
    """Measure what is wanted of the protocol core, in fresh processes."""
    for name, row in ROWS.items():
        if wanted(name):

            def rate(side: str, row: str = row) -> float:
                asked = [str(python(side)), __file__, side, row, str(effort.seconds)]
                return float(subprocess.run(asked, check=True, capture_output=True, text=True, env=ENVIRONMENT).stdout)

            yield Row(name, f"one tools/call through the core, {row}", "calls/s", alternate(effort.rounds, WORK, rate))


if __name__ == "__main__":
    print(calls_per_second(sys.argv[1], sys.argv[2], float(sys.argv[3])))
