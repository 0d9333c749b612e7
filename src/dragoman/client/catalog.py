"""What the server offers, as far as the client knows it: lists that were fetched, and the tools that were in them.

A list is fresh while the server tells of its changes, else as long as the server said that it holds. A server of the
handshake era says nothing of that kind, so its lists hold until they are fetched anew; one of the stateless era that
gives no time wants to be asked each time. Lists belong to whom they were shown to.

Changes are told over a channel that is opened, acknowledged and replaced while lists are fetched. A list is covered by
the channel only if that was open when the fetching began and is the same now; a list that changed while it was being
fetched is not kept.
"""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable, Hashable
from typing import Any, Literal

from msgspec import UNSET, Struct

from dragoman import types
from dragoman.errors import DefinitionError, ValidationError
from dragoman.protocol.fields import is_wrapped
from dragoman.protocol.headers import HeaderPlan
from dragoman.schema.compile import compile_schema
from dragoman.schema.peer_schemas import PeerSchema

Kind = Literal["tools", "prompts", "resources", "resource_templates"]
KINDS: tuple[Kind, ...] = ("tools", "prompts", "resources", "resource_templates")
MOST_IDENTITIES = 1000
_logger = logging.getLogger("dragoman.client")


class ListedTool:
    """A tool as it was listed, and what follows from its schemas."""

    def __init__(self, tool: types.Tool) -> None:
        self.tool = tool
        self.plan = HeaderPlan()
        self.is_doubted = False
        """Whether a result did not fit, and the tool was then found to be as it was."""
        self.is_wrapped = tool.output_schema is not None and is_wrapped(tool.output_schema)
        """Whether structured content is inside an object because it is none itself."""
        self._output: PeerSchema | None = None

    @property
    def is_idempotent(self) -> bool:
        """Whether the server says that calling it twice does no harm."""
        hints = self.tool.annotations
        return hints is not None and bool(hints.idempotent_hint or hints.read_only_hint)

    def misfit(self, result: types.CallToolResult) -> ValidationError | None:
        """Return how the structured content of a result does not fit the output schema, if it does not."""
        schema, structured = self.tool.output_schema, result.structured_content
        if schema is None or result.is_error:
            return None
        # MUST (2025-06-18 on): a server with an output schema provides structured results that fit it.
        if structured is UNSET:
            return ValidationError(f"{self.tool.name!r} has an output schema, but gave no structured content")
        try:
            self._output = self._output or PeerSchema(schema, compile_schema(schema, any_draft=True))
        except ValueError as error:
            return ValidationError(f"The output schema of {self.tool.name!r} is no schema: {error}")
        found = self._output.violations(structured, 1)
        if found is None:
            return ValidationError(f"The output schema of {self.tool.name!r} branches too often to be compared with")
        if not found:
            return None
        path = "$" + "".join(f"[{part!r}]" for part in found[0].place)
        return ValidationError(
            f"The structured content of {self.tool.name!r} does not fit its output schema at {path}:"
            f" {found[0].message}",
            path,
        )


class _Listed(Struct):
    items: list[Any]
    until: float | None
    channel: object | None


class Catalog:
    """The lists of one client."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.clock = clock
        self.has_looked = False
        """Whether the tools were listed for the sake of one that was not known."""
        self._lists: dict[tuple[Kind, Hashable], _Listed] = {}
        self.tools: dict[str, ListedTool] = {}
        """What is known of tools, by name."""
        self._editions: Counter[Kind] = Counter()

    def find(
        self, kind: Kind, identity: Hashable, *, holds: bool = False, channel: object | None = None
    ) -> list[Any] | None:
        """Return a list that is still fresh.

        `holds` says that it is so without a time, and `channel` what changes of such lists are told over now.
        """
        listed = self._lists.get((kind, identity))
        if listed is None:
            return None
        is_told = listed.channel is not None and listed.channel is channel
        fresh = holds or is_told or (listed.until is not None and self.clock() < listed.until)
        return listed.items if fresh else None

    def edition(self, kind: Kind) -> int:
        """Return a number that is another one after each change."""
        return self._editions[kind]

    def keep(
        self,
        kind: Kind,
        identity: Hashable,
        items: list[Any],
        ttl_ms: int | None,
        *,
        channel: object | None = None,
        edition: int | None = None,
    ) -> None:
        """Keep a list, unless it changed since this `edition`; an empty one is asked for again."""
        if len(self._lists) >= MOST_IDENTITIES:
            self._lists.clear()
        until = None if ttl_ms is None else self.clock() + ttl_ms / 1000
        if items and edition in (None, self._editions[kind]):
            self._lists[kind, identity] = _Listed(items, until, channel)
        else:
            self._lists.pop((kind, identity), None)

    def forget(self, *kinds: Kind) -> None:
        """Forget lists of these kinds, or all."""
        gone = kinds or KINDS
        self._editions.update(gone)
        self._lists = {key: listed for key, listed in self._lists.items() if key[0] not in gone}
        if "tools" in gone:
            self.tools.clear()
            self.has_looked = False

    def learn(self, tools: list[types.Tool], *, mirrors: bool) -> list[types.Tool]:
        """Remember tools, and return those that can be called; `mirrors` says that arguments become headers."""
        usable = [tool for tool in tools if self._learn(tool, mirrors=mirrors)]
        return tools if len(usable) == len(tools) else usable

    def _learn(self, tool: types.Tool, *, mirrors: bool) -> bool:
        known = self.tools.get(tool.name)
        if known is None or known.tool != tool:
            known = ListedTool(tool)
        if mirrors:
            try:
                known.plan = HeaderPlan.of(tool.input_schema)
            except DefinitionError as error:
                _logger.warning("tools/list: %r was left out: %s", tool.name, error)
                return False
        self.tools[tool.name] = known
        return True


def shortest(first: int | None, second: int | None) -> int | None:
    """Return the shorter of two times, each of which may not be given."""
    return first if second is None else second if first is None else min(first, second)
