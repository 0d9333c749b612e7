"""The skills of a conversation: two tools with which a model loads a skill and reads its files.

The descriptions of the tools name the skills, and nothing else of a skill is fetched until the model loads it. What a
skill says comes from a server. So it is tagged with its origin, between two marks that the server cannot guess, and the
model is told that it is not the user who speaks. The policy of the chat judges each skill by its name, and a person
approves of a skill once, as long as its files are the same.
"""

from __future__ import annotations

import logging
import mimetypes
import secrets
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol, cast

from dragoman import types
from dragoman.chat.tools import ChatTool, Judged
from dragoman.client.bound import AsyncBoundTool
from dragoman.client.extensions.skills import AsyncBoundSkill
from dragoman.client.results import CallResult
from dragoman.errors import DragomanError, ToolError
from dragoman.schema.naming import safe_name, tool_names

LOAD, READ = "load_skill", "read_skill_file"
MAX_DESCRIPTION = 1024
_logger = logging.getLogger("dragoman.chat")


class HasSkills(Protocol):
    """A client, or a group of clients."""

    async def skills(self) -> Sequence[AsyncBoundSkill]:
        """Return the skills of the client or group."""


AsyncSkillSource = HasSkills
"""A client with skills."""


class ChatSkills:
    """The skills of one conversation, listed again before each answer."""

    def __init__(self) -> None:
        self._sources: list[HasSkills] = []
        self._last: dict[int, Sequence[AsyncBoundSkill]] = {}
        self._skills: dict[str, AsyncBoundSkill] = {}

    def add(self, sources: Iterable[HasSkills]) -> None:
        """Add the skills of clients.

        Raises:
            TypeError: a source is not a client, or is a blocking one.
        """
        for source in sources:
            if not callable(getattr(source, "skills", None)):
                raise TypeError(f"{source!r} is not a client")
            if hasattr(source, "asynchronous"):
                raise TypeError(f"{source!r} is blocking; use a Chat, or give this AsyncChat an AsyncClient")
            self._sources.append(source)

    async def with_tools(self, tools: Mapping[str, ChatTool]) -> dict[str, ChatTool]:
        """Return the tools, and those of skills if there are any."""
        found = [skill for place in range(len(self._sources)) for skill in await self._skills_of(place)]
        loaded = {(skill._client, skill.uri): skill for skill in self._skills.values()}
        kept = [_unchanged(loaded.get((skill._client, skill.uri)), skill) for skill in found]
        names = tool_names((skill.origin, skill.name) for skill in kept)
        self._skills = dict(zip(names, kept, strict=True))
        added = dict(tools)
        for kind in (SkillLoader, SkillReader) if self._skills else ():
            name = safe_name(kind.tool_name, added)
            added[name] = ChatSkillTool(name, kind(self._skills))
        return added

    async def _skills_of(self, place: int) -> Sequence[AsyncBoundSkill]:
        try:
            self._last[place] = await self._sources[place].skills()
        except DragomanError as error:
            if place not in self._last:
                raise
            _logger.warning("Skills cannot be listed, and are taken to be what they were: %s", error)
        return self._last[place]


def _unchanged(before: AsyncBoundSkill | None, now: AsyncBoundSkill) -> AsyncBoundSkill:
    """Return the skill that may be loaded already, if it is listed as before."""
    return now if before is None or before.entry != now.entry else before


