"""The handlers of a server that has mounts. Each merges the handler of the server itself (`own`) with the mounts.

    MergedList       a list: the entries of the server, and then those of each mount
    BySubject        a request about a name or a URI: the server that has it answers
    ByOwner          a request about a task, or anything else that only its owner answers: the owner answers
    Introduction     `initialize` and `server/discover`: the instructions of all
    FirstServer      any other method: the first server that has it answers

`merged_listening` has the handler of `subscriptions/listen`. A request goes to a mount as a request (`delegation`), so
a mounted server decides by itself what its callers see. The rows of the methods say which of the handlers serves a
method (`handler_kind`), for extensions of anybody.

A server in front of another, such as a proxy, does not know the names that it serves. Such a mount has a name if it
lists it (`listed_in`), or if it does not answer by the code of an unknown name. The words of an error decide nothing.

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
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
from msgspec import Raw

from dragoman import types
from dragoman.errors import (
    InsufficientScope,
    InternalError,
    InvalidParams,
    MethodNotFound,
    PaginationLimit,
    ResourceNotFound,
    RpcError,
)
from dragoman.forward.messages import Subject, pages_of, raw_object, subject_of, with_subject, with_uris
from dragoman.forward.mount.delegation import delegate, run_mounted
from dragoman.forward.mount.mount import Mount, has, is_open, mounts_of, own_handler
from dragoman.protocol.extensions import entries_of
from dragoman.protocol.jsonrpc import encode
from dragoman.protocol.lines import without_newlines
from dragoman.protocol.methods import Method
from dragoman.server.dispatch.dispatcher import dispatcher_of
from dragoman.server.dispatch.runner import encoded_result
from dragoman.server.registry import PageCursors, read_cursor
from dragoman.server.request.call import Call

if TYPE_CHECKING:
    from dragoman.server.dispatch.dispatcher import Dispatcher

Handle = Callable[["Dispatcher", Call], Any]
INTRODUCTION_SECONDS = 5.0
"""How long a mounted server has to learn its instructions, for example from the target of a proxy."""
PAGE_SIZE = 100
"""The number of entries on a page of a list whose page size a server cannot set."""
_NOT_FOUND = frozenset({"tool_not_found", "prompt_not_found", ResourceNotFound.label})
_SCHEMAS = ("inputSchema", "outputSchema")
_SUBSCRIBING = ("resources/subscribe", "resources/unsubscribe")
_logger = logging.getLogger("dragoman.server")


class MergedHandler:
    """A handler of a server with mounts; `own` is the handler of the server itself, None if it has none."""

    def __init__(self, row: Method, own: Handle | None, mounts: Sequence[Mount]) -> None:
        self.row = row
        self.method = row.name
        self.own = own
        self.mounts = mounts

    def offering(self, call: Call) -> list[Mount]:
        """Return the mounts that offer the method to a caller."""
        return [mount for mount in self.mounts if self._is_offered(call, mount, self.method)]

    @staticmethod
    def _is_offered(call: Call, mount: Mount, method: str) -> bool:
        offer = mount.offer(call)
        return offer is not None and method in offer.methods.get(call.request.caller.version.name, ())

    def not_found(self) -> MethodNotFound:
        """Return the error for a caller to whom no server offers the method."""
        return MethodNotFound(f"Method not found: {self.method}", {"method": self.method})


async def resolve(value: Any) -> Any:
    """Return what a handler gives, at once or later."""
    return await value if type(value) is CoroutineType else value


async def pages_of_mount(call: Call, mount: Mount, method: str) -> list[Raw]:
    """Return the pages of a list of a mounted server.

    Raises:
        RpcError: the mounted server refuses.
        InternalError: the list has too many pages.
    """
    params: dict[str, Any] = raw_object(call.request.raw_params) if call.request.method.name == method else {}
    meta = {"_meta": one} if (one := raw_object(call.request.raw_params).get("_meta")) is not None else {}

    async def page(cursor: str | None) -> Raw:
        members = {**meta, **params, "cursor": cursor}
        if cursor is None:
            del members["cursor"]
        return encoded_result(*await run_mounted(call, mount, Raw(encode(members)), method))

    return await _every(page, PageCursors(method))


async def _every(page: Callable[[str | None], Any], cursors: PageCursors) -> list[Raw]:
    try:
        return [one async for one in pages_of(page, cursors)]
    except PaginationLimit as error:
        raise InternalError(str(error)) from error


class MergedList(MergedHandler):
    """The handler of a list. A merged page is kept while the pages that it is made of stay the same objects."""

    def __init__(self, row: Method, own: Handle | None, mounts: Sequence[Mount]) -> None:
        super().__init__(row, own, mounts)
        self._key = row.name_in or row.uri_in
        self._kept: dict[tuple[str, int], tuple[list[Raw], Raw]] = {}

    async def __call__(self, server: Dispatcher, call: Call) -> Raw:
        """Return a page of the merged list, sealed and encoded."""
        offset, version = read_cursor(call.request.params.cursor), call.request.caller.version.name
        own = await self._own_pages(server, call)
        mounts = self.offering(call)
        mounted = await gather(*(self._mounted_pages(call, mount) for mount in mounts))
        parts = list(zip(mounts, mounted, strict=True))
        pages = [*own, *(page for _, several in parts for page in several)]
        kept, page = self._kept.get((version, offset), ([], Raw()))
        if len(kept) == len(pages) and all(map(is_, kept, pages)):
            return page
        listing = server.registry.listings.get(self.method)
        size = PAGE_SIZE if listing is None else listing.page_size
        field = _entries_field(call.request.method)
        entries = self._entries(field, own, parts)
        if server.registry.inline_refs and self.method == "tools/list":
            entries = list(map(_without_refs, entries))
        page = _page([msgspec.json.decode(one) for one in pages], field, entries, offset, size)
        if offset == 0 or (size is not None and offset % size == 0):
            self._kept[version, offset] = pages, page
        return page

    async def _own_pages(self, server: Dispatcher, call: Call) -> list[Raw]:
        async def page(cursor: str | None) -> Raw:
            params = msgspec.structs.replace(call.request.params, cursor=cursor)
            request = msgspec.structs.replace(call.request, params=params)
            if self.own is not None:
                result = self.own(server, msgspec.structs.replace(call, request=request))
                return encoded_result(call, await resolve(result))
            kind: Any = call.request.method.result
            return encoded_result(call, kind(**{entries_of(kind)[0]: []}))

        is_foreign = "on_list_resources" in server.registry.hooks
        return await _every(page, PageCursors(self.method) if is_foreign else PageCursors(self.method, maxsize))

    async def _mounted_pages(self, call: Call, mount: Mount) -> list[Raw]:
        try:
            return await pages_of_mount(call, mount, self.method)
        except MethodNotFound:
            return []  # a proxy learns from its target only which lists there are
        except RpcError as error:
            # The lists of the other servers are of use without this one.
            _logger.warning("%s of the mounted server %r is left out: %s", self.method, mount.server.name, error)
            return []

    def _entries(self, field: str, own: list[Raw], parts: list[tuple[Mount, list[Raw]]]) -> list[Any]:
        """Return the entries in order; of two entries with the same name or URI, the first is listed."""
        entries = _entries_of_pages(own, field)
        for mount, pages in parts:
            mounted = _entries_of_pages(pages, field)
            entries += [outer for entry in mounted if (outer := self._renamed(mount, entry)) is not None]
        if self._key is None:
            return entries
        first: dict[Any, Any] = {}
        for entry in entries:
            first.setdefault(entry[self._key], entry)
        return list(first.values())

    def _renamed(self, mount: Mount, entry: Any) -> Any:
        """Return an entry of a mounted server's list as the parent lists it; None if it is left out."""
        if self._key is None:
            return entry
        inner = entry[self._key]
        mount.listed[self.method, inner] = None
        outer = mount.renaming.name(inner) if self.row.name_in else mount.renaming.uri(inner)
        if outer is None:
            return None
        return {**with_uris(entry, mount.uri_paths(self.method), mount.outer_uri), self._key: outer}


