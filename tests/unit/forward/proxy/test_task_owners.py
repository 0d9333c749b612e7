"""A task that a client began through a proxy is listed to its principal alone, and only its principal can use it."""

import asyncio
import sys
from contextlib import asynccontextmanager
from functools import partial
from hashlib import sha256

import pytest

from dragoman import AsyncClient, Server
from dragoman.errors import DragomanError, InvalidParams, RpcError, StoreUnavailable
from dragoman.forward.proxy.task_owners import TaskOwners
from dragoman.stores import Memory
from scenarios.raw_http import serving
from scenarios.task_peer import FIRST, SECOND
from scenarios.task_server import make_server

DEADLINE = 60
SECRET = "a secret of sixteen"
CREDENTIALS = {user: {"Authorization": f"Bearer {user}"} for user in ("c", "d")}
"""The users whose credentials a proxy can forward."""


def by_header(request):
    return request.headers.get("X-User")


def client_of(url, user, version):
    headers = {} if user is None else {"X-User": user, **CREDENTIALS.get(user, {})}
    return AsyncClient(url, headers=headers, protocol_version=version, tasks=True)


@asynccontextmanager
async def clients_of(version, target=None, store=None, **options):
    """Give the clients of two users and one without a name, all of one proxy."""
    proxy = Server.proxy(target or make_server(), store=store or Memory(), secret=SECRET, **options)
    async with (
        asyncio.timeout(DEADLINE),
        serving(proxy.asgi(auth=by_header)) as url,
        serving(proxy.asgi()) as open_url,
        client_of(url, "a", version) as a,
        client_of(url, "b", version) as b,
        client_of(open_url, None, version) as nobody,
    ):
        yield a, b, nobody


async def begun(client, version, tool="add", **arguments):
    given = {"name": tool, "arguments": arguments or {"a": 1, "b": 2}}
    result = await client.request("tools/call", {**given, "task": {}} if version == FIRST else given)
    return (result["task"] if version == FIRST else result)["taskId"]


@pytest.mark.parametrize("version", [FIRST, SECOND])
async def test_a_task_is_used_by_its_principal_alone(version):
    async with clients_of(version) as (a, b, nobody):
        of_a, of_nobody = await begun(a, version), await begun(nobody, version)
        assert (await a.request("tasks/get", {"taskId": of_a}))["taskId"] == of_a
        assert (await nobody.request("tasks/get", {"taskId": of_nobody}))["taskId"] == of_nobody
        methods = ["tasks/get", "tasks/cancel", "tasks/result" if version == FIRST else "tasks/update"]
        for client, id in [(b, of_a), (nobody, of_a), (a, of_nobody)]:
            for method in methods:
                with pytest.raises(InvalidParams, match="There is no such task"):
                    await client.request(method, {"taskId": id, "inputResponses": {}})


async def test_a_list_has_the_tasks_of_its_principal_alone():
    async with clients_of(FIRST) as everybody:
        ids = [[await begun(client, FIRST), await begun(client, FIRST)] for client in everybody]
        for client, own in zip(everybody, ids, strict=True):
            listed = await client.request("tasks/list", {})
            assert sorted(task["taskId"] for task in listed["tasks"]) == sorted(own)


async def test_a_restarted_proxy_knows_whose_a_task_is():
    target, store = make_server(), Memory()
    async with clients_of(FIRST, target, store) as (a, *_):
        id = await begun(a, FIRST)
    async with clients_of(FIRST, target, store) as (a, b, _):
        assert (await a.request("tasks/get", {"taskId": id}))["taskId"] == id
        with pytest.raises(RpcError):
            await b.request("tasks/get", {"taskId": id})


async def test_the_changes_of_a_task_are_heard_by_its_principal_alone():
    async with clients_of(SECOND) as (a, b, _):
        id = await begun(a, SECOND)
        for client, expected in [(a, [id]), (b, [])]:
            honoured = await client.listen(task_ids=[id])
            assert list(honoured.task_ids or ()) == expected


async def test_a_target_that_gets_the_credentials_of_the_caller_decides_by_itself():
    proxy = partial(Server.proxy, forward_credentials=True, store=Memory(), secret=SECRET)
    async with (
        asyncio.timeout(DEADLINE),
        serving(make_server().asgi()) as inner,
        serving(proxy(inner).asgi(auth=by_header)) as url,
        client_of(url, "c", FIRST) as c,
        client_of(url, "d", FIRST) as d,
    ):
        id = await begun(c, FIRST)
        assert (await d.request("tasks/get", {"taskId": id}))["taskId"] == id


