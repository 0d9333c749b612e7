"""The parts of a server, made and used without a `Server`."""

import asyncio
import json

from dragoman import tool
from dragoman.protocol import jsonrpc
from dragoman.server.dispatch.dispatcher import Dispatcher
from dragoman.server.dispatch.handlers import HANDLERS
from dragoman.server.dispatch.opening import open_call
from dragoman.server.dispatch.runner import whole_answer
from dragoman.server.identity import ServerIdentity, implementation
from dragoman.server.offering import Offering
from dragoman.server.registry import Registry
from dragoman.server.request.call import NO_CHANNEL, Session
from dragoman.server.storage import Storage

SECRET = "a secret of sixteen characters"


def identity() -> ServerIdentity:
    return ServerIdentity(implementation("parts", "1", ()))


@tool
def add(a: int, b: int) -> int:
    return a + b


def test_a_dispatcher_serves_what_its_registry_has():
    registry = Registry()
    registry.add_tool(add)
    described = identity()
    dispatcher = Dispatcher(described, registry, Offering(described, registry), Storage(), handlers=HANDLERS)
    dispatcher.derive()
    body = b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"add","arguments":{"a":1,"b":2}}}'
    message = jsonrpc.decode(body)

    async def answered() -> bytes:
        loop = asyncio.get_running_loop()
        return await whole_answer(open_call(message, Session(), NO_CHANNEL, dispatcher, None, loop))

    assert json.loads(asyncio.run(answered()))["result"]["content"] == [{"type": "text", "text": "3"}]