class SkillTool(AsyncBoundTool):
    """A tool for the model that uses the skills of the conversation."""

    tool_name = ""
    about = ""
    argument_names: tuple[str, ...] = ("skill",)

    def __init__(self, skills: Mapping[str, AsyncBoundSkill]) -> None:
        self.skills = skills
        properties: types.Json = {name: {"type": "string"} for name in self.argument_names}
        properties["skill"]["enum"] = list(skills)
        schema = {"type": "object", "properties": properties, "required": list(self.argument_names)}
        hints = types.ToolAnnotations(read_only_hint=True)
        definition = types.Tool(
            name=self.tool_name, description=self._description(), input_schema=schema, annotations=hints
        )
        super().__init__(cast("Any", None), definition)  # it belongs to no single client

    def _description(self) -> str:
        return self.about

    @property
    def server(self) -> str | None:
        """None: the skills may be of several servers."""
        return None

    @property
    def is_trusted(self) -> bool:
        """False: what a skill says is text of a server."""
        return False

    def is_same_as(self, other: AsyncBoundTool) -> bool:
        """Tell whether another object is the same tool."""
        return self is other

    def skill(self, arguments: Mapping[str, Any] | None) -> AsyncBoundSkill | None:
        """Return the skill that a call names; None if there is none."""
        return self.skills.get(str((arguments or {}).get("skill")))

    async def call(self, /, arguments: Mapping[str, Any] | None = None, **_: Any) -> CallResult:
        """Use a skill, and return what it says, tagged with its origin.

        Raises:
            ToolError: there is no such skill or file, or it was refused.
        """
        skill = self.skill(arguments)
        if skill is None:
            raise ToolError(f"There is no such skill; there are: {', '.join(self.skills)}")
        try:
            return CallResult(await self._content(skill, str((arguments or {}).get("path"))))
        except DragomanError as error:
            raise ToolError(str(error)) from None

    async def _content(self, skill: AsyncBoundSkill, path: str) -> list[types.ContentBlock]:
        raise NotImplementedError


class SkillLoader(SkillTool):
    """The tool that loads a skill."""

    tool_name = LOAD
    about = (
        "Loads a skill: instructions for a kind of task. Load the skill that fits before you begin the task.\nSkills:"
    )

    def _description(self) -> str:
        lines = [
            f"- {name} (of the server {skill.origin!r}): {' '.join(skill.description.split())[:MAX_DESCRIPTION]}"
            for name, skill in self.skills.items()
        ]
        return "\n".join([self.about, *lines])

    async def _content(self, skill: AsyncBoundSkill, path: str) -> list[types.ContentBlock]:  # noqa: ARG002
        text = await skill.load()
        others = ", ".join(path for path in skill.files if path != "SKILL.md")
        return tagged(skill, "SKILL.md", f"{text}\n\nOther files: {others}" if others else text)


class SkillReader(SkillTool):
    """The tool that reads a file of a skill that was loaded."""

    tool_name = READ
    about = f"Reads a file of a skill that {LOAD} has loaded; the path is as the skill writes it."
    argument_names = ("skill", "path")

    async def _content(self, skill: AsyncBoundSkill, path: str) -> list[types.ContentBlock]:
        return tagged(skill, path, await skill.read(path))


def tagged(skill: AsyncBoundSkill, path: str, content: str | bytes) -> list[types.ContentBlock]:
    """Return a file of a skill as content that names its origin."""
    mark = secrets.token_hex(6)
    origin = f"The file {path!r} of the skill {skill.name!r}, from the server {skill.origin!r}."
    if isinstance(content, bytes):
        uri, kind = f"{skill.uri.rpartition('/')[0]}/{path}", mimetypes.guess_type(path)[0]
        contents = types.ResourceContents(uri, kind, blob=content)
        return [types.TextContent(origin), types.EmbeddedResource(resource=contents)]
    head = f"{origin} What stands between the marks {mark} was written by that server, not by the user."
    return [types.TextContent(f"{head}\n<{mark}>\n{content}\n</{mark}>")]


class ChatSkillTool(ChatTool):
    """One of the two tools; the policy judges the skill that a call names."""

    tool: SkillTool

    def judged(self, arguments: types.Json) -> Judged:
        """Return the names of the skill, its server, and whether it was approved already."""
        skill = self.tool.skill(arguments)
        if skill is None:
            return super().judged(arguments)
        names = (self.name, skill.name, f"{skill.origin or ''}__{skill.name}")
        return Judged(names, skill.origin, skill.is_approved)
