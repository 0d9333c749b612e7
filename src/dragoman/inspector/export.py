"""Recorded calls in other forms: a pytest test, a cassette, curl, a program with a client, and HAR (HTTP Archive 1.2).

Secrets are masked. Where a program needs one, it takes it from the environment.
"""

from __future__ import annotations

import json
import pprint
import shlex
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any
from urllib.parse import urlsplit

import dragoman
from dragoman.compose.masking import SESSION_HEADER, Masks
from dragoman.inspector.targets import ServerTarget
from dragoman.inspector.traffic.rows import TrafficRecord
from dragoman.testing.cassettes.cassette import cassette_bytes

_LEFT_TO_THE_CLIENT = frozenset({"initialize", "server/discover", "ping", "subscriptions/listen"})
"""What a client sends by itself; `subscriptions/listen` has no response until the client ends."""
_LEFT_OUT = frozenset({"host", "content-length", "accept-encoding", "user-agent", "connection"})
_FROM_THE_SHELL = {
    "authorization": '"Authorization: Bearer $DRAGOMAN_TOKEN"',
    SESSION_HEADER: '"Mcp-Session-Id: $session"',
}
"""The headers whose values are secrets, as words of a shell."""
_VERSION_HEADER = "mcp-protocol-version"
_FIRST_WITH_SESSIONS = "2025-03-26"
_FIND_SESSION = """tr -d '\\r' | awk 'tolower($1) == "mcp-session-id:" { print $2 }'"""


class ExportedCalls:
    """Records of one server that are exported."""

    def __init__(self, records: Sequence[TrafficRecord], target: ServerTarget | None) -> None:
        self.records = records
        self.target = target

    def requests(self) -> Iterator[tuple[dict[str, Any], dict[str, Any] | None]]:
        """Yield each request of the client with its response, without what a client sends by itself."""
        answers = {
            (record.connection, record.row.id): _message(record)
            for record in self.records
            if record.row.what == "response" and record.row.sender == "server"
        }
        for record in self.sent():
            if record.row.method not in _LEFT_TO_THE_CLIENT:
                yield _message(record), answers.get((record.connection, record.row.id))

    def sent(self) -> list[TrafficRecord]:
        """Return the requests of the client."""
        return [record for record in self.records if record.row.what == "request" and record.row.sender == "client"]

    @property
    def url(self) -> str | None:
        """The URL of the server, if it is known."""
        return None if self.target is None else self.target.url

    def client(self) -> str:
        """Return a client of the server as Python; its secrets come from the environment."""
        if self.target is None:
            return 'Client("PUT THE URL OR COMMAND OF THE SERVER HERE")'
        if self.url is not None:
            auth = ', auth=os.environ["DRAGOMAN_TOKEN"]' if self.target.is_authorized else ""
            return f"Client({_bare(self.url)!r}{auth})"
        given, names = self.target.target, dict(self.target.options.get("env") or {})
        if isinstance(given, dict):
            names |= given.get("env") or {}
            given = [given["command"], *given.get("args", ())]
        shown = _masked_words([*map(str, given)]) if isinstance(given, list | tuple) else Masks().target(str(given))
        variables = ", ".join(f"{name!r}: os.environ[{name!r}]" for name in names)
        return f"Client({shown!r}{f', env={{{variables}}}' if names else ''})"


def _bare(url: str) -> str:
    """Return a URL without the parts that hold secrets."""
    parts = urlsplit(url)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2], query="", fragment="").geturl()


def _masked_words(words: list[str]) -> list[str]:
    """Return the words of a command with their secrets masked; a word may be the value of the option before it."""
    masked = Masks().target
    return [masked(f"{before} {word}")[len(masked(before)) + 1 :] for before, word in pairwise(["", *words])]


def _message(record: TrafficRecord) -> dict[str, Any]:
    try:
        found = json.loads(record.masked())
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _plain_params(message: dict[str, Any]) -> dict[str, Any]:
    params = message.get("params")
    return {key: value for key, value in params.items() if key != "_meta"} if isinstance(params, dict) else {}


def _call(message: dict[str, Any]) -> str:
    """Return a call of a method of a client, as Python."""
    method, params = message.get("method"), _plain_params(message)
    if method in ("tools/call", "prompts/get") and params.keys() <= {"name", "arguments"}:
        name, options = ("call_tool", ", raise_on_error=False") if method == "tools/call" else ("get_prompt", "")
        return f"client.{name}({params.get('name')!r}, {_value(params.get('arguments') or {})}{options})"
    if method == "resources/read" and params.keys() <= {"uri"}:
        return f"client.read_resource({params.get('uri')!r})"
    return f"client.request({method!r}, {_value(params)})"


