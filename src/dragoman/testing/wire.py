"""`WirePeer`: a client for tests that exchanges raw JSON-RPC messages with a server, without a transport."""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import Any, Literal

import msgspec

from dragoman import types
from dragoman.protocol import lines
from dragoman.protocol.versions import LATEST_HANDSHAKE, LATEST_STATELESS, Version, find_version
from dragoman.server.server import Server

Era = Literal["handshake", "stateless", "none"]


class WirePeer:
    """The client's side of a connection to a server; a test sends and receives single messages.

    Example:
        async with WirePeer(server, era="stateless") as peer:
            response = await peer.request("tools/call", {"name": "add", "arguments": {"a": 1, "b": 2}})
            assert response["result"]["content"][0]["text"] == "3"

    `era` is "handshake", "stateless", the name of a protocol version, or "none" for a peer that sends no version and no
    capabilities. `capabilities` are those of the client. `timeout` is the number of seconds that `response` and
    `receive` wait. `received` holds the server's requests and notifications, and responses that match no request of the
    peer. The responses of a batch are received one by one.

    Raises:
        ValueError: there is no such era or protocol version.
    """

    def __init__(
        self,
        server: Server,
        era: Era | str = "handshake",
        *,
        capabilities: types.Json | None = None,
        timeout: float = 10,
    ) -> None:
        self.version = _version(era)
        self.received: list[types.Json] = []
        self._capabilities = capabilities or {}
        self._timeout = timeout
        self._serving = server.serving()
        self._connection = server.connect(self._receive)
        self._waiting: dict[Any, asyncio.Future[types.Json]] = {}
        self._arrived = asyncio.Event()
        self._last_id = 0

    def __repr__(self) -> str:
        version = "of no version" if self.version is None else self.version.name
        return f"<WirePeer {version}: {len(self.received)} messages received>"

    async def __aenter__(self) -> WirePeer:
        await self._serving.__aenter__()
        if self.version is not None and not self.version.stateless:
            introduction = {
                "protocolVersion": self.version.name,
                "capabilities": self._capabilities,
                "clientInfo": {"name": "wire peer", "version": "1"},
            }
            self.initialized = await self.request("initialize", introduction)
            self.notify("notifications/initialized")
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._connection.receive_end()
        self._connection.close()
        try:
            await asyncio.wait_for(self._connection.drain(), self._timeout)
        finally:
            await self._serving.__aexit__(None, None, None)

    async def request(self, method: str, params: types.Json | None = None, *, id: object = None) -> types.Json:
        """Send a request, wait for its response, and return the complete message of the response."""
        number = self.start(method, params, id=id)
        return await self.response(number)

    def start(self, method: str, params: types.Json | None = None, *, id: object = None) -> Any:
        """Send a request, and return its id without waiting for the response."""
        self._last_id += 1
        number = self._last_id if id is None else id
        self._waiting[number] = asyncio.get_running_loop().create_future()
        message: types.Json = {"jsonrpc": "2.0", "id": number, "method": method}
        if params is not None or self._is_stateless:
            message["params"] = self._stamped(params or {})
        self.send(message)
        return number

    async def response(self, id: object) -> types.Json:
        """Wait for the response to a request of `start`, and return it.

        Raises:
            TimeoutError: the server did not answer in time.
        """
        return await asyncio.wait_for(self._waiting[id], self._timeout)

    def notify(self, method: str, params: types.Json | None = None) -> None:
        """Send a notification."""
        self.send({"jsonrpc": "2.0", "method": method, **({} if params is None else {"params": params})})

    def answer(self, id: object, result: object = None, *, error: types.Json | None = None) -> None:
        """Answer a request of the server with a result or an error."""
        self.send({"jsonrpc": "2.0", "id": id, **({"result": result} if error is None else {"error": error})})

    def send(self, message: object) -> None:
        """Send any JSON value as a message, or bytes as one line or several."""
        data = message if isinstance(message, bytes) else msgspec.json.encode(message)
        self._connection.receive(data if data.endswith(b"\n") else lines.encode(data))

    async def receive(self, method: str | None = None) -> types.Json:
        """Wait for a message that is not a response, remove it from `received`, and return it.

        `method` limits the wait to messages of one method.

        Raises:
            TimeoutError: no such message arrived in time.
        """
        async with asyncio.timeout(self._timeout):
            while True:
                for index, message in enumerate(self.received):
                    if method is None or message.get("method") == method:
                        return self.received.pop(index)
                self._arrived.clear()
                await self._arrived.wait()

    @property
    def _is_stateless(self) -> bool:
        return self.version is not None and self.version.stateless

    def _stamped(self, params: types.Json) -> types.Json:
        if not self._is_stateless or self.version is None:
            return params
        envelope = {types.PROTOCOL_VERSION: self.version.name, types.CLIENT_CAPABILITIES: self._capabilities}
        return {**params, "_meta": {**envelope, **params.get("_meta", {})}}

    def _receive(self, data: bytes) -> None:
        message = msgspec.json.decode(data)
        for part in message if isinstance(message, list) else [message]:
            self._receive_message(part)

    def _receive_message(self, message: types.Json) -> None:
        waiting = self._waiting.get(message.get("id")) if "method" not in message else None
        if waiting is not None and not waiting.done():
            waiting.set_result(message)
        else:
            self.received.append(message)
            self._arrived.set()


def _version(era: str) -> Version | None:
    if era == "none":
        return None
    version = {"handshake": LATEST_HANDSHAKE, "stateless": LATEST_STATELESS}.get(era) or find_version(era)
    if version is None:
        raise ValueError(f"There is no era or protocol version {era!r}")
    return version