def _entries_field(row: Method) -> str:
    kind: Any = row.result
    name = entries_of(kind)[0]
    return next(field.encode_name for field in msgspec.structs.fields(kind) if field.name == name)


def _entries_of_pages(pages: list[Raw], field: str) -> list[Any]:
    return [entry for page in pages for entry in msgspec.json.decode(page).get(field, ())]


def _without_refs(tool: types.Json) -> types.Json:
    from dragoman.schema.inline_refs import inline_refs

    return {key: inline_refs(value) if key in _SCHEMAS else value for key, value in tool.items()}


def _page(pages: list[types.Json], field: str, entries: list[Any], offset: int, size: int | None) -> Raw:
    """Return a page of merged entries with the strictest cache hints of the pages that they come from."""
    if offset and offset >= len(entries):
        raise InvalidParams(f"Invalid cursor: {str(offset)!r}")
    end = len(entries) if size is None else offset + size
    page = {**pages[0], field: entries[offset:end]}
    page.pop("nextCursor", None)
    if end < len(entries):
        page["nextCursor"] = str(end)
    if "ttlMs" in page:
        page["ttlMs"] = min(one.get("ttlMs", 0) for one in pages)
        if any(one.get("cacheScope") != "public" for one in pages):
            page["cacheScope"] = "private"
    return Raw(without_newlines(encode(page)))


