"""A conversation through a proxy is the same on the short way and on the plain way."""

import asyncio
import json

from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman import Server
from properties.test_proxy import DEADLINE, INFO, VERSIONS, requests, stateless_meta
from scenarios.proxied_server import everything

ANSWERS = {
    "elicitation/create": {"action": "accept", "content": {"value": "x"}},
    "roots/list": {"roots": [{"uri": "file:///project"}]},
    "sampling/createMessage": {"role": "assistant", "content": {"type": "text", "text": "y"}, "model": "m"},
}
LATE = ("changed", '"cancelled"', "resources/updated")
"""What is told of changes and of ended calls may come after the last answer."""
asking = st.sampled_from(["ask", "roots", "sample", "steps", "client"]).map(
    lambda name: ("tools/call", {"name": name, "arguments": {"question": "Who?"} if name == "ask" else {}}, {})
)
repeated = st.text(max_size=5).map(
    lambda text: ("tools/call", {"name": "add", "arguments": {"a": 1, "b": 2}, "x": "é" * 40_000 + text}, {})
)
said = requests | asking | repeated
actions = st.one_of(
    st.tuples(st.just("ask"), st.tuples(said)),
    st.tuples(st.just("ask at once"), st.tuples(said, said)),
    st.tuples(st.just("ask in pieces"), st.tuples(said)),
    st.tuples(st.just("cancel"), st.just(())),
)
capabilities = st.sampled_from([{}, {"elicitation": {}, "sampling": {}, "roots": {}}])


class Conversation:
    """A client that says everything to a proxy, and notes what it hears and what the target hears."""

    def __init__(self, version, declared, *, passes):
        self.version, self.declared = version, declared
        self.reached, self.heard = [], []
        self._changed = asyncio.Event()
        self._id = 0
        target = everything()
        connect = target.connect

        def recorded(sink):
            connection = connect(sink)
            receive = connection.receive_message

            def receive_message(data):
                self._note(self.reached, json.loads(data))
                receive(data)

            connection.receive_message = receive_message
            return connection

        target.connect = recorded
        self.proxy = Server.proxy(target)
        if not passes:
            self.proxy.passing = None

    def _note(self, messages, message):
        messages.append(message)
        self._changed.set()

    def _hear(self, data):
        message = json.loads(data)
        self._note(self.heard, message)
        if "method" in message and "id" in message:
            answer = {"jsonrpc": "2.0", "id": message["id"], "result": ANSWERS[message["method"]]}
            asyncio.get_running_loop().call_soon(self._connection.receive, json.dumps(answer).encode() + b"\n")

    async def _until(self, is_true):
        while not is_true():
            self._changed.clear()
            await self._changed.wait()

    def _answered(self, id):
        return any(message.get("id") == id and "method" not in message for message in self.heard)

    def _request(self, method, params, meta):
        self._id += 1
        whole = {**meta, **(stateless_meta(self.version) if self.is_stateless else {})}
        if self.is_stateless:
            whole["io.modelcontextprotocol/clientCapabilities"] = self.declared
        params = {**params, "_meta": whole} if whole else params
        request = {"jsonrpc": "2.0", "id": self._id, "method": method, "params": params}
        return self._id, json.dumps(request).encode() + b"\n"

    @property
    def is_stateless(self):
        return self.version == VERSIONS[-1]

    async def run(self, wanted):
        async with self.proxy.serving(), asyncio.timeout(DEADLINE):
            self._connection = self.proxy.connect(self._hear)
            try:
                if not self.is_stateless:
                    hello = {"protocolVersion": self.version, "capabilities": self.declared, "clientInfo": INFO}
                    await self._say("ask", (("initialize", hello, {}),))
                    self._connection.receive(b'{"jsonrpc":"2.0","method":"notifications/initialized"}\n')
                for how, asked in wanted:
                    await (self._cancel() if how == "cancel" else self._say(how, asked))
            finally:
                self._connection.close()
        return self._outcome()

    async def _say(self, how, asked):
        built = [self._request(*one) for one in asked]
        data = b"".join(line for _, line in built)
        middle = len(data) // 2 if how == "ask in pieces" else len(data)
        self._connection.receive(data[:middle])
        if data[middle:]:
            self._connection.receive(data[middle:])
        for id, _ in built:
            await self._until(lambda id=id: self._answered(id))

    async def _cancel(self):
        """Cancel a call that the target serves, and use its id for another request meanwhile."""
        id, line = self._request(
            "tools/call", {"name": "wait", "arguments": {}}, {"progressToken": f"token {self._id}"}
        )
        before = len(self.heard)
        self._connection.receive(line)
        await self._until(lambda: any("progress" in str(one.get("method")) for one in self.heard[before:]))
        self._connection.receive(b'{"jsonrpc":"2.0","id":%d,"method":"acme/add","params":{"a":1,"b":2}}\n' % id)
        count = len(self._cancellations())
        given = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id, "reason": "late"}}
        self._connection.receive(json.dumps(given).encode() + b"\n")
        await self._until(lambda: len(self._cancellations()) > count)

    def _cancellations(self):
        return [one for one in self.reached if one.get("method") == "notifications/cancelled"]

    def _outcome(self):
        answers = {one["id"]: one for one in self.heard if "id" in one and "method" not in one}
        others = sorted(json.dumps(one, sort_keys=True) for one in self.heard if "method" in one)
        reached = [json.dumps(one, sort_keys=True) for one in self.reached]
        return answers, [one for one in others if not any(late in one for late in LATE)], sorted(reached)


@given(st.sampled_from(VERSIONS), capabilities, st.lists(actions, min_size=1, max_size=6))
@settings(max_examples=60, deadline=None)
def test_a_conversation_on_the_short_way_is_the_one_on_the_plain_way(version, declared, wanted):
    async def both():
        short = await Conversation(version, declared, passes=True).run(wanted)
        return short, await Conversation(version, declared, passes=False).run(wanted)

    short, plain = asyncio.run(both())
    for one, other in zip(short, plain, strict=True):
        assert one == other
