"""The parts of a server, made and used without a `Server`."""

import asyncio
import json

import pytest

from dragoman import Configuration, DefinitionError, tool
from dragoman.protocol import jsonrpc
from dragoman.protocol.subscriptions import TOOLS_CHANGED
from dragoman.server.dispatch.dispatcher import Dispatcher
from dragoman.server.dispatch.handlers import HANDLERS
from dragoman.server.dispatch.opening import open_call
from dragoman.server.dispatch.runner import whole_answer
from dragoman.server.identity import ServerIdentity, implementation
from dragoman.server.notifier import Notifier
from dragoman.server.offering import Offering
from dragoman.server.registry import Registry
from dragoman.server.request.call import NO_CHANNEL, Session
from dragoman.server.storage import Storage
from dragoman.stores import Memory

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


def test_an_offering_derives_capabilities_from_its_registry():
    registry = Registry()
    offering = Offering(identity(), registry)
    offering.derive()
    assert offering.capabilities.completions is None
    registry.hook("on_complete", lambda ref, argument: [])
    offering.derive()
    assert offering.capabilities.completions == {}


def test_an_identity_keeps_its_values_when_a_change_is_refused():
    described, registry = identity(), Registry()
    offering = Offering(described, registry, Configuration(protocol_version="2025-03-26"))
    described.on_change = offering.require_carried
    with pytest.raises(DefinitionError, match="title"):
        described.describe(title="Parts")
    assert described.info.title is None
    described.describe(version="2")
    assert described.info.version == "2"
    assert b'"version":"2"' in bytes(described.info_bytes)


class Listener:
    def __init__(self) -> None:
        self.changes: list[str] = []

    def notify_change(self, method, subject=None, params=None):
        self.changes.append(method)
        return True


def test_a_notifier_tells_whether_a_listener_gets_a_change_and_reports_a_listener_that_fails():
    reported: list[BaseException] = []
    notifier = Notifier(Offering(identity(), Registry()), lambda error, call, info: reported.append(error))
    assert notifier.notify_change(TOOLS_CHANGED) is False
    listener, broken = Listener(), Listener()
    broken.notify_change = None
    notifier.add(listener)
    notifier.add(broken)
    assert notifier.notify_change(TOOLS_CHANGED) is True
    assert listener.changes == [TOOLS_CHANGED]
    assert [type(error) for error in reported] == [TypeError]


async def test_a_storage_that_was_never_used_closes_nothing():
    engine = Memory()
    storage = Storage(engine, SECRET)
    await storage.close()
    assert "key_ring" not in vars(storage)
    assert await storage.store.state("carts").get("mine") is None
    await storage.close()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"engine": "redis://localhost"}, "store must be a store"),
        ({"state_key": "principal"}, "state_key must be a function"),
        ({"secret": "short"}, "secret"),
    ],
)
def test_a_storage_refuses_what_cannot_be_used(options, message):
    with pytest.raises(DefinitionError, match=message):
        Storage(**options)
