"""The handlers of a server that has mounts. Each joins the handler of the server itself (`own`) with the mounts.

    JoinedList       a list: the entries of the server, and then those of each mount
    ByName           a request about a name or a URI: the server that has it answers
    ByTask           a request about a task: the server that has the task answers
    Introduction     `initialize` and `server/discover`: the instructions of all
    FirstServer      any other method: the first server that has it answers

`listening` has the handler of `subscriptions/listen`. A request goes to a mount as a request (`passing`), so a mounted
server decides by itself what its callers see.

Rejected: copies of the definitions of a mounted server in the registry of its parent. Middleware, dependencies and
lifespans of the mounted server would have to be copied too, and a proxy has no definitions to copy.
"""

from __future__ import annotations

import logging
from asyncio import gather, timeout
from collections.abc import Callable, Iterator, Sequence
from operator import is_
from sys import maxsize
from types import CoroutineType
from typing import Any

import msgspec
from msgspec import Raw, Struct

from dragoman import types
from dragoman.errors import (
    InsufficientScope,
    InternalError,
    InvalidParams,
    MethodNotFound,
    PaginationLimit,
    RpcError,
)
from dragoman.protocol.extensions import entries_of
from dragoman.protocol.jsonrpc import encode
from dragoman.protocol.lines import without_newlines
from dragoman.server.dispatch.dispatcher import Dispatcher, dispatcher_of
from dragoman.server.dispatch.runner import encoded_result
from dragoman.server.mounting.mount import Mount, has, is_open, own_handler
from dragoman.server.mounting.passing import is_not_found, lacks_tool, pass_on, run_inner
from dragoman.server.mounting.places import LISTS, TASKS_GET, params_about, subject_of, with_uris
from dragoman.server.registry import PageCursors, read_cursor
from dragoman.server.request.call import Call
from dragoman.types.decoding import decoders

Handle = Callable[[Dispatcher, Call], Any]
INTRODUCTION_SECONDS = 5.0
"""How long a mounted server has to learn its instructions, for example from the target of a proxy."""
_logger = logging.getLogger("dragoman.server")
_SCHEMAS = ("inputSchema", "outputSchema")
_SUBSCRIBING = ("resources/subscribe", "resources/unsubscribe")


class Joined:
    """A handler of a server with mounts; `own` is the handler of the server itself, None if it has none."""

    def __init__(self, method: str, own: Handle | None, mounts: Sequence[Mount]) -> None:
        self.method = method
        self.own = own
        self.mounts = mounts

    def offering(self, call: Call) -> list[Mount]:
        """Return the mounts that offer the method to a caller."""
        version = call.request.caller.version.name
        offers = [(one, one.offer(call)) for one in self.mounts]
        return [one for one, offer in offers if offer is not None and self.method in offer.methods.get(version, ())]

    def not_found(self) -> MethodNotFound:
        """Return the error for a caller to whom no server offers the method."""
        return MethodNotFound(f"Method not found: {self.method}", {"method": self.method})


def _renamed(mount: Mount, entry: Any, key: str | None) -> Any:
    """Return an entry of a mounted server's list as the parent lists it; None if it is left out."""
    if key is None:
        return entry
    outer = mount.renaming.name(entry[key]) if key == "name" else mount.renaming.uri(entry[key])
    if outer is None:
        return None
    return {**with_uris(entry, mount.outer_uri), key: outer}


def _without_refs(tool: types.Json) -> types.Json:
    from dragoman.schema.inline_refs import inline_refs

    return {key: inline_refs(value) if key in _SCHEMAS else value for key, value in tool.items()}


async def finished(value: Any) -> Any:
    """Return what a handler gives, at once or later."""
    return await value if type(value) is CoroutineType else value