def _value(value: Any) -> str:
    return pprint.pformat(value, width=100, sort_dicts=False)


def _imports(client: str, *further: str) -> list[str]:
    return [
        *(["import os", ""] if "os.environ" in client else ()),
        *further,
        "from dragoman import Client, DragomanError",
    ]


def _is_refused(answer: dict[str, Any] | None) -> bool:
    return "error" in (answer or {})


def _program(calls: ExportedCalls) -> str:
    client = calls.client()
    lines = [*_imports(client), "", f"with {client} as client:"]
    body = []
    for message, answer in calls.requests():
        called = [*f"result = {_call(message)}".splitlines(), "print(result)"]
        if _is_refused(answer):
            called = ["try:", *_indented(called), "except DragomanError as error:", "    print(error)"]
        body += _indented(called)
    return "\n".join([*lines, *(body or ["    pass"]), ""])


def _indented(lines: list[str]) -> list[str]:
    return [f"    {line}" for line in lines]


def _test(calls: ExportedCalls) -> str:
    client = calls.client()
    lines = [*_imports(client, "import pytest", ""), ""]
    for number, (message, answer) in enumerate(calls.requests(), 1):
        lines += ["", f"def test_{_name(message)}_{number}():", f"    with {client} as client:"]
        called = [*f"result = {_call(message)}".splitlines(), *_expected(message, answer)]
        if _is_refused(answer):
            called = ["with pytest.raises(DragomanError):", *_indented(_call(message).splitlines())]
        lines += _indented(_indented(called))
    return "\n".join([*lines, ""])


def _expected(message: dict[str, Any], answer: dict[str, Any] | None) -> list[str]:
    """Return the assertions about a result."""
    result = (answer or {}).get("result")
    if not isinstance(result, dict) or message.get("method") in ("prompts/get", "resources/read"):
        return ["assert result is not None"]
    if message.get("method") != "tools/call":
        return f"assert result == {_value(result)}".splitlines()
    content = result.get("content")
    blocks = [block for block in content if isinstance(block, dict)] if isinstance(content, list) else []
    texts = [block["text"] for block in blocks if block.get("type") == "text" and isinstance(block.get("text"), str)]
    lines = [f"assert result.is_error is {bool(result.get('isError'))}"]
    if texts:
        lines += f"assert result.text == {_value(chr(10).join(texts))}".splitlines()
    structured = result.get("structuredContent")
    if isinstance(structured, dict) and structured.keys() != {"result"}:  # the client may unwrap a lone `result`
        lines += f"assert result.structured == {_value(structured)}".splitlines()
    return lines


def _name(message: dict[str, Any]) -> str:
    params = _plain_params(message)
    words = str(params.get("name") or message.get("method") or "call")
    return "".join(letter if letter.isalnum() and letter.isascii() else "_" for letter in words).lower()


def _cassette(calls: ExportedCalls) -> str:
    messages = [(record.row.sender, _message(record)) for record in calls.records if record.row.kind == "message"]
    rpc = [(sender, message) for sender, message in messages if message.get("jsonrpc") == "2.0"]
    return cassette_bytes(rpc).decode("utf-8", "replace")


def _curl(calls: ExportedCalls) -> str:
    """Return one curl command for each HTTP request, or for each message if the server is a process."""
    heads = {(one.row.exchange): one.masked_head() for one in calls.records if one.row.kind == "request"}
    url = _bare(calls.url or "http://127.0.0.1:8000/mcp")
    sent = calls.sent()
    headers = {
        one.row.number: {name.lower(): value for name, value in heads.get(one.row.exchange, {}).get("headers", ())}
        for one in sent
    }
    session = next((found for found in headers.values() if SESSION_HEADER in found), None)
    left_out = {"subscriptions/listen", *(() if session is None else ("initialize",))}
    commands = [
        _curl_command(url, headers[one.row.number], one.masked().decode("utf-8", "replace"))
        for one in sent
        if one.row.method not in left_out
    ]
    return "\n\n".join([*(() if session is None else _session_begin(url, session)), *commands, ""])


