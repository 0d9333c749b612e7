"""Any conversation through a proxy is the direct one."""

import asyncio
import json

from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman import Server
from scenarios.proxied_server import everything

VERSIONS = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28")
DEADLINE = 60
METHODS = (
    *("tools/list", "tools/call", "prompts/list", "prompts/get", "resources/list", "resources/templates/list"),
    *("resources/read", "resources/subscribe", "resources/unsubscribe", "completion/complete", "logging/setLevel"),
    *("ping", "server/discover", "initialize", "acme/add", "acme/absent", "tasks/get", "roots/list"),
)
values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
tools = st.sampled_from(["add", "fail", "steps", "client", "change", "ask", "absent", ""])
likely = st.one_of(
    st.fixed_dictionaries({"name": tools, "arguments": st.fixed_dictionaries({"a": values, "b": values})}),
    st.fixed_dictionaries({"name": st.just("add"), "arguments": st.just({"a": 1, "b": 2})}, optional={"x": values}),
    st.fixed_dictionaries({"uri": st.sampled_from(["config://app", "users://7", "absent://", "users://"])}),
    st.fixed_dictionaries({"name": st.just("greet"), "arguments": st.just({"name": "Ada"})}),
    st.fixed_dictionaries({"level": st.sampled_from(["debug", "error", "loud"])}),
    st.fixed_dictionaries({"cursor": st.text(max_size=4)}),
    st.fixed_dictionaries({"a": st.integers(0, 9), "b": st.integers(0, 9)}),
)
requests = st.tuples(
    st.sampled_from(METHODS) | st.text(min_size=1, max_size=12),
    likely | st.dictionaries(st.text(max_size=6), values, max_size=3),
    st.dictionaries(
        st.sampled_from(["progressToken", "com.example/x", "traceparent"]), st.text(max_size=5), max_size=2
    ),
)
conversations = st.lists(requests, min_size=1, max_size=6)
INFO = {"name": "any", "version": "1"}


def stateless_meta(version):
    return {
        "io.modelcontextprotocol/protocolVersion": version,
        "io.modelcontextprotocol/clientCapabilities": {},
        "io.modelcontextprotocol/clientInfo": INFO,
        "io.modelcontextprotocol/logLevel": "debug",
    }


async def heard(server, version, conversation):
    """Say something to a server, one request after the other, and return every message that came back."""
    messages = asyncio.Queue()
    received = []
    async with server.serving(), asyncio.timeout(DEADLINE):
        connection = server.connect(messages.put_nowait)

        async def say(id, method, params):
            request = {"jsonrpc": "2.0", "id": id, "method": method, "params": params}
            connection.receive(json.dumps(request).encode() + b"\n")
            while True:
                message = json.loads(await messages.get())
                received.append(message)
                if message.get("id") == id and "method" not in message:
                    return

        try:
            is_stateless = version == VERSIONS[-1]
            if not is_stateless:
                await say("first", "initialize", {"protocolVersion": version, "capabilities": {}, "clientInfo": INFO})
                connection.receive(b'{"jsonrpc":"2.0","method":"notifications/initialized"}\n')
            for number, (method, params, meta) in enumerate(conversation):
                whole = {**meta, **(stateless_meta(version) if is_stateless else {})}
                await say(number, method, {**params, "_meta": whole} if whole else params)
        finally:
            connection.close()
    return received


def told(messages):
    """Return the answers in order, and the notifications in any order: changes may be told before or after a result."""
    answers = [message for message in messages if "id" in message]
    return answers, sorted(json.dumps(message, sort_keys=True) for message in messages if "id" not in message)


@given(st.sampled_from(VERSIONS), conversations)
@settings(max_examples=60, deadline=None)
def test_any_conversation_through_a_proxy_is_the_direct_one(version, conversation):
    async def both():
        direct = await heard(everything(), version, conversation)
        passed = await heard(Server.proxy(everything()), version, conversation)
        return told(direct), told(passed)

    (answers, notifications), (passed_answers, passed_notifications) = asyncio.run(both())
    assert passed_answers == answers
    # What is told of changes may come after the last answer; nothing else may differ.
    assert [one for one in passed_notifications if "changed" not in one] == [
        one for one in notifications if "changed" not in one
    ]
