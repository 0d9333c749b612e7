"""The shortcuts of a client's connection do what the plain ways do."""

import asyncio
from contextlib import suppress

from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman import types
from dragoman.client.connect.connection import ServerConnection
from dragoman.client.hear.deliveries import Deliveries
from dragoman.client.options import RequestOptions
from dragoman.protocol import jsonrpc
from dragoman.protocol.versions import VERSIONS
from dragoman.runtime.callables import invoke
from unit.client.connect.test_connection import Link, Owner

METHODS = ("tools/call", "tools/list", "prompts/get", "resources/read", "ping")


texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=10)
metas = st.none() | st.dictionaries(texts, st.integers() | texts, max_size=2)


@given(
    st.sampled_from(VERSIONS), st.sampled_from(METHODS), texts, st.integers(0, 10**15), metas, st.none() | texts, texts
)
@settings(max_examples=200, deadline=None)
def test_meta_is_the_same_spliced_or_encoded(version, method, name, id, meta, token, title):
    async def compare():
        owner = Owner()
        owner.info = types.Implementation(name, "1", title=title)
        connection = ServerConnection(Link(), owner)
        connection.use_version(version)
        made = connection._meta(method, id, RequestOptions(meta=meta, progress_token=token))
        plain = {**(meta or {}), **connection._stateless_envelope(version)} if version.stateless else dict(meta or {})
        if method in ("tools/call", "prompts/get", "resources/read"):
            plain["progressToken"] = id if token is None else token
        assert jsonrpc.encode(made) == jsonrpc.encode(plain)

    asyncio.run(compare())


async def in_batches(function, calls):
    deliveries = Deliveries()
    for args in calls:
        deliveries.put(function, *args)
    while deliveries.queues:
        await asyncio.wait([queue.task for queue in deliveries.queues.values()])


async def one_by_one(function, calls):
    for args in calls:
        with suppress(LookupError, asyncio.CancelledError):
            await invoke(function, *args)


@given(st.lists(st.sampled_from(["returns", "raises", "cancels", "awaits", "awaits and raises"]), max_size=30))
@settings(max_examples=50, deadline=None)
def test_calls_in_one_thread_job_are_those_that_are_made_one_by_one(acts):
    def made(deliver):
        calls = []

        async def later(number, act):
            calls.append((number, "later"))
            if act == "awaits and raises":
                raise LookupError(number)

        def call(number, act):
            calls.append((number, act))
            if act == "raises":
                raise LookupError(number)
            if act == "cancels":
                raise asyncio.CancelledError
            return later(number, act) if act.startswith("awaits") else None

        asyncio.run(deliver(call, list(enumerate(acts))))
        return calls

    assert made(in_batches) == made(one_by_one)