async def test_a_caller_who_has_no_credentials_to_forward_has_its_tasks_for_itself():
    async with (
        serving(make_server().asgi()) as inner,
        clients_of(FIRST, inner, forward_credentials=True) as (a, b, _),
    ):
        id = await begun(a, FIRST)
        assert (await a.request("tasks/get", {"taskId": id}))["taskId"] == id
        with pytest.raises(InvalidParams):
            await b.request("tasks/get", {"taskId": id})


LAX = """
import json, sys

def send(text):
    print('{"jsonrpc": "2.0", ' + text + "}", flush=True)

methods = []
for line in sys.stdin:
    message = json.loads(line)
    method, id = message.get("method"), json.dumps(message.get("id"))
    methods.append(method)
    if method == "initialize":
        declared = '"capabilities": {"tools": {}, "tasks": {}}, "serverInfo": {"name": "lax", "version": "1"}'
        send('"id": %s, "result": {"protocolVersion": "2025-11-25", %s}' % (id, declared))
    elif method == "tools/call":
        given = message["params"]["arguments"]
        send('"id": %s, "result": {"task": {"taskId": "%s", "ttl": %s}}' % (id, given["id"], given["ttl"]))
    elif message.get("id") is not None:
        send('"id": %s, "result": {"methods": %s}' % (id, json.dumps(methods)))
"""


async def lax_task(client, id, ttl="60000"):
    await client.request("tools/call", {"name": "begin", "task": {}, "arguments": {"id": id, "ttl": ttl}})


async def test_an_id_that_a_lax_target_would_accept_is_refused():
    async with clients_of(FIRST, [sys.executable, "-c", LAX]) as (a, b, _):
        await lax_task(a, "of a")
        await lax_task(b, "of b")
        for params in [
            {"taskId": ["of a"]},
            {"taskId": {}},
            {},
            {"TASKID": "of a"},
            {"taskId": "of b", "taskid": "of a"},
            {"taskId": "of b", "ta\u017f\u212aId": "of a"},
        ]:
            with pytest.raises(InvalidParams):
                await b.request("tasks/get", params)


async def test_a_notification_cannot_cancel_the_task_of_another_principal():
    async with clients_of(FIRST, [sys.executable, "-c", LAX]) as (a, b, _):
        await lax_task(a, "of a")
        for client in (b, a):
            await client.notify("tasks/cancel", {"taskId": "of a"})
        seen = []
        while "tasks/cancel" not in seen:
            await b.request("target/methods", {})
            seen = (await a.request("target/methods", {}))["methods"]
        assert seen.count("tasks/cancel") == 1


@pytest.mark.parametrize("ttl", ["1" + "0" * 400, "1e300", '"a minute"', "-1", "0", "null", "true"])
async def test_a_task_is_recorded_however_long_the_target_says_that_it_lasts(ttl):
    async with clients_of(FIRST, [sys.executable, "-c", LAX]) as (a, b, nobody):
        await lax_task(a, "of a", ttl)
        assert await a.request("tasks/get", {"taskId": "of a"})
        for client in (b, nobody):
            with pytest.raises(InvalidParams):
                await client.request("tasks/get", {"taskId": "of a"})


async def test_an_expired_task_whose_id_a_target_uses_again_belongs_to_the_new_principal():
    proxy = Server.proxy([sys.executable, "-c", LAX], store=Memory(), secret=SECRET)
    async with (
        asyncio.timeout(DEADLINE),
        serving(proxy.asgi(auth=by_header)) as url,
        client_of(url, "a", FIRST) as a,
        client_of(url, "b", FIRST) as b,
    ):
        await lax_task(a, "1")
        await proxy.store.state("tasks of a proxy\0proxy", max_values=1).delete(sha256(b"1").hexdigest())
        await lax_task(b, "1")
        assert await b.request("tasks/get", {"taskId": "1"})
        with pytest.raises(InvalidParams):
            await a.request("tasks/get", {"taskId": "1"})