class _Candidate(NamedTuple):
    """A mount that has, or may have, what a request is about."""

    mount: Mount
    inner: str
    """The name or URI there."""
    is_certain: bool


class BySubject(MergedHandler):
    """The handler of a request about a name or a URI."""

    def __call__(self, server: Dispatcher, call: Call) -> Any:
        """Set the mounts that may answer as the target of the request, or answer it by the server itself."""
        subject = subject_of(self.row, call.request.raw_params)
        if subject is None or self._is_own(server, subject):
            return self._answer_by_own(server, call, subject)
        candidates = list(self._candidates(call, subject))
        certain = [candidate for candidate in candidates if candidate.is_certain]
        if not certain and subject.is_uri and _matches_own_template(server, subject.text):
            candidates = []
        if not candidates:
            return self._answer_by_own(server, call, subject)
        call.target = _MountedTarget(self, certain[:1] or candidates, subject)
        return None

    def _is_own(self, server: Dispatcher, subject: Subject) -> bool:
        registry = server.registry
        tables = ("resources", "templates") if subject.is_uri else self.row.listed_in[:1]
        names = [table.removesuffix("/list") for table in tables]
        return any(subject.text in registry.registered(name) for name in names if name in registry.disabled)

    def _candidates(self, call: Call, subject: Subject) -> Iterator[_Candidate]:
        for mount in self.offering(call):
            inner = mount.inner("resources" if subject.is_uri else "tools", subject.text)
            if inner is not None:
                answer = has(mount.server, self.row, Subject(inner, subject.is_uri))
                if answer is not False or (self.method in _SUBSCRIBING and inner != subject.text):
                    yield _Candidate(mount, inner, answer is True)

    def _answer_by_own(self, server: Dispatcher, call: Call, subject: Subject | None) -> Any:
        if self.own is None:
            text = "" if subject is None else subject.text
            raise InvalidParams(f"Unknown URI: {text}", {"uri": text})
        return self.own(server, call)

    async def answer(self, call: Call, candidates: list[_Candidate], subject: Subject) -> Any:
        """Let each mount answer until one has the subject, and otherwise the server itself."""
        for candidate in candidates:
            try:
                params = with_subject(self.row, call.request.raw_params, candidate.inner)
                result = await delegate(call, candidate.mount, params)
            except RpcError as error:
                if not await self._is_unknown(call, candidate, error):
                    raise
            else:
                if not _has_failed(result) or await self._is_listed(call, candidate):
                    return result
        call.target = None
        return await resolve(self._answer_by_own(dispatcher_of(call), call, subject))

    async def _is_unknown(self, call: Call, candidate: _Candidate, error: RpcError) -> bool:
        """Tell whether an error means that a server does not have the subject of a request."""
        is_unread = self.method == "resources/read" and error.code == call.request.caller.version.resource_not_found
        if error.label in _NOT_FOUND or is_unread:
            return True
        return error.code == InvalidParams.CODE and not await self._is_listed(call, candidate)

    async def _is_listed(self, call: Call, candidate: _Candidate) -> bool:
        """Tell whether a server lists the subject of a request; a list that cannot be read denies nothing."""
        mount = candidate.mount
        if candidate.is_certain or not self.row.listed_in or self._is_remembered(candidate):
            return True
        for name in self.row.listed_in:
            if not self._is_offered(call, mount, name):
                continue
            row = mount.server.offer.find(name, call.request.caller)
            try:
                entries = _entries_of_pages(await pages_of_mount(call, mount, name), _entries_field(row))
            except MethodNotFound:
                continue
            except RpcError:
                return True
            for entry in entries:
                mount.listed[name, entry[row.name_in or row.uri_in]] = None
        return self._is_remembered(candidate)

    def _is_remembered(self, candidate: _Candidate) -> bool:
        return any((name, candidate.inner) in candidate.mount.listed for name in self.row.listed_in)


def _matches_own_template(server: Dispatcher, uri: str) -> bool:
    return any(template.match(uri) is not None for template in list(server.registry.templates.values()))