class JoinedList(Joined):
    """The handler of a list. A joined page is kept while the pages that it is made of stay the same objects."""

    def __init__(self, method: str, own: Handle | None, mounts: Sequence[Mount]) -> None:
        super().__init__(method, own, mounts)
        self._place = LISTS[method]
        self._kept: dict[tuple[str, int], tuple[list[Raw], Raw]] = {}

    async def __call__(self, server: Dispatcher, call: Call) -> Raw:
        """Return a page of the joined list, sealed and encoded."""
        offset, version = read_cursor(call.request.params.cursor), call.request.caller.version.name
        own = await self._own_pages(server, call)
        parts = [(mount, await self._pages(call, mount)) for mount in self.offering(call)]
        pages = [*own, *(page for _, several in parts for page in several)]
        kept, page = self._kept.get((version, offset), ([], Raw()))
        if len(kept) == len(pages) and all(map(is_, kept, pages)):
            return page
        listing = server.registry.listings.get(self.method)
        size = self._place.page_size if listing is None else listing.page_size
        entries = self._entries(own, parts)
        if server.registry.inline_refs and self.method == "tools/list":
            entries = list(map(_without_refs, entries))
        page = self._page([msgspec.json.decode(one) for one in pages], entries, offset, size)
        if offset == 0 or (size is not None and offset % size == 0):
            self._kept[version, offset] = pages, page
        return page

    async def _own_pages(self, server: Dispatcher, call: Call) -> list[Raw]:
        async def page(cursor: str | None) -> Raw:
            params = msgspec.structs.replace(call.request.params, cursor=cursor)
            request = msgspec.structs.replace(call.request, params=params)
            asked = msgspec.structs.replace(call, request=request)
            if self.own is not None:
                return encoded_result(call, await finished(self.own(server, asked)))
            kind: Any = call.request.method.result
            return encoded_result(call, kind(**{entries_of(kind)[0]: []}))

        is_foreign = "on_list_resources" in server.registry.hooks
        return await _every(page, PageCursors(self.method) if is_foreign else PageCursors(self.method, maxsize))

    async def _pages(self, call: Call, mount: Mount) -> list[Raw]:
        async def page(cursor: str | None) -> Raw:
            given = decoders[dict[str, Raw]].decode(call.request.raw_params)
            given.pop("cursor", None)
            params = Raw(encode(given if cursor is None else {**given, "cursor": cursor}))
            return encoded_result(*await run_inner(call, mount, self.method, params))

        try:
            return await _every(page, PageCursors(self.method))
        except MethodNotFound:
            return []  # a proxy learns from its target only which lists there are
        except RpcError as error:
            # The lists of the other servers are of use without this one.
            _logger.warning("%s of the mounted server %r is left out: %s", self.method, mount.server.name, error)
            return []

    def _entries(self, own: list[Raw], parts: list[tuple[Mount, list[Raw]]]) -> list[Any]:
        """Return the entries in order; of two entries with the same name or URI, the first is listed."""
        field, key, _ = self._place
        entries: list[Any] = [entry for page in own for entry in msgspec.json.decode(page)[field]]
        for mount, pages in parts:
            listed = [entry for page in pages for entry in msgspec.json.decode(page)[field]]
            entries += [one for entry in listed if (one := _renamed(mount, entry, key)) is not None]
        if key is None:
            return entries
        first: dict[Any, Any] = {}
        for entry in entries:
            first.setdefault(entry[key], entry)
        return list(first.values())

    def _page(self, trees: list[types.Json], entries: list[Any], offset: int, size: int | None) -> Raw:
        """Return a page with the strictest cache hints of its parts."""
        if offset and offset >= len(entries):
            raise InvalidParams(f"Invalid cursor: {str(offset)!r}")
        end = len(entries) if size is None else offset + size
        page = {**trees[0], self._place.field: entries[offset:end]}
        page.pop("nextCursor", None)
        if end < len(entries):
            page["nextCursor"] = str(end)
        if "ttlMs" in page:
            page["ttlMs"] = min(tree.get("ttlMs", 0) for tree in trees)
            if any(tree.get("cacheScope") != "public" for tree in trees):
                page["cacheScope"] = "private"
        return Raw(without_newlines(encode(page)))