async def test_task_recorded_with_another_secret_belongs_to_nobody():
    store, key = Memory(), sha256(b"1").hexdigest()
    stranger = Server("proxy", store=store, secret="another secret of sixteen")
    await stranger.store.state("tasks of a proxy\0proxy", max_values=10).set(key, b'"a"')
    async with clients_of(FIRST, [sys.executable, "-c", LAX], store) as (a, b, nobody):
        for client in (a, b, nobody):
            with pytest.raises(InvalidParams):
                await client.request("tasks/get", {"taskId": "1"})


async def test_other_spellings_of_what_is_listened_to_are_refused():
    async with clients_of(SECOND) as (a, b, _):
        id = await begun(a, SECOND)
        for params in [
            {"notifications": {}, "Notifications": {"taskIds": [id]}},
            {"notifications": {"taskids": [id]}},
        ]:
            with pytest.raises(InvalidParams, match=r"exactly|only in case"):
                await b.request("subscriptions/listen", params)


class AwayState:
    async def get(self, key):
        raise StoreUnavailable("The store is away")

    async def compare_and_set(self, *given, **options):
        raise StoreUnavailable("The store is away")


async def test_without_the_store_a_task_is_served_where_it_began_and_to_nobody_else(monkeypatch):
    monkeypatch.setattr(TaskOwners, "_records", AwayState())
    async with clients_of(FIRST, [sys.executable, "-c", LAX]) as (a, b, nobody):
        await lax_task(a, "of a")
        assert await a.request("tasks/get", {"taskId": "of a"})
        for client in (b, nobody):
            with pytest.raises(InvalidParams):
                await client.request("tasks/get", {"taskId": "of a"})
        with pytest.raises(DragomanError, match="The store of this server cannot be reached"):
            await nobody.request("tasks/get", {"taskId": "of another process"})


TELLING = """
import json, sys

def send(message):
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)

for line in sys.stdin:
    message = json.loads(line)
    method, id = message.get("method"), message.get("id")
    if method == "initialize":
        declared = {"capabilities": {"tools": {}, "tasks": {}}, "serverInfo": {"name": "telling", "version": "1"}}
        send({"id": id, "result": {"protocolVersion": "2025-11-25", **declared}})
    elif method == "tools/call" and message["params"]["name"] == "begin":
        send({"id": id, "result": {"task": {"taskId": "of a", "status": "working"}}})
    elif method == "tools/call":
        for task in ("of a", "of nobody"):
            send({"method": "notifications/tasks/status", "params": {"taskId": task, "status": "completed"}})
        send({"id": id, "result": {"content": []}})
    elif id is not None:
        send({"id": id, "error": {"code": -32601, "message": "There is no such method"}})
"""


async def test_the_status_of_a_task_is_not_told_to_another_principal_on_the_same_connection():
    proxy = Server.proxy([sys.executable, "-c", TELLING], store=Memory(), secret=SECRET)
    heard = []

    def client(user):
        headers = {"X-User": user}
        return AsyncClient(url, mode="stateless", headers=headers, on_notification=lambda one: heard.append(one.params))

    async with (
        asyncio.timeout(DEADLINE),
        serving(proxy.asgi(auth=by_header)) as url,
        client("a") as a,
        client("b") as b,
    ):
        await a.request("tools/call", {"name": "begin", "task": {}})
        await b.request("tools/call", {"name": "begin", "task": {}})  # names the same task, and changes nothing
        await b.request("tools/call", {"name": "tell"})
        assert [params["taskId"] for params in heard] == ["of nobody"]
        await a.request("tools/call", {"name": "tell"})
        assert [params["taskId"] for params in heard] == ["of nobody", "of a", "of nobody"]


async def test_the_status_of_a_task_reaches_its_principal_while_others_are_connected():
    proxy = Server.proxy([sys.executable, "-c", TELLING], store=Memory(), secret=SECRET)
    heard = {"a": asyncio.Queue(), "b": asyncio.Queue()}

    def client(user):
        def hear(one):
            heard[user].put_nowait(one.params["taskId"])

        return AsyncClient(url, protocol_version=FIRST, headers={"X-User": user}, on_notification=hear)

    async with (
        asyncio.timeout(DEADLINE),
        serving(proxy.asgi(auth=by_header)) as url,
        client("a") as a,
        client("b") as b,
    ):
        await a.request("tools/call", {"name": "begin", "task": {}})
        await b.request("tools/call", {"name": "tell"})
        assert await heard["a"].get() == "of a"
        await b.request("tools/call", {"name": "tell"})
        assert await heard["a"].get() == "of a"
        assert heard["b"].empty()
