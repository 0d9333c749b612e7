"""What the server offers, as far as the client knows it: lists that were fetched, and the tools that were in them.

A list is fresh while the server tells of its changes, else as long as the server said that it holds. A server of the
handshake era says nothing of that kind, so its lists hold until they are fetched anew; one of the stateless era that
gives no time wants to be asked each time. Lists belong to whom they were shown to.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Hashable
from typing import Any, Literal

from msgspec import Struct

from dragoman import types
from dragoman.errors import DefinitionError, ValidationError
from dragoman.protocol.fields import WRAPPED
from dragoman.protocol.headers import HeaderPlan

Kind = Literal["tools", "prompts", "resources", "resource_templates"]
KINDS: tuple[Kind, ...] = ("tools", "prompts", "resources", "resource_templates")
MOST_IDENTITIES = 1000
_logger = logging.getLogger("dragoman.client")


class KnownTool:
    """A tool as it was listed, and what follows from its schemas."""

    def __init__(self, tool: types.Tool) -> None:
        self.tool = tool
        self.plan = HeaderPlan()
        self._validator: Any = None

    @property
    def is_wrapped(self) -> bool:
        """Whether structured content was put into an object for the sake of an old version."""
        return bool(self.tool.output_schema and self.tool.output_schema.get(WRAPPED))

    def check(self, structured: Any) -> None:
        """Compare structured content with the output schema.

        Raises:
            ValidationError: it does not fit.
        """
        if self.tool.output_schema is None:
            return
        if self._validator is None:
            import jsonschema_rs

            try:
                self._validator = jsonschema_rs.Draft202012Validator(self.tool.output_schema, offline=True)
            except ValueError as error:
                raise ValidationError(f"The output schema of {self.tool.name!r} is no schema: {error}") from None
        problem = next(iter(self._validator.iter_errors(structured)), None)
        if problem is not None:
            path = "$" + "".join(f"[{part!r}]" for part in problem.instance_path)
            raise ValidationError(
                f"The structured content of {self.tool.name!r} does not fit its output schema at {path}:"
                f" {problem.message}",
                path,
            )


class _Listed(Struct):
    items: list[Any]
    until: float | None


class Catalog:
    """The lists of one client."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lists: dict[tuple[Kind, Hashable], _Listed] = {}
        self._tools: dict[str, KnownTool] = {}

    def find(self, kind: Kind, identity: Hashable, *, holds: bool) -> list[Any] | None:
        """Return a list that is still fresh; `holds` says that it holds without a time."""
        listed = self._lists.get((kind, identity))
        if listed is None:
            return None
        fresh = holds if listed.until is None or holds else self._clock() < listed.until
        return listed.items if fresh else None

    def keep(self, kind: Kind, identity: Hashable, items: list[Any], ttl_ms: int | None) -> None:
        """Keep a list; an empty one is asked for again."""
        if len(self._lists) >= MOST_IDENTITIES:
            self._lists.clear()
        until = None if ttl_ms is None else self._clock() + ttl_ms / 1000
        if items:
            self._lists[kind, identity] = _Listed(items, until)
        else:
            self._lists.pop((kind, identity), None)

    def forget(self, *kinds: Kind) -> None:
        """Forget lists of these kinds, or all."""
        gone = kinds or KINDS
        self._lists = {key: listed for key, listed in self._lists.items() if key[0] not in gone}
        if "tools" in gone:
            self._tools.clear()

    def learn(self, tools: list[types.Tool], *, mirrors: bool) -> list[types.Tool]:
        """Remember tools, and return those that can be called; `mirrors` says that arguments become headers."""
        usable = [tool for tool in tools if self._learn(tool, mirrors=mirrors)]
        return tools if len(usable) == len(tools) else usable

    def _learn(self, tool: types.Tool, *, mirrors: bool) -> bool:
        known = self._tools.get(tool.name)
        if known is None or known.tool != tool:
            known = KnownTool(tool)
        if mirrors:
            try:
                known.plan = HeaderPlan.of(tool.input_schema)
            except DefinitionError as error:
                _logger.warning("tools/list: %r was left out: %s", tool.name, error)
                return False
        self._tools[tool.name] = known
        return True

    def tool(self, name: str) -> KnownTool | None:
        """Return what is known of a tool."""
        return self._tools.get(name)


def shortest(first: int | None, second: int | None) -> int | None:
    """Return the shorter of two times, each of which may not be given."""
    return first if second is None else second if first is None else min(first, second)