def _has_failed(result: Any) -> bool:
    """Tell whether a server that forwards requests returned a result with `isError`."""
    return type(result) is Raw and bytes(raw_object(result).get("isError", b"")) == b"true"


class _MountedTarget:
    """The target of a request that a mount answers."""

    def __init__(self, handler: BySubject, candidates: list[_Candidate], subject: Subject) -> None:
        self._handler = handler
        self._candidates = candidates
        self._subject = subject

    def begin(self, call: Call) -> Any:
        """Return the coroutine of the result."""
        return self._handler.answer(call, self._candidates, self._subject)

    def result(self, _call: Call, value: Any) -> Any:
        """Return the result of the mounted server."""
        return value


class ByOwner(MergedHandler):
    """The handler of a request about what only one of the servers has, such as a task."""

    async def __call__(self, server: Dispatcher, call: Call) -> Any:
        """Answer by the owner: each server but the last is first asked by the method that only the owner answers."""
        question = self.row.owner_from or self.method
        owners: list[Mount | None] = [*([] if self.own is None else [None]), *self.offering(call)]
        if not owners:
            raise self.not_found()
        for owner in owners[:-1]:
            try:
                await self._answer(server, call, owner, question)
            except InsufficientScope:
                raise  # this server has the task
            except RpcError:
                continue
            return await self._answer(server, call, owner, self.method)
        return await self._answer(server, call, owners[-1], self.method)

    async def _answer(self, server: Dispatcher, call: Call, owner: Mount | None, method: str) -> Any:
        if owner is None:
            return await resolve(own_handler(server, method)(server, call))
        return await delegate(call, owner, call.request.raw_params, method)


class Introduction(MergedHandler):
    """The handler of `initialize` and `server/discover`."""

    async def __call__(self, server: Dispatcher, call: Call) -> Any:
        """Return the result of the server itself, with the instructions of all."""
        assert self.own is not None
        texts = await gather(*(self._instructions(call, mount) for mount in self.mounts))
        result = await resolve(self.own(server, call))
        return msgspec.structs.replace(result, instructions=_merged_texts(result.instructions, self.mounts, texts))

    async def _instructions(self, call: Call, mount: Mount) -> str | None:
        """Return the instructions of a mounted server; one that learns them from another, such as a proxy, is asked."""
        if not is_open(mount.server, self.method):
            return merged_instructions(mount.server)
        try:
            async with timeout(INTRODUCTION_SECONDS):
                answer = await run_mounted(call, mount, call.request.raw_params)
        except (RpcError, TimeoutError) as error:
            _logger.info("The mounted server %r does not introduce itself: %s", mount.server.name, error)
            return None
        text = msgspec.json.decode(raw_object(encoded_result(*answer)).get("instructions", b"null"))
        return text if isinstance(text, str) else None


def _merged_texts(own: str | None, mounts: Sequence[Mount], texts: Sequence[str | None]) -> str | None:
    """Return the instructions of a server, and then those of each mounted server with the prefix of its names."""
    merged = [own] if own else []
    for mount, text in zip(mounts, texts, strict=True):
        start = mount.renaming.start
        if text:
            merged.append(f"What begins with {start!r}: {text}" if start else text)
    return "\n\n".join(merged) or None


def merged_instructions(server: Dispatcher) -> str | None:
    """Return the instructions of a server and of those that are mounted in it."""
    mounts = mounts_of(server)
    return _merged_texts(server.identity.instructions, mounts, [merged_instructions(mount.server) for mount in mounts])


class FirstServer(MergedHandler):
    """The handler of a method whose requests name nothing, and of notifications of clients."""

    async def __call__(self, server: Dispatcher, call: Call) -> Any:
        """Answer by the first mounted server that has the method; every server gets a notification."""
        mounts, params = self.offering(call), call.request.raw_params
        if call.is_notification:
            await gather(self._run_own(server, call), *(delegate(call, mount, params) for mount in mounts))
            return None
        if not mounts:
            raise self.not_found()
        return await delegate(call, mounts[0], params)

    async def _run_own(self, server: Dispatcher, call: Call) -> None:
        if self.own is not None:
            await resolve(self.own(server, call))


def handler_kind(row: Method) -> type[MergedHandler]:
    """Return the handler of a method by what its row declares."""
    if row.owner_from is not None:
        return ByOwner
    if any(field.encode_name in (row.name_in, row.uri_in) for field in msgspec.structs.fields(row.params)):
        return BySubject
    is_list = row.result is not None and issubclass(row.result, types.PaginatedResult)
    return MergedList if is_list else FirstServer
