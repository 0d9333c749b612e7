"""The verbs that explore a server: lists, requests with progress, completions, subscriptions, dialects of models."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import msgspec
from msgspec import Raw, Struct

from dragoman import types
from dragoman.client.bound import AsyncBoundTool
from dragoman.client.client import AsyncClient
from dragoman.client.results import CallResult
from dragoman.errors import Cancelled, DragomanError, InspectorError, NotFound, RpcError, ToolError
from dragoman.inspector.doctor.tools import problems
from dragoman.inspector.recording import sent_rows
from dragoman.inspector.traffic.rows import Row
from dragoman.inspector.verbs.contract import FailedVerb, PageVerbs
from dragoman.protocol.official.apps import SCHEME, tool_ui
from dragoman.runtime.tasks import is_being_cancelled

MAX_SHOWN_BYTES = 200_000
MAX_TASKS = 100
CHARACTERS_PER_TOKEN = 4
"""About how many characters of JSON make a token of a model."""
_LISTS = {
    "tools": ("tools/list", "tools", "tools"),
    "prompts": ("prompts/list", "prompts", "prompts"),
    "resources": ("resources/list", "resources", "resources"),
    "templates": ("resources/templates/list", "resourceTemplates", "resources"),
}
"""The method, the member of its result, and the capability of each list."""
_OWN_META = "io.modelcontextprotocol/"
DIALECTS: dict[str, Callable[[AsyncBoundTool], types.Json]] = {
    "openai": lambda tool: tool.to_openai(),
    "openai strict": lambda tool: tool.to_openai(strict=True),
    "anthropic": lambda tool: tool.to_anthropic(),
    "gemini": lambda tool: tool.to_gemini(),
}


class _Answered(Struct):
    result: Raw = Raw(b"null")


class ExploreVerbs(PageVerbs):
    """The verbs that explore a server."""

    def _client(self, server: str) -> AsyncClient:
        return self._inspector.server(server).client

    async def list_(self, server: str, kind: str, cursor: str | None = None) -> dict[str, Any]:
        """Return one page of a list as it is on the wire; none if the server does not declare it."""
        client = self._client(server)
        match kind:
            case "skills":
                return _page([_skill(skill) for skill in await client.skills()])
            case "tasks":
                return _page(await self._tasks(server, client))
            case "apps":
                return _page(await _apps(client))
        if kind not in _LISTS:
            raise InspectorError(f"There is no list {kind!r}; there are {', '.join(_LISTS)}, skills, tasks and apps")
        method, member, capability = _LISTS[kind]
        await client.start()
        if getattr(client.capabilities, capability) is None:
            return _page([])
        result = await client.request(method, {} if cursor is None else {"cursor": cursor})
        items = result.get(member)
        # The page shows objects; the traffic has what else a server lists.
        shown = [item for item in items if isinstance(item, dict)] if isinstance(items, list) else []
        return _page(shown, result.get("nextCursor"))

    async def _tasks(self, server: str, client: AsyncClient) -> list[dict[str, Any]]:
        """Return the tasks that the server lists, and those that its messages named: 2026-07-28 has no list."""
        found = {task.id: task for task in await client.tasks.list()}
        for id in self._inspector.traffic.spans.tasks(server)[-MAX_TASKS:]:
            if id not in found:
                with suppress(RpcError, NotFound):  # it has expired
                    found[id] = await client.tasks.get(id)
        return [_task(task) for task in found.values()]

    async def request(
        self,
        server: str,
        method: str,
        params: dict[str, Any] | None = None,
        key: str = "",
        timeout: float | None = None,
    ) -> dict[str, Any] | FailedVerb:
        """Send a request, and return its outcome; progress is pushed with the key."""
        found = self._inspector.server(server)

        async def progressed(progress: float, total: float | None, message: str | None) -> None:
            self._inspector.events.push_progress(key, server=server, progress=progress, total=total, message=message)

        client = found.client
        if key in self._inspector.requests:
            raise InspectorError(f"A request with the key {key!r} waits already")
        rows: list[Row] = []

        async def sending() -> object:
            sent_rows.set(rows)
            return await _send(client, method, dict(params or {}), timeout, progressed)

        began, task = time.perf_counter(), asyncio.get_running_loop().create_task(sending())
        self._inspector.requests[key] = task
        try:
            received = await task
        except asyncio.CancelledError:
            task.cancel()
            if is_being_cancelled():  # the page is gone
                raise
            return FailedVerb(Cancelled("The request was cancelled"), {"rows": [row.number for row in rows]})
        except DragomanError as error:
            return FailedVerb(error, {"rows": [row.number for row in rows]})
        finally:
            self._inspector.requests.pop(key, None)
            found.push_status()
        # The client may list tools besides, to compare a result with its schema.
        own = [row.number for row in rows if _is_about(row, method)]
        return self._outcome(own, (time.perf_counter() - began) * 1000, received)

    def _outcome(self, rows: list[int], milliseconds: float, received: object) -> dict[str, Any]:
        answer = self._inspector.traffic.answer_of(rows[-1]) if rows else None
        numbers = sorted({*rows, *(() if answer is None else (answer.row.number,))})
        found = {"bytes": 0, "ms": round(milliseconds, 3), "rows": numbers, "row": None, "preview": None}
        if answer is None:
            return {"result": None, "cut": False, **found}
        whole = answer.data
        if isinstance(received, CallResult) and self._inspector.traffic.spans.is_task(answer.row.span):
            whole = _encoded(received)  # a notification may have brought the result of the task
        data = answer.masks.message(whole[:MAX_SHOWN_BYTES])
        found |= {"bytes": len(whole), "row": answer.row.number}
        if len(whole) > MAX_SHOWN_BYTES:
            return {"result": None, "cut": True, **found, "preview": data.decode("utf-8", "replace")}
        return {"result": msgspec.json.decode(data, type=_Answered).result, "cut": False, **found}

    async def cancel(self, key: str) -> dict[str, Any]:
        """Cancel a request."""
        task = self._inspector.requests.get(key)
        return {"cancelled": task is not None and task.cancel()}

    async def notify(self, server: str, method: str, params: dict[str, Any] | None = None) -> dict[str, Any]:
        """Send a notification."""
        await self._client(server).notify(method, params)
        return {}

    async def complete(
        self, server: str, ref: dict[str, Any], argument: str, value: str, context: dict[str, str] | None = None
    ) -> dict[str, Any]:
        """Return completions of an argument."""
        completion = await self._client(server).complete(ref, argument, value, context)
        return {"values": completion.values, "total": completion.total, "hasMore": bool(completion.has_more)}

    async def subscribe(self, server: str, uri: str) -> dict[str, Any]:
        """Subscribe to a resource."""
        await self._client(server).subscribe(uri)
        return {"subscribed": self._client(server).subscribed_resources}

    async def unsubscribe(self, server: str, uri: str) -> dict[str, Any]:
        """End the subscription to a resource."""
        await self._client(server).unsubscribe(uri)
        return {"subscribed": self._client(server).subscribed_resources}

    async def log_level(self, server: str, level: types.LoggingLevel) -> dict[str, Any]:
        """Set the lowest level of the log messages that the server sends."""
        await self._client(server).set_log_level(level)
        return {}

    async def dialects(self, server: str, tool: str) -> dict[str, Any]:
        """Return a tool as the API of each provider gets it, with an estimate of its tokens."""
        found = await self._client(server).tool(tool)
        notes = [f"{problem}: {remedy}" for problem, remedy in problems(found.definition)]
        return {"dialects": [_dialect(name, convert(found), notes) for name, convert in DIALECTS.items()]}


def _is_about(row: Row, method: str) -> bool:
    """Tell whether a request is of a method, or about the task that the method became."""
    return row.method == method or (row.method or "").startswith("tasks/")


def _encoded(received: CallResult[Any]) -> bytes:
    """Return a result as a message has it."""
    result: dict[str, Any] = {"content": received.content, "isError": received.is_error}
    if received.has_structured:
        result["structuredContent"] = received.structured
    return msgspec.json.encode({"result": result})


def _page(items: Any, cursor: Any = None) -> dict[str, Any]:
    return {"items": items, "nextCursor": cursor if isinstance(cursor, str) else None}


def _skill(skill: Any) -> dict[str, Any]:
    return {"name": skill.name, "description": skill.description, "uri": skill.uri, "files": [*skill.files]}


def _task(task: Any) -> dict[str, Any]:
    return {
        "taskId": task.id,
        "status": task.status,
        "statusMessage": task.status_message,
        "createdAt": task.created_at,
        "lastUpdatedAt": task.last_updated_at,
    }


async def _apps(client: AsyncClient) -> list[dict[str, Any]]:
    """Return the apps that tools name, each with its tools and its resource."""
    tools: dict[str, list[str]] = {}
    for tool in await client.tools():
        uri = tool_ui(tool.meta).resource_uri
        if uri is not None and uri.startswith(SCHEME):
            tools.setdefault(uri, []).append(tool.name)
    resources = {one.uri: one for one in await client.resources()} if tools else {}
    return [
        {
            "uri": uri,
            "tools": names,
            "resource": msgspec.to_builtins(resources[uri].definition) if uri in resources else None,
        }
        for uri, names in tools.items()
    ]


def _dialect(name: str, definition: types.Json, notes: list[str]) -> dict[str, Any]:
    size = len(msgspec.json.encode(definition, enc_hook=str))
    return {"dialect": name, "definition": definition, "tokens": -(-size // CHARACTERS_PER_TOKEN), "notes": notes}


async def _send(
    client: AsyncClient, method: str, params: dict[str, Any], timeout: float | None, on_progress: Any
) -> object:
    """Send a request by the method of the client that answers its questions, or as it is."""
    given = params.pop("_meta", None)
    meta = {key: value for key, value in given.items() if _is_foreign(key)} if isinstance(given, dict) else None
    name, arguments, uri = params.get("name"), params.get("arguments"), params.get("uri")
    options: dict[str, Any] = {
        "timeout": timeout,
        "meta": meta or None,
        "input_responses": params.get("inputResponses"),
        "request_state": params.get("requestState"),
    }
    known = {"name", "arguments", "uri", "inputResponses", "requestState"}
    if params.keys() <= known and (arguments is None or isinstance(arguments, dict)):
        if method == "tools/call" and isinstance(name, str):
            return await _call_tool(client, name, arguments, on_progress=on_progress, **options)
        if method == "prompts/get" and isinstance(name, str):
            return await client.get_prompt(name, arguments, **options)
        if method == "resources/read" and isinstance(uri, str):
            return await client.read_resource(uri, **options)
    return await client.request(method, params, timeout=timeout, meta=meta or None)


async def _call_tool(client: AsyncClient, name: str, arguments: dict[str, Any] | None, **options: Any) -> object:
    """Return the result of a tool, also of one that failed; a call that was denied, and not sent, raises."""
    try:
        return await client.call_tool(name, arguments, **options)
    except ToolError as error:
        if error.result is None:
            raise
        return error.result


def _is_foreign(key: str) -> bool:
    """Tell whether a key of `_meta` is not set by the client itself."""
    return key != "progressToken" and not key.startswith(_OWN_META)
