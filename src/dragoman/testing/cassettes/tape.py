"""`Tape`: the messages of a recorded conversation, and the machine that plays the server's part of it.

A cassette is a file of JSON Lines. Its first line is `{"cassette": 1}`. Every other line is one message:
`{"from": "client", "message": {...}}`. A person can read it, change it, and see its changes in a review.

Playing. A request of the client is matched with a recorded request of the same method and parameters; `_meta` is not
compared, except for the protocol version. Each recorded message of the server is sent once, when it is *due*:

    a response       when its request was matched, and the client answered what the server asked because of the request
    progress         when the request with its token was matched
    anything else    when the client's message that precedes it on the tape was matched, pings aside

So a client may wait for each answer although the recorded one did not. Ids and progress tokens are those of the client
that plays. A request that is not on the tape is answered with an error that shows the closest recorded request.

How often a client polls and subscribes depends on time. Such requests (`TIMED`) have no order. One that comes once more
than it was recorded, or before the client has sent what preceded it, gets the last response again, and the
notifications of its task that followed. A subscription to tasks is not acknowledged, so that the client polls on.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Literal

from dragoman import types
from dragoman.errors import SessionFileError

FORMAT = 1
MISSING_CODE = -32603
MAX_SHOWN = 2_000
LISTEN = "subscriptions/listen"
TIMED = frozenset({"ping", "tasks/get", "tasks/result", LISTEN})
"""The requests whose number and order depend on time."""
Order = Literal["recorded", "any"]
Message = dict[str, Any]


class TapeEntry:
    """One message of a tape."""

    def __init__(self, sender: str, message: Message, after: list[TapeEntry], request: TapeEntry | None = None) -> None:
        self.sender = sender
        self.message = message
        self.is_done = False
        """Whether the client has sent it, or it was sent to the client."""
        self.after = after
        """The entries that must be done before this one is sent to the client."""
        self.request = request
        """The request that this response answers."""
        self.settled = [self]
        """The request itself, and the client's answers to what the server asked because of it."""

    @property
    def is_timed(self) -> bool:
        """Whether this is a request whose number and order depend on time."""
        return self.message.get("method") in TIMED

    @property
    def key(self) -> str:
        """What a request of the client must be equal to."""
        return request_key(self.message)


def request_key(message: Message) -> str:
    """Return the method and the parameters of a request as a text to compare and to show."""
    params = dict(message.get("params") or {})
    meta = params.pop("_meta", None)
    version = meta.get(types.PROTOCOL_VERSION) if isinstance(meta, dict) else params.get("protocolVersion")
    if message.get("method") in {"initialize", "server/discover"}:
        params = {}  # who the client is may change
    elif message.get("method") == LISTEN and isinstance(params.get("notifications"), dict):
        # Which tasks are subscribed at once depends on time.
        params["notifications"] = {key: value for key, value in params["notifications"].items() if key != "taskIds"}
    shown = {"version": version} if version is not None else {}
    return json.dumps({"method": message.get("method"), **shown, "params": params}, sort_keys=True, indent=1)


