"""Posts of an HTTP client, as its unit tests make them."""

import asyncio

from dragoman.protocol.jsonrpc import Limits
from dragoman.runtime.network import Network
from dragoman.transports.web.http import HttpClient
from scenarios.http_peer import DEADLINE
from scenarios.raw_http import RawServer, Sent

HEADERS = {"Content-Type": "application/json"}
ANSWER = {"jsonrpc": "2.0", "id": 1, "result": {}}


def always(said: bytes):
    async def script(request: Sent, writer: asyncio.StreamWriter) -> bytes:
        return said

    return script


class Receiver:
    """What came back; answered when the answer did."""

    def __init__(self) -> None:
        self.messages: list[bytes] = []

    def __call__(self, message: bytes) -> None:
        self.messages.append(message)

    def answered(self) -> bool:
        return any(b'"result"' in message for message in self.messages)


async def resume(last_event_id: str) -> dict[str, str]:
    return {"Last-Event-ID": last_event_id}


async def post(server: RawServer, *, limit: int = 2**22, resumes: bool = False, network: Network | None = None):
    client = HttpClient(server.url, network, Limits(limit, 128))
    received = Receiver()
    await client.open()
    try:
        async with asyncio.timeout(DEADLINE):
            answer = await client.post(
                b'{"id": 1}', HEADERS, received, answered=received.answered, resume=resume if resumes else None
            )
    finally:
        await client.close()
    return answer, received.messages
