"""`Registry`: the tools, prompts, resources and templates of a server, by name or URI, and their lists.

Definitions change rarely, and clients list them often. A `Listing` therefore caches the encoded result of each page for
each protocol version, until the list changes. A cursor is the offset of the first entry of a page.

A registration updates the list that it changes, and the few facts about all definitions that others derive from. The
registry says whether such a fact changed, so that a registration that changes none costs the same in a large registry.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from itertools import count
from typing import Any, Literal, NamedTuple, TypeVar

import msgspec
from msgspec import Raw

from dragoman import types
from dragoman.errors import DefinitionError, DragomanError, InvalidParams, PaginationLimit, ToolNotUnique
from dragoman.protocol import lines
from dragoman.protocol.jsonrpc import encode
from dragoman.protocol.versions import Version
from dragoman.server.define.binding import Hook
from dragoman.server.define.completion import Completable
from dragoman.server.define.definition import Definition, wrapped_definition
from dragoman.server.define.prompts import Prompt
from dragoman.server.define.resources import Resource, ResourceTemplate
from dragoman.server.define.sources import Overrides
from dragoman.server.define.tools import Tool

Definitions = Iterable[object]
"""Tools, prompts, resources or templates. The element type is `object`, because mypy infers `list[object]` for a list
of tools with different parameters."""
PageSize = int | Mapping[str, int] | None
Kind = TypeVar("Kind", bound=Definition[..., Any])

AnyTool = Tool[..., Any]
AnyPrompt = Prompt[..., Any]
AnyResource = Resource[..., Any]
AnyTemplate = ResourceTemplate[..., Any]
HookName = Literal["on_complete", "on_list_resources", "on_read_resource", "on_subscribe", "on_unsubscribe"]
Seal = Callable[[types.Result, Version], types.Result]
MAX_PAGES = 1000
"""The greatest number of pages of a list of another server, as for a client."""

LISTS: dict[str, tuple[str, type[types.PaginatedResult]]] = {
    "tools": ("tools/list", types.ListToolsResult),
    "prompts": ("prompts/list", types.ListPromptsResult),
    "resources": ("resources/list", types.ListResourcesResult),
    "resource_templates": ("resources/templates/list", types.ListResourceTemplatesResult),
}
"""The lists of a server, with the method and the result of each."""


class Facts(NamedTuple):
    """Facts that are derived from all definitions of a registry."""

    has_visibility: bool = False
    """Whether a definition was registered that only some callers see."""
    completes: bool = False
    """Whether there is an `on_complete` function, or a served prompt or template has a completer."""
    subscribes: bool = False
    """Whether there is an `on_subscribe` function."""


class Registry:
    """The definitions of one server.

    `require_servable` raises for a definition that the server cannot serve. The registry calls `notify` after each
    change, with whether one of its `facts` changed. With `inline_refs` the schemas in the list of tools have no
    references.

    Example:
        registry = Registry()
        registry.add_tool(add)
        registry.tools["add"]
    """

    def __init__(
        self,
        require_servable: Callable[[Definition[..., Any]], None] | None = None,
        notify: Callable[[bool], None] | None = None,
        *,
        inline_refs: bool = False,
    ) -> None:
        self.inline_refs = inline_refs
        self.entry_of: Callable[[str, Definition[..., Any], Version], Any] | None = None
        """Returns the entry of a definition in a list; set if the server has extensions, which may add fields."""
        self.forget: Callable[[Definition[..., Any]], None] | None = None
        """Called with each definition that was removed; set if the server has extensions."""
        self._require_servable = require_servable
        self.notify = notify
        self.tools: dict[str, AnyTool] = {}
        self.prompts: dict[str, AnyPrompt] = {}
        self.resources: dict[str, AnyResource] = {}
        self.templates: dict[str, AnyTemplate] = {}
        self.disabled: dict[str, dict[str, Any]] = {name: {} for name in _TABLES.values()}
        """The definitions that are registered but not served, by the name of their table and by their key."""
        self.facts = Facts()
        """The facts that other parts derive from all definitions."""
        self.edition = 0
        """The number of changes so far."""
        self._places: dict[tuple[str, str], int] = {}
        """The place of each definition in the order of registration, by the name of its table and by its key."""
        self._order = count()
        self._doubts: set[str] = set()
        self.hooks: dict[HookName, Hook] = {}
        """The functions of `on_complete` and its like."""
        self.roots_hooks: tuple[Hook, ...] = ()
        """The functions of `on_roots_changed`."""
        self.methods: dict[str, Definition[..., Any]] = {}
        """The functions of `server.method`, by the names of the methods."""
        self.listings = {method: Listing(result, partial(self._entries, method)) for method, result in LISTS.values()}
        self._page_size: PageSize = None

    def _entries(self, method: str, version: Version) -> list[Any]:
        return self.entries(method, self.listed(method), version)

    def listed(self, method: str) -> list[Any]:
        """Return the definitions in the list of a method."""
        # `list` copies the table in one step, because another thread may register at the same time.
        return list(getattr(self, _TABLES[method]).values())

    def entries(self, method: str, definitions: Iterable[Definition[..., Any]], version: Version) -> list[Any]:
        """Return the entries of definitions in the list of a method, for a protocol version."""
        if self.entry_of is None:
            entries = [definition.definition for definition in definitions]
        else:
            entries = [self.entry_of(method, definition, version) for definition in definitions]
        return list(map(_without_refs, entries)) if self.inline_refs and method == "tools/list" else entries

    def add_tool(self, given: Any) -> AnyTool:
        """Register a tool: a Tool, a Tool class, or a function."""
        tool: AnyTool = _made(given, Tool)
        if tool.name in self.tools or tool.name in self.disabled["tools"]:
            raise ToolNotUnique(f"There are two tools called {tool.name!r}; give each its own name")
        if tool.scopes:
            _check_scopes(tool)
        return self._add("tools", tool.name, tool)

    def add_prompt(self, given: Any) -> AnyPrompt:
        """Register a prompt: a Prompt, a Prompt class, or a function."""
        prompt: AnyPrompt = _made(given, Prompt)
        return self._add("prompts", prompt.name, prompt)

    def add_resource(self, given: Any) -> AnyResource | AnyTemplate:
        """Register a resource or a template: an object or a class of either."""
        kind = given if isinstance(given, type) else type(given)
        if issubclass(kind, ResourceTemplate):
            template: AnyTemplate = _made(given, ResourceTemplate)
            return self._add("templates", template.uri_template, template)
        resource: AnyResource = _made(given, Resource)
        return self._add("resources", resource.uri, resource)

    def _add(self, name: str, key: str, definition: Kind) -> Kind:
        if key in getattr(self, name) or key in self.disabled[name]:
            raise DefinitionError(f"{key!r} is registered already")
        if self._require_servable is not None:
            self._require_servable(definition)
        (getattr(self, name) if definition.enabled else self.disabled[name])[key] = definition
        self._places[name, key] = next(self._order)
        self._watch(definition)
        self._change_list(name, self._facts_with(definition, is_served=definition.enabled))
        return definition

    def _watch(self, definition: Definition[..., Any]) -> None:
        """Call `renew` when a completer is added to a registered prompt or template."""
        if isinstance(definition, Completable):
            definition.completers.watchers.add(self.renew)

    def extend(
        self,
        *,
        tools: Iterable[Any] = (),
        prompts: Iterable[Any] = (),
        resources: Iterable[Any] = (),
        resource_templates: Iterable[Any] = (),
    ) -> None:
        """Register several definitions."""
        for tool in _several(tools, "tools"):
            self.add_tool(tool)
        for prompt in _several(prompts, "prompts"):
            self.add_prompt(prompt)
        for one in (*_several(resources, "resources"), *_several(resource_templates, "resource_templates")):
            self.add_resource(one)

    def replace(self, **lists: Iterable[Any]) -> None:
        """Replace whole lists; if one definition cannot be registered, every list stays as it is."""
        fresh = Registry(self._require_servable)
        fresh.extend(**lists)
        if ("resources" not in lists and fresh.resources) or ("resource_templates" not in lists and fresh.templates):
            raise DefinitionError("A URI with variables belongs to `resource_templates`, and any other to `resources`")
        for name in lists:
            removed, table = getattr(self, _table(name)), getattr(fresh, _table(name))
            setattr(self, _table(name), table)
            self._forget_all(removed | self.disabled[_table(name)], table | fresh.disabled[_table(name)])
            self.disabled[_table(name)] = fresh.disabled[_table(name)]
        self._places |= {place: next(self._order) for place in fresh._places}
        for definition in self.definitions():
            self._watch(definition)
        self.renew()

    def _forget_all(self, removed: dict[str, Any], table: dict[str, Any]) -> None:
        """Forget the definitions of a table that another table replaced."""
        for key, definition in removed.items():
            if self.forget is not None and table.get(key) is not definition:
                self.forget(definition)
                if key in table and self._require_servable is not None:
                    self._require_servable(table[key])  # again: an extension may know the two by their common name

    def definitions(self) -> list[Definition[..., Any]]:
        """Return all registered definitions, also the disabled ones."""
        return [definition for name in self.disabled for definition in self.registered(name).values()]

    def registered(self, name: str) -> dict[str, Any]:
        """Return the definitions of a table and those of its kind that are disabled, in the order of registration."""
        table, disabled = dict(getattr(self, name)), self.disabled[name]
        return self._ordered(name, {**table, **disabled}) if disabled else table

    def _ordered(self, name: str, table: dict[str, Any]) -> dict[str, Any]:
        return dict(sorted(table.items(), key=lambda item: self._places[name, item[0]]))

    def find(self, given: object, *names: str) -> list[tuple[str, str]]:
        """Return the tables, of those named, and the keys that a definition has; it is given itself or by its key.

        Raises:
            DefinitionError: the definition is not registered.
        """
        found = [
            (name, key)
            for name in names
            for key, definition in self.registered(name).items()
            if definition is given or key == given
        ]
        if not found:
            raise DefinitionError(f"{given!r} is not registered")
        return found

    def remove(self, given: object, *names: str) -> None:
        """Remove a definition from the first of some tables that has it; it is given itself or by its key.

        Raises:
            DefinitionError: the definition is not registered.
        """
        name, key = self.find(given, *names)[0]
        removed = getattr(self, name).pop(key, None) or self.disabled[name].pop(key)
        if self.forget is not None:
            self.forget(removed)
        self._removed(name, removed)

    def set_enabled(self, name: str, key: str, *, enabled: bool) -> bool:
        """Serve a definition, or no longer serve it; return whether this changed anything."""
        table, disabled = getattr(self, name), self.disabled[name]
        if (key in table) == enabled:
            return False
        if enabled:
            table = self._ordered(name, {**table, key: disabled.pop(key)})
            setattr(self, name, table)
            self._change_list(name, self._facts_with(table[key], is_served=True))
        else:
            disabled[key] = table.pop(key)
            self._removed(name, disabled[key])
        return True

    def _removed(self, name: str, definition: Definition[..., Any]) -> None:
        # Another definition may have a completer too.
        self._change_list(name, self._all_facts() if _has_completer(definition) else self.facts)

    def selected(self, is_selected: Callable[[Definition[..., Any]], bool]) -> Registry:
        """Return a registry with the served definitions that a function selects, as they are now."""
        chosen = Registry(inline_refs=self.inline_refs)
        chosen.entry_of, chosen.facts, chosen.edition = self.entry_of, self.facts, self.edition
        chosen.hooks, chosen.roots_hooks, chosen.methods = self.hooks, self.roots_hooks, self.methods
        for name in self.disabled:
            table = {key: one for key, one in list(getattr(self, name).items()) if is_selected(one)}
            setattr(chosen, name, table)
            chosen.disabled[name] = {key: one for key, one in self.registered(name).items() if key not in table}
        for method, listing in self.listings.items():
            chosen.listings[method].page_size = listing.page_size
        return chosen

    def renew(self) -> None:
        """Discard the cached pages of all lists, and notify of a change of all facts."""
        for listing in self.listings.values():
            listing.clear()
        self._change(self._all_facts(), is_fact=True)

    def _change_list(self, name: str, facts: Facts) -> None:
        self.listings[_METHODS[name]].clear()
        self._change(facts, is_fact=facts != self.facts)

    def _change(self, facts: Facts, *, is_fact: bool) -> None:
        self.edition += 1
        self.facts = facts
        if self.notify is not None:
            self.notify(is_fact)

    def _facts_with(self, definition: Definition[..., Any], *, is_served: bool) -> Facts:
        before = self.facts
        return before._replace(
            has_visibility=before.has_visibility or definition.visible is not None,
            completes=before.completes or (is_served and _has_completer(definition)),
        )

    def _all_facts(self) -> Facts:
        has_visibility = any(definition.visible is not None for definition in self.definitions())
        served = (*self.prompts.values(), *self.templates.values())
        return Facts(
            has_visibility or self.facts.has_visibility,
            "on_complete" in self.hooks or any(owner.completers for owner in served),
            "on_subscribe" in self.hooks,
        )

    def hook(self, name: HookName, function: Callable[..., Any]) -> None:
        """Register a hook of the server; its lifespan values are checked as those of definitions are."""
        self.hooks[name] = Hook(function)
        self.renew()

    def require_lifespans(self, values: Mapping[Any, Any], overrides: Overrides) -> None:
        """Check that lifespans have the values that definitions take; `values` maps their functions to the values.

        Raises:
            DefinitionError: no lifespan has a value that a definition takes, or several have one.
        """
        named = [(definition.name, definition) for definition in self.definitions()]
        functions: list[tuple[str, Definition[..., Any] | Hook]] = [*named, *self.hooks.items(), *self.methods.items()]
        for name, function in functions:
            for source in function.lifespan_sources(overrides):
                try:
                    source.value(values)
                except DragomanError as error:
                    raise DefinitionError(f"{name!r} cannot be served: {error}") from None

    def warn_of_mistakes(self) -> None:
        """Log what is probably a mistake in a definition, each text once."""
        doubts = [doubt for definition in self.definitions() for doubt in definition.doubts()]
        for doubt in doubts:
            if doubt not in self._doubts:
                import logging

                logging.getLogger("dragoman.server").warning("%s", doubt)
        self._doubts.update(doubts)

    @property
    def has_scopes(self) -> bool:
        """Whether a tool requires scopes."""
        return any(tool.scopes for tool in list(self.tools.values()))

    @property
    def page_size(self) -> PageSize:
        """The number of entries on a page, for all lists or for each list by name; None: one page for all entries."""
        return self._page_size

    @page_size.setter
    def page_size(self, size: PageSize) -> None:
        sizes = dict.fromkeys(LISTS, size) if not isinstance(size, Mapping) else dict(size)
        for name, entries in sizes.items():
            if name not in LISTS:
                raise DefinitionError(f"page_size has no list {name!r}; the lists are {', '.join(LISTS)}")
            if entries is not None and (not isinstance(entries, int) or isinstance(entries, bool) or entries < 1):
                raise DefinitionError(f"page_size must be a positive integer or None, not {entries!r}")
        self._page_size = size
        for name, (method, _) in LISTS.items():
            self.listings[method].page_size = sizes.get(name)
        self.renew()


def _table(name: str) -> str:
    return "templates" if name == "resource_templates" else name


_TABLES = {method: _table(name) for name, (method, _) in LISTS.items()}
_METHODS = {table: method for method, table in _TABLES.items()}


def _has_completer(definition: Definition[..., Any]) -> bool:
    return isinstance(definition, Completable) and bool(definition.completers)


def _without_refs(tool: types.Tool) -> types.Tool:
    from dragoman.schema.inline_refs import inline_refs

    output = None if tool.output_schema is None else inline_refs(tool.output_schema)
    return msgspec.structs.replace(tool, input_schema=inline_refs(tool.input_schema), output_schema=output)


def _several(given: Any, option: str) -> Iterable[Any]:
    if isinstance(given, str | bytes | Mapping) or not isinstance(given, Iterable):
        raise DefinitionError(f"{option} must be a list, such as [...], not {type(given).__name__}")
    return given


def _check_scopes(tool: AnyTool) -> None:
    from dragoman.auth.server.bearer import check_scopes

    try:
        check_scopes(tool.scopes)
    except ValueError as error:
        raise DefinitionError(f"The tool {tool.name!r}: {error}") from None


def _made(given: Any, kind: type[Any]) -> Any:
    if isinstance(given, kind):
        return given
    if isinstance(given, type) and issubclass(given, kind):
        return given()
    if callable(given) and not isinstance(given, type | Definition):
        if isinstance(wrapped := wrapped_definition(given), kind):
            name = kind.__name__.lower()
            raise DefinitionError(
                f"A decorator has wrapped {wrapped!r}, whose options would be lost: write @{name} above it"
            )
        return kind.define(given)
    raise DefinitionError(f"{given!r} is not a {kind.__name__}: give a {kind.__name__}, a class of it, or a function")


class PageCursors:
    """Bounds the reading of a list of another server, which may return cursors for ever.

    Example:
        cursors = PageCursors("tools/list")
        while cursors.continues(page.next_cursor): ...
    """

    def __init__(self, method: str, limit: int = MAX_PAGES) -> None:
        self._method = method
        self._limit = limit
        self._seen: set[str] = set()

    def continues(self, cursor: str | None) -> bool:
        """Tell whether another page follows; the list ends where a cursor comes back.

        Raises:
            PaginationLimit: the list has more pages than the limit.
        """
        if not cursor or cursor in self._seen:
            return False
        self._seen.add(cursor)
        if len(self._seen) >= self._limit:
            raise PaginationLimit(f"There are more than {self._limit} pages of {self._method}")
        return True


class Listing:
    """One list of a server, in pages.

    Example:
        listing = Listing(ListToolsResult, lambda version: [tool.definition for tool in tools])
        listing.page(cursor, version, seal)
    """

    def __init__(
        self, result: Callable[..., types.PaginatedResult], entries: Callable[[Version], Iterable[Any]]
    ) -> None:
        self._result = result
        self._entries = entries
        self._pages: dict[tuple[str, int], Raw] = {}
        self.page_size: int | None = None

    def clear(self) -> None:
        """Discard the cached pages, because the list changed."""
        self._pages = {}

    def page(self, cursor: str | None, version: Version, seal: Seal) -> Raw:
        """Return the result of one page, sealed and encoded, without newlines.

        Raises:
            InvalidParams: the cursor is not a cursor of this list.
        """
        offset = read_cursor(cursor)
        pages = self._pages  # another thread may call `clear` meanwhile: the page is then stored in the discarded dict
        page = pages.get((version.name, offset))
        if page is None:
            result = paginate(self._result, list(self._entries(version)), offset, self.page_size)
            page = Raw(lines.without_newlines(encode(seal(result, version))))
            # Only offsets that this list returns as cursors are cached: others would let a client fill the memory.
            if offset == 0 or (self.page_size is not None and offset % self.page_size == 0):
                pages[version.name, offset] = page
        return page


def read_cursor(cursor: str | None) -> int:
    """Return the offset of a cursor; a missing or empty cursor is the offset 0.

    Raises:
        InvalidParams: the cursor is not an offset.
    """
    if not cursor:
        return 0
    if not (cursor.isascii() and cursor.isdigit() and len(cursor) <= 18):
        raise InvalidParams(f"Invalid cursor: {cursor!r}")
    return int(cursor)


def paginate(
    result: Callable[..., types.PaginatedResult], entries: list[Any], offset: int, page_size: int | None
) -> types.PaginatedResult:
    """Return the page that begins at an offset.

    Raises:
        InvalidParams: the offset lies beyond the list.
    """
    if offset and offset >= len(entries):
        raise InvalidParams(f"Invalid cursor: {str(offset)!r}")
    end = len(entries) if page_size is None else offset + page_size
    return result(entries[offset:end], next_cursor=str(end) if end < len(entries) else None)