class _Page(Struct, rename="camel"):
    next_cursor: str | None = None


async def _every(page: Callable[[str | None], Any], cursors: PageCursors) -> list[Raw]:
    """Return the pages of one list.

    Raises:
        InternalError: the list has too many pages.
    """
    pages = [await page(None)]
    try:
        while cursors.continues(cursor := decoders[_Page].decode(pages[-1]).next_cursor):
            pages.append(await page(cursor))
    except PaginationLimit as error:
        raise InternalError(str(error)) from error
    return pages


class ByName(Joined):
    """The handler of a request about a name or a URI."""

    def __call__(self, server: Dispatcher, call: Call) -> Any:
        """Set the mount as the target of the request, or answer it by the server itself."""
        subject, is_uri = subject_of(self.method, call.request.params)
        routes = (
            [] if self._is_own(server, subject, is_uri=is_uri) else list(self._routes(call, subject, is_uri=is_uri))
        )
        certain = [(mount, inner) for mount, inner, answer in routes if answer]
        if not certain and is_uri and self._matches_own(server, subject):
            routes = []
        found = certain[:1] or [(mount, inner) for mount, inner, _ in routes]
        if not found:
            return self._answer_by_own(server, call, subject)
        call.target = _Route(self, found, subject)
        return None

    def _is_own(self, server: Dispatcher, subject: str, *, is_uri: bool) -> bool:
        registry = server.registry
        tables = ("resources", "templates") if is_uri else ("tools" if self.method == "tools/call" else "prompts",)
        return any(subject in getattr(registry, table) or subject in registry.disabled[table] for table in tables)

    def _matches_own(self, server: Dispatcher, uri: str) -> bool:
        return any(template.match(uri) is not None for template in list(server.registry.templates.values()))

    def _routes(self, call: Call, subject: str, *, is_uri: bool) -> Iterator[tuple[Mount, str, bool | None]]:
        """Yield each mount that has or may have a subject, with the name or URI there, and whether it surely has it."""
        for mount in self.offering(call):
            inner = mount.renaming.inner_uri(subject) if is_uri else mount.renaming.inner_name(subject)
            if inner is not None:
                answer = has(mount.server, self.method, inner, is_uri=is_uri)
                if answer is not False or (self.method in _SUBSCRIBING and inner != subject):
                    yield mount, inner, answer or None

    def _answer_by_own(self, server: Dispatcher, call: Call, subject: str) -> Any:
        if self.own is None:
            raise InvalidParams(f"Unknown URI: {subject}", {"uri": subject})
        return self.own(server, call)

    async def answer(self, call: Call, found: list[tuple[Mount, str]], subject: str) -> Any:
        """Let each mount answer until one has the subject, and otherwise the server itself."""
        for mount, inner in found:
            try:
                params = params_about(self.method, call.request.raw_params, inner)
                result = await pass_on(call, mount, self.method, params)
            except RpcError as error:
                if not is_not_found(error, call, inner):
                    raise
            else:
                if not lacks_tool(result, inner):
                    return result
        call.target = None
        return await finished(self._answer_by_own(dispatcher_of(call), call, subject))


class _Route:
    """The target of a request that a mount answers."""

    def __init__(self, handler: ByName, found: list[tuple[Mount, str]], subject: str) -> None:
        self._handler = handler
        self._found = found
        self._subject = subject

    def begin(self, call: Call) -> Any:
        """Return the coroutine of the result."""
        return self._handler.answer(call, self._found, self._subject)

    def result(self, _call: Call, value: Any) -> Any:
        """Return the result of the mounted server."""
        return value