class Tape:
    """The messages of a cassette, and how far they are played.

    Example:
        tape = Tape.load(Path("weather.jsonl"))
        answers = tape.play({"jsonrpc": "2.0", "id": 1, "method": "tools/list"})
    """

    def __init__(self, messages: Iterable[tuple[str, Message]], order: Order = "recorded") -> None:
        self.entries: list[TapeEntry] = []
        self.missing: list[str] = []
        """What was requested and is not on the tape: an explanation each."""
        self._order = order
        self._ids: dict[tuple[str, Any], Any] = {}
        last: list[TapeEntry] = []
        requests: dict[Any, TapeEntry] = {}
        questions: dict[Any, TapeEntry] = {}
        progressing: dict[Any, TapeEntry] = {}
        for sender, message in messages:
            id, has_method = message.get("id"), "method" in message
            request = requests.get(id) if sender == "server" and not has_method else None
            cause = request or progressing.get(_reported_token(message))
            entry = TapeEntry(sender, message, list(last if cause is None else cause.settled), request)
            self.entries.append(entry)
            if has_method and "id" in message:
                (requests if sender == "client" else questions)[id] = entry
                progressing[_hashable(_progress_token(message))] = entry
            elif sender == "client" and id in questions:
                _settle(requests.values(), questions.pop(id), entry)
            if sender == "client" and message.get("method") != "ping":
                last = [entry]

    @classmethod
    def load(cls, path: Path, order: Order = "recorded") -> Tape:
        """Read a cassette.

        Raises:
            SessionFileError: the file is missing or is no cassette.
        """
        try:
            lines = path.read_text("utf-8").splitlines()
            header, *rows = [json.loads(line) for line in lines if line.strip()]
            if header.get("cassette") != FORMAT:
                raise SessionFileError(f"{path} is not a cassette of format {FORMAT}: its first line says {header}")
            return cls([(row["from"], row["message"]) for row in rows], order)
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise SessionFileError(f"{path} cannot be read as a cassette: {error}; record it again") from None

    def play(self, message: Message) -> list[Message]:
        """Return what the server says when the client sends this message."""
        if "method" in message and "id" in message:
            found = self._find(message)
            if found is None:
                return [self._miss(message)]
            found.is_done = True
            self._ids["id", _hashable(found.message["id"])] = message["id"]
            self._note_token(found.message, message)
        else:
            self._mark(message)
        return list(self._due())

    def _find(self, message: Message) -> TapeEntry | None:
        key = request_key(message)
        requests = [entry for entry in self._requests() if not entry.is_done]
        if requests and _is_probe(requests[0]) and message["method"] != "server/discover":
            self._pass_over(requests.pop(0))
        ordered = [entry for entry in requests if not entry.is_timed]
        if message["method"] in TIMED:
            return self._find_timed(message, key, ordered)
        if self._order == "recorded" and ordered and ordered[0].key != key:
            # A conversation may have been recorded with requests in flight at once, which have no order.
            in_flight = self._in_flight_with(ordered[0])
            return next((entry for entry in ordered if entry in in_flight and entry.key == key), None)
        return next((entry for entry in ordered if entry.key == key), None)

    def _find_timed(self, message: Message, key: str, ordered: list[TapeEntry]) -> TapeEntry | None:
        """Return the next such request that precedes the next ordered one, else the last one that was played."""
        end = self.entries.index(ordered[0]) if ordered else len(self.entries)
        same = [entry for entry in self._requests() if entry.key == key]
        left = [entry for entry in same if not entry.is_done]
        before = [entry for entry in left if self.entries.index(entry) < end]
        played = [entry for entry in same if entry.is_done]
        exact = [entry for entry in before if entry.message.get("params") == message.get("params")]
        found = next(iter(exact or before or played[-1:] or left), None)
        if found is not None and found.is_done and found.message["method"] != LISTEN:
            self._repeat(found)
        return found

    def _repeat(self, poll: TapeEntry) -> None:
        """Let the response to a poll be sent once more, and the notifications of its task that followed."""
        id = (poll.message.get("params") or {}).get("taskId")
        for entry in self.entries[self.entries.index(poll) :]:
            is_status = str(entry.message.get("method")).startswith("notifications/tasks")
            is_same = is_status and entry.message["params"].get("taskId") == id
            if entry.request is poll or (entry.sender == "server" and is_same):
                entry.is_done = False

    def _pass_over(self, probe: TapeEntry) -> None:
        """Leave out a probe: a client that knows the era of its server sends none."""
        for entry in self.entries:
            if probe in (entry, entry.request):
                entry.is_done = True

    def _requests(self) -> Iterator[TapeEntry]:
        return (
            entry
            for entry in self.entries
            if entry.sender == "client" and "method" in entry.message and "id" in entry.message
        )

    def _in_flight_with(self, first: TapeEntry) -> list[TapeEntry]:
        """Return the requests that were sent before the response to the first one."""
        found = []
        for entry in self.entries[self.entries.index(first) :]:
            if entry.request is first:
                break
            found.append(entry)
        return found

    def _note_token(self, recorded: Message, played: Message) -> None:
        before, now = (_progress_token(message) for message in (recorded, played))
        if before is not None and now is not None:
            self._ids["token", before] = now

    def _mark(self, message: Message) -> None:
        """Mark the recorded notification or answer of the client that this message stands for, if there is one."""
        for entry in self.entries:
            recorded = entry.message
            is_same = recorded.get("method") == message.get("method") and recorded.get("id") == message.get("id")
            if entry.sender == "client" and not entry.is_done and is_same:
                entry.is_done = True
                return

    def _due(self) -> Iterator[Message]:
        for entry in self.entries:
            if entry.sender == "server" and not entry.is_done and all(before.is_done for before in entry.after):
                entry.is_done = True
                yield self._with_ids(entry.message)

    def _with_ids(self, message: Message) -> Message:
        if "method" not in message:
            return {**message, "id": self._ids.get(("id", _hashable(message.get("id"))), message.get("id"))}
        params = message.get("params")
        if isinstance(params, dict):
            changed = dict(params)
            for name, kind in (("progressToken", "token"), ("requestId", "id")):
                if name in params:
                    changed[name] = self._ids.get((kind, _hashable(params[name])), params[name])
            acknowledged, meta = params.get("notifications"), params.get("_meta")
            if isinstance(acknowledged, dict):
                changed["notifications"] = {key: value for key, value in acknowledged.items() if key != "taskIds"}
            if isinstance(meta, dict) and types.SUBSCRIPTION_ID in meta:
                id = meta[types.SUBSCRIPTION_ID]
                changed["_meta"] = {**meta, types.SUBSCRIPTION_ID: self._ids.get(("id", _hashable(id)), id)}
            return {**message, "params": changed}
        return message

    def _miss(self, message: Message) -> Message:
        explanation = self._explanation(message)
        self.missing.append(explanation)
        return {"jsonrpc": "2.0", "id": message["id"], "error": {"code": MISSING_CODE, "message": explanation}}

    def _explanation(self, message: Message) -> str:
        wanted, method = request_key(message), message.get("method")
        left = [entry.key for entry in self._requests() if not entry.is_done]
        known = left or [entry.key for entry in self._requests()]
        if not known:
            return f"{method} is not on the cassette, which has no request; record it again"
        same = [key for key in known if json.loads(key)["method"] == method] or known
        closest = max(same, key=lambda key: difflib.SequenceMatcher(None, key, wanted).ratio())
        state = "closest" if left else "closest, and every request was played already"
        versions = {json.loads(key).get("version") for key in (wanted, closest)} - {None}
        hint = f"\nThe versions differ: {' and '.join(sorted(versions))}" if len(versions) > 1 else ""
        difference = "\n".join(
            difflib.unified_diff(closest.splitlines(), wanted.splitlines(), "recorded", "sent", "", "")
        )
        return f"{method} is not on the cassette; {state}:\n{difference[:MAX_SHOWN] or closest[:MAX_SHOWN]}{hint}"


def _settle(requests: Iterable[TapeEntry], question: TapeEntry, answer: TapeEntry) -> None:
    """Note an answer of the client for the request because of which the server asked."""
    for request in requests:
        if any(before in request.settled for before in question.after):
            request.settled.append(answer)


def _is_probe(entry: TapeEntry) -> bool:
    return bool(entry.message["method"] == "server/discover")


def _progress_token(message: Message) -> Any:
    meta = (message.get("params") or {}).get("_meta")
    return meta.get("progressToken") if isinstance(meta, dict) else None


def _reported_token(message: Message) -> Any:
    """Return the token of a progress notification; no other message has a token that a request has."""
    params = message.get("params") if message.get("method") == "notifications/progress" else None
    return _hashable(params.get("progressToken")) if isinstance(params, dict) else ()


def _hashable(id: Any) -> Any:
    return id if isinstance(id, int | str) else repr(id)
