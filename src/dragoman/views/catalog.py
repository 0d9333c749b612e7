"""`ViewCatalog`: the lists of one upstream as clients see them under its views, and the names of both sides."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Iterable
from typing import TypeVar

import msgspec

from dragoman import types
from dragoman.views.findings import ViewFinding, raise_findings
from dragoman.views.selection import Views
from dragoman.views.view import View
from dragoman.views.viewed_tool import ViewedTool

Entry = TypeVar("Entry", types.Prompt, types.Resource, types.ResourceTemplate)
Claimant = TypeVar("Claimant")
_logger = logging.getLogger("dragoman.views")


class ViewCatalog:
    """The tools, prompts, resources and resource templates of one upstream under its views.

    A definition whose view does not match it is withheld, and `findings` say why.

    Example:
        catalog = ViewCatalog(Views.of({"search": View(name="find")}), tools=tools)
        catalog.tools["find"].upstream.name  # "search"
    """

    def __init__(
        self,
        views: Views,
        *,
        tools: Iterable[types.Tool] = (),
        prompts: Iterable[types.Prompt] = (),
        resources: Iterable[types.Resource] = (),
        resource_templates: Iterable[types.ResourceTemplate] = (),
    ) -> None:
        self._views = views
        self._keys: set[str] = set()
        self.findings: list[ViewFinding] = []
        """The mismatches between the views and the upstream."""
        self.tools: dict[str, ViewedTool] = {}
        """The tools that clients see, by the names that they use."""
        self.prompts: dict[str, types.Prompt] = {}
        """The prompts that clients see, by the names that they use."""
        viewed = [self._viewed(tool) for tool in tools]
        self._claim(self.tools, [(tool.upstream.name, tool.shown.name, tool) for tool in viewed if tool is not None])
        shown_prompts = [(each.name, prompt) for each in prompts if (prompt := self._entry(each, each.name))]
        self._claim(self.prompts, [(name, shown.name, shown) for name, shown in shown_prompts])
        self.prompt_names = {shown.name: name for name, shown in shown_prompts if self.prompts.get(shown.name) is shown}
        """The names of prompts in the upstream, by the names that clients use."""
        self.resources = [shown for resource in resources if (shown := self._entry(resource, resource.uri))]
        """The resources that clients see."""
        self.resource_templates = [
            template for each in resource_templates if (template := self._entry(each, each.uri_template))
        ]
        """The resource templates that clients see."""

    def __repr__(self) -> str:
        return f"<ViewCatalog: {len(self.tools)} tools, {len(self.prompts)} prompts, {len(self.findings)} findings>"

    def _viewed(self, tool: types.Tool) -> ViewedTool | None:
        self._keys.add(tool.name)
        viewed = ViewedTool(tool, self._views.select(tool.name))
        self.findings += viewed.findings
        return None if viewed.findings or viewed.is_hidden else viewed

    def _claim(self, shown: dict[str, Claimant], claims: list[tuple[str, str, Claimant]]) -> None:
        """Add definitions by the names that clients use; `claims` are the upstream's name, that name, the definition.

        If several claim a name, the one that a view gives that name has it. If views give it to several, none has it.
        """
        claimants: defaultdict[str, list[str]] = defaultdict(list)
        for name, shown_name, _ in claims:
            claimants[shown_name].append(name)
        for name, shown_name, definition in claims:
            others = [other for other in claimants[shown_name] if other != name]
            if not others or [each for each in claimants[shown_name] if each != shown_name] == [name]:
                shown[shown_name] = definition
            else:
                taken = ", ".join(map(repr, others))
                self.findings.append(ViewFinding(name, f"{taken} would have the name {shown_name!r} too"))

    def _entry(self, entry: Entry, key: str) -> Entry | None:
        """Return an entry of a list as clients see it; None if it is hidden."""
        self._keys.add(key)
        for view in self._views.select(key):
            if view.is_for_tools and key not in self._views.names:
                continue  # a pattern, whose view is for the tools that it matches
            if view.hidden:
                return None
            entry = _reshaped(entry, view)
        return entry

    def unknown(self) -> list[ViewFinding]:
        """Return a finding for each name with a view that no definition has, when all lists were given."""
        listed = ", ".join(sorted(self._keys)[:20]) or "nothing"
        return [
            ViewFinding(name, f"the server has no tool, prompt or resource {name!r}; it has {listed}")
            for name in self._views.unknown(self._keys)
        ]

    def require_match(self) -> None:
        """Refuse views that do not match, when all lists of the upstream were given.

        Raises:
            DefinitionError: there are findings; the message lists all.
        """
        raise_findings([*self.findings, *self.unknown()])

    def log_findings(self) -> None:
        """Warn of views that do not match, and say that their definitions are withheld."""
        for finding in self.findings:
            _logger.warning("%s. It is withheld from clients.", finding)


def _reshaped(entry: Entry, view: View) -> Entry:
    return msgspec.structs.replace(
        entry,
        name=view.name or entry.name,
        title=view.title or entry.title,
        description=view.description or entry.description,
        meta=entry.meta if view.meta is None else {**(entry.meta or {}), **view.meta},
    )
