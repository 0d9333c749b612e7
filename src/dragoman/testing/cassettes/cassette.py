"""`cassette`: record the conversation of a client with a server once, and play it back in tests without the server."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Iterable, Sequence
from os import PathLike
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal

from dragoman.compose.masking import Masks
from dragoman.testing.cassettes.tape import FORMAT, Message, Order, Tape

if TYPE_CHECKING:
    from dragoman.client.connect.endpoint import Target
    from dragoman.server.server import Server
    from dragoman.transports.contract import Receive, Transport

Recording = Literal["once", "all", "none"]
is_recording = False
"""Whether every cassette is recorded anew; the option `--dragoman-record` of pytest sets it."""


def cassette(
    path: str | PathLike[str],
    target: Target | None = None,
    *,
    record: Recording = "once",
    order: Order = "recorded",
    mask: Iterable[str] = (),
) -> Cassette:
    """Return a cassette, which is the target of a client.

    Example:
        with cassette("weather.jsonl", "https://api.example.com/mcp") as tape, Client(tape) as client:
            assert client.call_tool("forecast", {"city": "Oslo"}).text == "Rain"

    If the file is missing, the conversation with `target` is recorded. Otherwise it is played back, and `target` is
    not used.

    Args:
        path: the file, which is written as JSON Lines.
        target: the server to record: any target of a client.
        record: `once` records if the file is missing, `all` always, `none` never.
        order: `recorded` requires the order of the recording, `any` finds requests by method and arguments.
        mask: names of members whose values are masked, besides those that are masked always.

    Raises:
        SessionFileError: the file cannot be read, or it is missing and there is no target.
        AssertionError: at the end of the `with` block: requests were not on the cassette.
    """
    return Cassette(Path(path), target, record=record, order=order, mask=mask)


class Cassette:
    """A recorded conversation: a transport for clients, and a check for servers; see `cassette`."""

    def __init__(
        self, path: Path, target: Target | None, *, record: Recording, order: Order, mask: Iterable[str]
    ) -> None:
        is_wanted = record == "all" or (is_recording and record != "none" and target is not None)
        self.is_recording = is_wanted or (record == "once" and target is not None and not path.exists())
        self.path = path
        self._masks = Masks(mask)
        self._messages: list[tuple[str, Message]] = []
        self._tape = None if self.is_recording else Tape.load(path, order)
        self._target = target
        self._inner: Transport | None = None
        self._receive: Receive | None = None

    def __repr__(self) -> str:
        return f"<Cassette {str(self.path)!r} {'recording' if self.is_recording else 'playing'}>"

    def __enter__(self) -> Cassette:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.is_recording:
            if error is None:
                write_cassette(self.path, self._messages, self._masks)
            return
        assert self._tape is not None
        if self._tape.missing and error is None:
            raise AssertionError("\n\n".join(self._tape.missing))

    async def open(self, receive: Receive, closed: Callable[[Exception | None], None]) -> None:
        """Begin to record or to play."""
        self._receive = receive
        if self.is_recording:
            self._inner = _transport_to(self._target)
            await self._inner.open(self._received, closed)

    async def send(self, message: bytes) -> None:
        """Send a message of the client to the server, or to the tape."""
        assert self._receive is not None
        if self._inner is not None:
            self._note("client", message)
            await self._inner.send(message)
            return
        assert self._tape is not None
        for one in _each(json.loads(self._masks.message(message))):  # as it was masked when it was recorded
            for answer in self._tape.play(one):
                received = self._receive(json.dumps(answer, ensure_ascii=False, separators=(",", ":")).encode())
                if received is not None:
                    await received

    async def close(self) -> None:
        """End the connection."""
        if self._inner is not None:
            await self._inner.close()

    def _received(self, message: bytes) -> Awaitable[None] | None:
        self._note("server", message)
        assert self._receive is not None
        return self._receive(message)

    def _note(self, sender: str, message: bytes) -> None:
        self._messages.extend((sender, one) for one in _each(json.loads(message)))

    async def check(self, server: Server, *, ignore: Sequence[str] = ("serverInfo",)) -> None:
        """Play the client's part to a server, and compare its results with the recorded ones.

        Example:
            await cassette("weather.jsonl").check(server)

        Args:
            server: the server to check.
            ignore: members of results that are not compared.

        Raises:
            AssertionError: a result differs; the message shows the difference.
        """
        from dragoman.testing.cassettes.checking import check_server

        await check_server(Tape.load(self.path), server, ignore)


def cassette_bytes(messages: Iterable[tuple[str, Message]], masks: Masks | None = None) -> bytes:
    """Return the messages of a conversation as the content of a cassette, with their secrets masked."""
    masks = masks or Masks()
    lines = [json.dumps({"cassette": FORMAT}).encode()]
    for sender, message in messages:
        text = json.dumps({"from": sender, "message": message}, ensure_ascii=False)
        lines.append(masks.message(text.encode("utf-8", "surrogatepass")))
    return b"\n".join([*lines, b""])


def write_cassette(path: Path, messages: Iterable[tuple[str, Message]], masks: Masks | None = None) -> None:
    """Write the messages of a conversation as a cassette, with their secrets masked."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(cassette_bytes(messages, masks))


def session_messages(path: Path) -> list[tuple[str, Message]]:
    """Return the messages of a session file, for `write_cassette`.

    Raises:
        SessionFileError: the file cannot be read, or a message of it was cut.
    """
    from dragoman.compose.session_file import SessionFile
    from dragoman.errors import SessionFileError

    found: list[tuple[str, Message]] = []
    for record in SessionFile(path).records():
        if record.kind == "message":
            message = record.message()
            if message is None:
                raise SessionFileError(f"{path}: message {record.number} was cut, so it cannot be played back")
            # Logins over HTTP have bodies of JSON that are no messages.
            found.extend((record.sender, one) for one in _each(message) if _is_rpc(one))
    return found


def _is_rpc(message: Any) -> bool:
    return isinstance(message, dict) and message.get("jsonrpc") == "2.0"


def _each(message: Any) -> list[Message]:
    return message if isinstance(message, list) else [message]


def _transport_to(target: Any) -> Transport:
    from dragoman.client.connect.credentials import Credentials
    from dragoman.client.connect.endpoint import EndpointOptions, endpoint_of
    from dragoman.forward.passthrough import LIMITS, Passthrough

    return Passthrough(endpoint_of(target, EndpointOptions(Credentials(), limits=LIMITS)))
