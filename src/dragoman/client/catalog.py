"""The catalog: a cache of the lists of tools, prompts, resources and resource templates of one server.

In the stateless era a list is fresh while an open stream brings notifications of its changes, or until its `ttlMs` has
passed; any other list is fetched each time. In the handshake era there is no `ttlMs`, and a list is fresh until the
server notifies of a change or the caller asks for a refresh. Lists are cached for each set of credential headers,
because a server may show different lists to different users.

The stream of notifications may be opened or replaced while a list is fetched. So a stream keeps a list fresh only if
the server had acknowledged it before the fetch began, and it is still the same stream. A list that changed while it was
fetched is not cached.
"""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Hashable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeVar
from weakref import WeakSet

import msgspec
from msgspec import UNSET, Struct

from dragoman import types
from dragoman.client.options import RequestOptions
from dragoman.errors import DefinitionError, DragomanError, MethodNotFound, NotFound, PaginationLimit, ValidationError
from dragoman.protocol.fields import is_wrapped
from dragoman.protocol.headers import HeaderPlan
from dragoman.schema.compile import compile_schema
from dragoman.schema.peer_schemas import PeerSchema
from dragoman.types.memo import Recent

if TYPE_CHECKING:
    from dragoman.client.session import ClientSession

Kind = Literal["tools", "prompts", "resources", "resource_templates"]
MAX_LISTS = 1000
MAX_LINKED = 1000
MAX_PAGES = 1000
_METHODS: dict[type[types.PaginatedResult], tuple[str, str, str]] = {
    types.ListToolsResult: ("tools/list", "tools", "tools"),
    types.ListPromptsResult: ("prompts/list", "prompts", "prompts"),
    types.ListResourcesResult: ("resources/list", "resources", "resources"),
    types.ListResourceTemplatesResult: ("resources/templates/list", "resources", "resourceTemplates"),
}
"""The method that lists each kind of page, the server's capability, and the field with the entries."""
_PAGES: dict[Kind, type[types.PaginatedResult]] = {
    "tools": types.ListToolsResult,
    "prompts": types.ListPromptsResult,
    "resources": types.ListResourcesResult,
    "resource_templates": types.ListResourceTemplatesResult,
}
P = TypeVar("P", bound=types.PaginatedResult)
Item = TypeVar("Item")
_logger = logging.getLogger("dragoman.client")


class ListedTool:
    """A tool of a list, with its header plan and its compiled output schema."""

    def __init__(self, tool: types.Tool) -> None:
        self.tool = tool
        self.plan = HeaderPlan()
        self.is_rechecked = False
        """Whether a result did not fit, and the tool was then listed again."""
        self.is_wrapped = tool.output_schema is not None and is_wrapped(tool.output_schema)
        """Whether the server wraps structured content that is not an object in one."""
        self._output: PeerSchema | None = None

    @property
    def is_idempotent(self) -> bool:
        """Whether the server declares the tool idempotent or read-only."""
        hints = self.tool.annotations
        return hints is not None and bool(hints.idempotent_hint or hints.read_only_hint)

    def violation(self, result: types.CallToolResult) -> ValidationError | None:
        """Return the first violation of the output schema in the structured content of a result, if there is one."""
        schema, structured = self.tool.output_schema, result.structured_content
        if schema is None or result.is_error:
            return None
        # MUST (2025-06-18 on): a server with an output schema provides structured results that fit it.
        if structured is UNSET:
            return ValidationError(f"{self.tool.name!r} has an output schema, but gave no structured content")
        try:
            self._output = self._output or PeerSchema(schema, compile_schema(schema, any_draft=True))
        except ValueError as error:
            return ValidationError(f"The output schema of {self.tool.name!r} is not a valid schema: {error}")
        found = self._output.violations(structured, 1)
        if found is None:
            return ValidationError(f"The output schema of {self.tool.name!r} is too complex to check the result")
        if not found:
            return None
        path = "$" + "".join(f"[{part!r}]" for part in found[0].place)
        return ValidationError(
            f"The structured content of {self.tool.name!r} does not fit its output schema at {path}:"
            f" {found[0].message}",
            path,
        )