def _session_begin(url: str, headers: dict[str, str]) -> list[str]:
    """Return commands that begin a session, because the id of the recorded one is a secret."""
    version = headers.get(_VERSION_HEADER, _FIRST_WITH_SESSIONS)
    first = {name: value for name, value in headers.items() if name not in (SESSION_HEADER, _VERSION_HEADER)}
    params = {"protocolVersion": version, "capabilities": {}, "clientInfo": {"name": "curl", "version": "1"}}
    begin = json.dumps({"jsonrpc": "2.0", "id": "begin", "method": "initialize", "params": params})
    command = _curl_command(url, first, begin, "-D - -o /dev/null")
    return [
        "# The server gives each client a session. These commands begin one, and the others use it.",
        f"session=$({command} | {_FIND_SESSION})",
        _curl_command(url, headers, '{"jsonrpc":"2.0","method":"notifications/initialized"}'),
    ]


def _curl_command(url: str, headers: dict[str, str], body: str, options: str = "") -> str:
    sent = {name: value for name, value in headers.items() if name not in _LEFT_OUT}
    sent = sent or {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
    lines = [f"curl -sS {options}{' ' if options else ''}{shlex.quote(url)}"]
    lines += [f"  -H {_FROM_THE_SHELL.get(name) or shlex.quote(f'{name}: {value}')}" for name, value in sent.items()]
    return " \\\n".join([*lines, f"  --data-raw {shlex.quote(body)}"])


def _har(calls: ExportedCalls) -> str:
    exchanges: dict[int, list[TrafficRecord]] = {}
    for record in calls.records:
        if record.row.exchange is not None:
            exchanges.setdefault(record.row.exchange, []).append(record)
    parts = urlsplit(calls.url or "http://127.0.0.1")
    origin = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"
    entries = [_har_entry(origin, records) for records in exchanges.values() if records[0].row.kind == "request"]
    creator = {"name": "dragoman", "version": dragoman.__version__}
    return json.dumps({"log": {"version": "1.2", "creator": creator, "entries": entries}}, indent=1)


def _har_entry(origin: str, records: list[TrafficRecord]) -> dict[str, Any]:
    request, begin = records[0].masked_head(), records[0].row.time
    response: dict[str, Any] = next((one.masked_head() for one in records if one.row.kind == "response"), {})
    bodies = {sender: _har_body(records, sender) for sender in ("client", "server")}
    took = round((records[-1].row.time - begin) * 1000, 3)
    common = {"httpVersion": "HTTP/1.1", "cookies": [], "headersSize": -1}
    sent = {"mimeType": "application/json", "text": bodies["client"]}
    return {
        "startedDateTime": datetime.fromtimestamp(begin, UTC).isoformat(),
        "time": took,
        "request": {
            **common,
            "method": request.get("method", ""),
            "url": origin + request.get("path", ""),
            "headers": _har_headers(request),
            "queryString": [],
            "bodySize": len(bodies["client"]),
            **({"postData": sent} if bodies["client"] else {}),
        },
        "response": {
            **common,
            "status": response.get("status", 0),
            "statusText": "",
            "headers": _har_headers(response),
            "content": {"size": len(bodies["server"]), "mimeType": _mime_type(response), "text": bodies["server"]},
            "redirectURL": "",
            "bodySize": len(bodies["server"]),
        },
        "cache": {},
        "timings": {"send": 0, "wait": took, "receive": 0},
    }


def _har_headers(head: dict[str, Any]) -> list[dict[str, str]]:
    return [{"name": name, "value": value} for name, value in head.get("headers", ())]


def _mime_type(head: dict[str, Any]) -> str:
    return next((value for name, value in head.get("headers", ()) if name.lower() == "content-type"), "")


def _har_body(records: list[TrafficRecord], sender: str) -> str:
    bodies = [one for one in records if one.row.sender == sender and one.row.kind in ("message", "text")]
    return "\n".join(one.masked().decode("utf-8", "replace") for one in bodies)


FORMATS: dict[str, tuple[str, str, Callable[[ExportedCalls], str]]] = {
    "pytest": ("test_recorded.py", "text/x-python", _test),
    "cassette": ("recorded.jsonl", "application/jsonl", _cassette),
    "curl": ("recorded.sh", "text/x-shellscript", _curl),
    "python": ("recorded.py", "text/x-python", _program),
    "har": ("recorded.har", "application/json", _har),
}
"""The name of the file, its type, and the function that makes its text, by format."""
