"""`Audit`: writes one record for each request that a server serves or refuses, to a file or to a function.

A record says who called what, when, how it ended, and how long it took. It has no contents: instead of the arguments it
has a digest, by which equal arguments can be recognized. The digest is an HMAC with the secret of the server. A plain
hash would reveal short arguments, such as a name, to anyone who hashes some guesses.

The file is opened for each record, so it may be rotated. A record is one `write` to a file that is open for appending,
so the lines of several processes do not mix. The record is written before the response is sent.

Rejected: a queue and a thread that writes. A crash would lose the records of calls that were answered, and a write to
the page cache is quicker than a change of threads.
"""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
from msgspec import UNSET

from dragoman import types
from dragoman.errors import ConfigError, DefinitionError
from dragoman.runtime.callables import invoke
from dragoman.server.dispatch.observing import Conclusion, subject_of
from dragoman.server.request.call import Call
from dragoman.server.request.facts import readable
from dragoman.telemetry import current_trace_id, session_digest

AuditFunction = Callable[[types.Json], object | Awaitable[object]]
"""Receives one record; a plain function is called in a thread."""
AuditTarget = str | os.PathLike[str] | AuditFunction
MAX_CHARACTERS = 200
"""The length of a text that a client chose; the rest is left out."""


class Audit:
    """Where a server writes its audit records.

    Example:
        server = Server("shop", audit=Audit("audit.jsonl", arguments=True))

    `to` is the path of a file, which gets one line of JSON for each request, or a function of one record. `arguments`
    adds the arguments themselves to the records; by default a record has only a digest of them.

    Raises:
        DefinitionError: `to` is neither a path nor a function.
    """

    def __init__(self, to: AuditTarget, *, arguments: bool = False) -> None:
        if not isinstance(to, str | os.PathLike) and not callable(to):
            raise DefinitionError(f"audit must be a path, a function of one record, or an Audit(...), not {to!r}")
        self._path = Path(to) if isinstance(to, str | os.PathLike) else None
        self._function = to if callable(to) else None
        self._has_arguments = arguments

    def __repr__(self) -> str:
        return f"<Audit to {self._path or self._function!r}>"

    def check(self) -> None:
        """Open the file once.

        Raises:
            ConfigError: the file cannot be opened.
        """
        try:
            self._append(b"")
        except OSError as error:
            raise ConfigError(
                f"The audit file {self._path} cannot be opened: {error.strerror}; create its folder, or let this user"
                " write to it"
            ) from error

    async def record(self, call: Call, conclusion: Conclusion, seconds: float) -> None:
        """Write the record of a call; a failure is reported, and the call does not fail."""
        try:
            record = self._record(call, conclusion, seconds)
            if self._function is not None:
                await invoke(self._function, record)
            else:
                self._append(msgspec.json.encode(record) + b"\n")
        except Exception as error:
            call.server.report(error, None, {"place": "the audit"})

    def _append(self, line: bytes) -> None:
        if self._path is None:
            return
        descriptor = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            os.write(descriptor, line)
        finally:
            os.close(descriptor)

    def _record(self, call: Call, conclusion: Conclusion, seconds: float) -> types.Json:
        request, error = call.request, conclusion.error
        info = request.caller.info
        if request.method.name == "initialize" and call.session.caller is not None:
            info = call.session.caller.info
        task = call.offered_task
        raw = getattr(request.params, "arguments", UNSET)
        arguments = None if raw is UNSET else readable(raw)
        fields: dict[str, Any] = {
            "time": datetime.now(UTC).isoformat(timespec="milliseconds"),
            "principal": call.principal,
            "client": None if info is None else _cut(f"{info.name} {info.version}"),
            "method": _cut(request.method.name),
            "name": _cut(subject_of(call)),
            "outcome": conclusion.outcome,
            "code": None if error is None else error.code,
            "duration_ms": round(seconds * 1000, 3),
            "arguments": arguments if self._has_arguments else None,
            "arguments_digest": None if arguments is None else _digest(call, arguments),
            "request_id": _cut(request.id) if isinstance(request.id, str) else request.id,
            "task": None if task is None or task.id is None else session_digest(task.id),
            "session": None if call.session.id is None else session_digest(call.session.id),
            "trace_id": current_trace_id(),
        }
        return {key: value for key, value in fields.items() if value is not None and value != ""}


def _cut(text: str | None) -> str | None:
    return None if text is None else text[:MAX_CHARACTERS]


def _digest(call: Call, arguments: object) -> str:
    canonical = msgspec.json.encode(arguments, order="sorted")
    return call.server.storage.key_ring.digest("audit", canonical)[:32]
