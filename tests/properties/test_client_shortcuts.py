"""The shortcuts of a client's connection do what the plain ways do."""

import asyncio

from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman import types
from dragoman.client.connect.connection import _SENT, Options, ServerConnection, _Begun
from dragoman.protocol import jsonrpc
from dragoman.protocol.versions import VERSIONS
from properties.programs import Program, act, actions, both, ended, programs
from unit.client.connect.test_connection import Host, Link

METHODS = ("tools/call", "tools/list", "prompts/get", "resources/read", "ping")


@given(programs, st.lists(actions, max_size=6))
@settings(max_examples=300, deadline=None)
def test_a_coroutine_that_was_begun_is_awaited_like_any_other(program, script):
    async def logs(is_begun):
        running = Program(program)

        async def run():
            if not is_begun:
                return await running.run()
            steps = running.run().__await__()
            awaited = next(steps, _SENT)
            return "done" if awaited is _SENT else await _Begun(steps, awaited)

        task = asyncio.create_task(run())
        await asyncio.sleep(0)
        await act([running], script)
        logged = await ended([running])
        (outcome,) = await asyncio.gather(task, return_exceptions=True)
        return logged, repr(outcome)

    plain, begun = both(logs)
    assert begun == plain


texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=10)
metas = st.none() | st.dictionaries(texts, st.integers() | texts, max_size=2)


@given(
    st.sampled_from(VERSIONS), st.sampled_from(METHODS), texts, st.integers(0, 10**15), metas, st.none() | texts, texts
)
@settings(max_examples=200, deadline=None)
def test_meta_is_the_same_spliced_or_encoded(version, method, name, id, meta, token, title):
    async def compare():
        host = Host()
        host.info = types.Implementation(name, "1", title=title)
        connection = ServerConnection(Link(), host)
        connection.speak(version)
        made = connection._meta(method, id, Options(meta=meta, progress_token=token))
        plain = {**(meta or {}), **connection._introduction(version)} if version.stateless else dict(meta or {})
        if method in ("tools/call", "prompts/get", "resources/read"):
            plain["progressToken"] = id if token is None else token
        assert jsonrpc.encode(made) == jsonrpc.encode(plain)

    asyncio.run(compare())
