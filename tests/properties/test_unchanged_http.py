"""A conversation over HTTP through a proxy is the same on the short way and on the plain way."""

import asyncio
import contextlib
import json
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from properties.test_proxy import DEADLINE, requests
from properties.test_unchanged import ANSWERS, asking, capabilities, repeated
from scenarios.proxied_http import HttpFront
from scenarios.proxied_server import everything
from scenarios.raw_http import serving

PLAIN = re.compile(r"[!-~]+")
actions = st.one_of(
    st.tuples(st.just("ask"), requests | asking | repeated),
    st.tuples(st.just("ask in pieces"), requests | asking),
    st.tuples(st.just("ask together"), requests),
    st.tuples(st.just("cancel"), st.none()),
)


class Conversation:
    """A client that says everything to a proxy over HTTP, and notes what it hears and what the target hears."""

    def __init__(self, declared, *, passes, is_stateless):
        self._declared, self._passes, self._is_stateless = declared, passes, is_stateless
        self.heard, self.reached = [], []

    async def run(self, wanted):
        async with (
            asyncio.timeout(DEADLINE),
            serving(self._recorded(everything().asgi())) as url,
            HttpFront(url, passes=self._passes, is_stateless=self._is_stateless) as self._front,
        ):
            await self._front.begin(self._declared)
            for how, asked in wanted:
                if how != "cancel":
                    await self._say(how, *asked)
                elif not self._is_stateless:
                    await self._cancel()
        return self.heard, sorted(self.reached)

    def _recorded(self, app):
        """Note what is posted to an application: the method and the parameters but for ids, which each way chooses."""

        async def recorded(scope, receive, send):
            pieces = []

            async def receive_noting():
                message = await receive()
                pieces.append(message.get("body", b""))
                if message["type"] == "http.request" and not message.get("more_body") and any(pieces):
                    self._note(json.loads(b"".join(pieces)))
                    pieces.clear()
                return message

            await app(scope, receive_noting, send)

        return recorded

    def _note(self, message):
        params = message.get("params") or {}
        meta = params.get("_meta") if isinstance(params, dict) else None
        if isinstance(meta, dict):
            meta.pop("progressToken", None)
        if isinstance(params, dict):
            params.pop("requestId", None)
        self.reached.append(json.dumps([message.get("method"), params], sort_keys=True))

    async def _say(self, how, method, params, meta):
        if method in ("initialize", "resources/subscribe", "subscriptions/listen"):
            return  # what comes later would depend on the time
        if self._is_stateless and not PLAIN.fullmatch(method):
            return  # no header can name it
        message = self._front.request(method, {**params, "_meta": meta} if meta else params)
        data = self._front.encoded(message)
        if how == "ask together":
            data += self._front.encoded(self._front.request("acme/add", {"a": 1, "b": 2}))
        middle = len(data) // 2 if how == "ask in pieces" else len(data)
        reader, writer = await self._front.connect()
        with contextlib.closing(writer):
            for piece in filter(None, (data[:middle], data[middle:])):
                writer.write(piece)
                await writer.drain()
            for _ in range(2 if how == "ask together" else 1):
                status, headers, messages = (await self._front.read(reader, self._hear)).said
                if any("requestState" in one for one in messages):
                    headers.pop("content-length", None)
                self.heard.append((status, headers, list(map(without_random, messages))))

    async def _hear(self, data):
        """Answer what the target asks during a call."""
        message = json.loads(data)
        if "method" in message and "id" in message:
            await self._front.post({"jsonrpc": "2.0", "id": message["id"], "result": ANSWERS[message["method"]]})

    async def _cancel(self):
        message = self._front.request("tools/call", {"name": "wait", "arguments": {}, "_meta": {"progressToken": "t"}})
        reader, writer = await self._front.connect()
        with contextlib.closing(writer):
            writer.write(self._front.encoded(message))
            await reader.readuntil(b'"progress":1')
            given = {"requestId": message["id"], "reason": "late"}
            told = await self._front.post({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": given})
            rest = await reader.readuntil(b"0\r\n\r\n")
            self.heard.append((told.status, b"data: {" in rest))


def without_random(text):
    """Return a message without the id that a question has, which each session chooses, and without sealed state."""
    message = json.loads(text)
    if isinstance(message.get("result"), dict) and "requestState" in message["result"]:
        return {**message, "result": {**message["result"], "requestState": "sealed"}}
    if "method" not in message or "id" not in message:
        return text
    return {key: value for key, value in message.items() if key != "id"}


@pytest.mark.parametrize("is_stateless", [False, True])
@given(capabilities, st.lists(actions, min_size=1, max_size=6))
@settings(max_examples=25, deadline=None)
def test_over_http_the_short_way_says_what_the_plain_way_says(is_stateless, declared, wanted):
    async def both():
        short = await Conversation(declared, passes=True, is_stateless=is_stateless).run(wanted)
        return short, await Conversation(declared, passes=False, is_stateless=is_stateless).run(wanted)

    short, plain = asyncio.run(both())
    for one, other in zip(short, plain, strict=True):
        assert one == other