class CachesContents(Protocol):
    """An object that caches the contents of a resource."""

    def forget(self) -> None:
        """Drop the cached contents."""


class _CachedList(Struct):
    items: list[Any]
    expires_at: float | None
    stream: object | None


class Catalog:
    """The cached lists and the known tools and linked resources of one client."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.clock = clock
        self.tools: dict[str, ListedTool] = {}
        """The tools that were listed, by name."""
        self.was_listed_for_result = False
        """Whether the tools were listed to compare a result with the schema of an unknown tool."""
        self.linked: Recent[str, types.Resource] = Recent(MAX_LINKED)
        """The latest resources that results of tools linked to, by URI."""
        self._lists: dict[tuple[Kind, Hashable], _CachedList] = {}
        self._editions: Counter[Kind] = Counter()
        self._contents: dict[str, WeakSet[CachesContents]] = {}

    def find(
        self, kind: Kind, identity: Hashable, *, is_always_fresh: bool = False, stream: object | None = None
    ) -> list[Any] | None:
        """Return a cached list if it is fresh; `stream` is the open stream of notifications of its changes."""
        cached = self._lists.get((kind, identity))
        if cached is None:
            return None
        is_notified = cached.stream is not None and cached.stream is stream
        is_valid = cached.expires_at is not None and self.clock() < cached.expires_at
        return cached.items if is_always_fresh or is_notified or is_valid else None

    def edition(self, kind: Kind) -> int:
        """Return a number that grows with each change of the lists of a kind."""
        return self._editions[kind]

    def keep(
        self,
        kind: Kind,
        identity: Hashable,
        items: list[Any],
        ttl_ms: int | None,
        *,
        stream: object | None = None,
        edition: int | None = None,
    ) -> None:
        """Cache a list, unless it is empty or its kind changed since `edition`."""
        if len(self._lists) >= MAX_LISTS:
            self._lists.clear()
        expires_at = None if ttl_ms is None else self.clock() + ttl_ms / 1000
        if items and edition in (None, self._editions[kind]):
            self._lists[kind, identity] = _CachedList(items, expires_at, stream)
        else:
            self._lists.pop((kind, identity), None)

    def forget(self, *kinds: Kind) -> None:
        """Forget the lists of these kinds, or all lists."""
        kinds = kinds or tuple(_PAGES)
        self._editions.update(kinds)
        self._lists = {key: cached for key, cached in self._lists.items() if key[0] not in kinds}
        if "tools" in kinds:
            self.tools.clear()
            self.was_listed_for_result = False

    def forget_all(self) -> None:
        """Forget all lists and contents, because notifications may have been missed."""
        self.forget()
        for uri in list(self._contents):
            self.forget_contents(uri)

    def watch(self, uri: str, cache: CachesContents) -> None:
        """Register a cache of the contents of a resource, to be dropped when the resource changes."""
        self._contents.setdefault(uri, WeakSet()).add(cache)

    def forget_contents(self, uri: str) -> None:
        """Drop the cached contents of a resource."""
        for cache in list(self._contents.get(uri, ())):
            cache.forget()

    def add_tools(self, tools: list[types.Tool], *, mirrors: bool) -> list[types.Tool]:
        """Record tools, and return those that can be called; with `mirrors`, arguments are also sent as headers."""
        return [tool for tool in tools if self._add_tool(tool, mirrors=mirrors)]

    def _add_tool(self, tool: types.Tool, *, mirrors: bool) -> bool:
        listed = self.tools.get(tool.name)
        if listed is None or listed.tool != tool:
            listed = ListedTool(tool)
        if mirrors:
            try:
                listed.plan = HeaderPlan.of(tool.input_schema)
            except DefinitionError as error:
                _logger.warning("tools/list: %r was left out: %s", tool.name, error)
                return False
        self.tools[tool.name] = listed
        return True

    def add_links(self, content: list[types.ContentBlock]) -> None:
        """Record the resources that a result links to."""
        for block in content:
            if type(block) is types.ResourceLink:
                fields = {name: getattr(block, name) for name in types.Resource.__struct_fields__}
                self.linked[block.uri] = types.Resource(**fields)


class Lists:
    """Fetches the lists of one client's server, at most `max_pages` pages of each list."""

    def __init__(self, session: ClientSession, max_pages: int) -> None:
        self._session = session
        self._max_pages = max_pages

    async def page(self, kind: type[P], cursor: str | None, options: RequestOptions) -> P:
        """Return one page; an empty one if the server does not have the capability."""
        method, capability, entries = _METHODS[kind]
        connection = await self._session.start()
        if not connection.offers(capability):
            return msgspec.convert({entries: []}, kind)
        params = {} if cursor is None else {"cursor": cursor}
        extended: Any = self._session.table.page_type(method, connection.version)
        page: P = await self._session.request(method, params, extended, options)
        if isinstance(page, types.ListToolsResult):
            mirrors = connection.link.is_http and connection.version.mirrors_headers
            page.tools = self._session.catalog.add_tools(page.tools, mirrors=mirrors)
        return page

    def repeatability(self, tool: str, listed: ListedTool | None) -> bool | Callable[[], Awaitable[bool]]:
        """Return whether the server declares a tool idempotent or read-only, or the function that asks the server."""
        return partial(self._is_idempotent, tool) if listed is None else listed.is_idempotent

    async def _is_idempotent(self, tool: str) -> bool:
        try:
            await self.all("tools", refresh=True)
        except DragomanError:
            return False
        listed = self._session.catalog.tools.get(tool)
        return listed is not None and listed.is_idempotent

    async def all(self, kind: Kind, *, refresh: bool) -> list[Any]:
        """Return every entry, from the catalog if the list is fresh there and `refresh` is False.

        Raises:
            PaginationLimit: the list has more than `max_pages` pages.
        """
        session = self._session
        connection = await session.start()
        version, changes = connection.version, f"{_METHODS[_PAGES[kind]][1]}_list_changed"

        def stream() -> object | None:
            # The acknowledged filter identifies the stream: each `subscriptions/listen` request has another object.
            acknowledged = session.subscriptions.stream.acknowledged
            return acknowledged if getattr(acknowledged, changes) else None

        identity = await self._identity()
        if not refresh:
            found = session.catalog.find(kind, identity, is_always_fresh=not version.has_cache_hints, stream=stream())
            if found is not None:
                return found
        if version.listens and connection.offers(_METHODS[_PAGES[kind]][1], "list_changed"):
            session.subscriptions.stream.update(connection, **{changes: True})
        before, edition = stream(), session.catalog.edition(kind)
        items, ttl_ms = await self._fetch(kind)
        session.catalog.keep(kind, identity, items, ttl_ms, stream=before, edition=edition)
        return items

    async def _identity(self) -> Hashable:
        credentials = self._session.credentials
        return None if credentials.are_fixed else tuple(sorted((await credentials.own_headers()).items()))

    async def _fetch(self, kind: Kind) -> tuple[list[Any], int | None]:
        """Return the entries of all pages, and the shortest `ttlMs` of the pages."""
        items: list[Any] = []
        times: list[int] = []
        cursor: str | None = None
        seen: set[str] = set()
        for _ in range(self._max_pages):
            try:
                page = await self.page(_PAGES[kind], cursor, RequestOptions())
            except MethodNotFound:
                # A server may declare resources, and have no templates.
                if cursor is not None:
                    raise
                break
            items += getattr(page, kind)
            times += [] if page.ttl_ms is None else [page.ttl_ms]
            cursor = page.next_cursor
            if cursor in seen:
                _logger.warning("The pages of %s come back to the cursor %r; the list ends there", kind, cursor)
            if cursor is None or cursor in seen:
                break
            seen.add(cursor)
        else:
            raise PaginationLimit(f"There are more than {self._max_pages} pages of {kind}; raise max_pages")
        return items, min(times, default=None)


def find(kind: str, name: str, items: Sequence[Item], names: Callable[[Item], tuple[str, ...]]) -> Item:
    """Return the item that has a name.

    Raises:
        NotFound: no item has the name; the error lists similar names.
    """
    from difflib import get_close_matches

    if not isinstance(name, str):
        raise TypeError(f"A {kind} is looked up by its name, not by {name!r}")
    for item in items:
        if name in names(item):
            return item
    raise NotFound(kind, name, get_close_matches(name, [known for item in items for known in names(item)]))