class ByTask(Joined):
    """The handler of a request about a task."""

    async def __call__(self, server: Dispatcher, call: Call) -> Any:
        """Answer by the server that has the task."""
        own_get, mounts = own_handler(server, TASKS_GET), self.offering(call)
        places: list[Mount | None] = [*([] if self.own is None else [None]), *mounts]
        if not places:
            raise self.not_found()
        for place in places[:-1]:
            try:
                if place is None:
                    await finished(own_get(server, call))
                else:
                    await self._pass(call, place, TASKS_GET)
            except InsufficientScope:
                raise  # this server has the task
            except RpcError:
                continue
            return await self._answer(server, call, place)
        return await self._answer(server, call, places[-1])

    async def _answer(self, server: Dispatcher, call: Call, place: Mount | None) -> Any:
        if place is None and self.own is not None:
            return await finished(self.own(server, call))
        return await self._pass(call, place, self.method)  # type: ignore[arg-type]

    async def _pass(self, call: Call, mount: Mount, method: str) -> Any:
        return await pass_on(call, mount, method, call.request.raw_params)


class Introduction(Joined):
    """The handler of `initialize` and `server/discover`."""

    def __call__(self, server: Dispatcher, call: Call) -> Any:
        """Return the result of the server itself, with the instructions of all."""
        if any(is_open(mount.server, self.method) for mount in self.mounts):
            return self._asked(server, call)
        return self._joined(server, call, [joined_instructions(mount.server) for mount in self.mounts])

    async def _asked(self, server: Dispatcher, call: Call) -> Any:
        """Ask the mounted servers that learn their instructions from others, such as proxies."""
        return self._joined(server, call, await gather(*(self._told(call, mount) for mount in self.mounts)))

    async def _told(self, call: Call, mount: Mount) -> str | None:
        if not is_open(mount.server, self.method):
            return joined_instructions(mount.server)
        try:
            async with timeout(INTRODUCTION_SECONDS):
                found = await run_inner(call, mount, self.method, call.request.raw_params)
            introduced: _Introduced = decoders[_Introduced].decode(encoded_result(*found))
        except (RpcError, TimeoutError, msgspec.DecodeError) as error:
            _logger.info("The mounted server %r does not introduce itself: %s", mount.server.name, error)
            return None
        return introduced.instructions

    def _joined(self, server: Dispatcher, call: Call, told: Sequence[str | None]) -> Any:
        assert self.own is not None
        result = self.own(server, call)
        return msgspec.structs.replace(result, instructions=_joined_texts(result.instructions, self.mounts, told))


class _Introduced(Struct):
    instructions: str | None = None


def _joined_texts(own: str | None, mounts: Sequence[Mount], told: Sequence[str | None]) -> str | None:
    """Return the instructions of a server, and then those of each mounted server with the prefix of its names."""
    texts = [own] if own else []
    for mount, text in zip(mounts, told, strict=True):
        start = mount.renaming.start
        if text:
            texts.append(f"What begins with {start!r}: {text}" if start else text)
    return "\n\n".join(texts) or None


def joined_instructions(server: Dispatcher) -> str | None:
    """Return the instructions of a server and of those that are mounted in it."""
    mounts = list(server.mounts or ())
    return _joined_texts(server.identity.instructions, mounts, [joined_instructions(mount.server) for mount in mounts])


class FirstServer(Joined):
    """The handler of a method whose requests name nothing, and of notifications of clients."""

    async def __call__(self, server: Dispatcher, call: Call) -> Any:
        """Answer by the first mounted server that has the method; every server gets a notification."""
        mounts, params = self.offering(call), call.request.raw_params
        if call.is_notification:
            passing = (pass_on(call, mount, self.method, params) for mount in mounts)
            await gather(self._run_own(server, call), *passing)
            return None
        if not mounts:
            raise self.not_found()
        return await pass_on(call, mounts[0], self.method, params)

    async def _run_own(self, server: Dispatcher, call: Call) -> None:
        if self.own is not None:
            await finished(self.own(server, call))
