"""`Skills`: the skills extension on a server.

The extension keeps a shelf: the skills as they were when they were last looked at. A shelf is never changed. Each
request of a list, a skill or a folder looks at the sources again, in a thread, and a change makes a new shelf.
A skill that can no longer be served is left out of the shelf, and the reason is logged once.

The SKILL.md of each skill is also listed as a resource. `resources/read` reads the files of the shelf, and no others.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from os import PathLike
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Protocol, TypeVar

from dragoman import types
from dragoman.errors import DefinitionError, InvalidParams, ResourceNotFound
from dragoman.protocol.official.skills import DOCUMENT, GET, LIST, READ_DIRECTORY, ROW, SCHEME, folder_of, path_within
from dragoman.runtime.offload import offload
from dragoman.schema.python import docstrings
from dragoman.server.define.definition import snake_case
from dragoman.server.define.resources import Resource
from dragoman.server.extensions.contract import ExtensionHandler, ResourceReader, ServerExtension
from dragoman.server.extensions.skill_files import (
    DynamicSkill,
    ServedSkill,
    Skill,
    SkillFolder,
    mime_type_of,
    read_file,
)
from dragoman.server.registry import paginate, read_cursor
from dragoman.types.skills import (
    GetSkillRequestParams,
    GetSkillResult,
    ListSkillsResult,
    ReadDirectoryRequestParams,
    ReadDirectoryResult,
)

if TYPE_CHECKING:
    from dragoman.server.request.context import Context
    from dragoman.server.server import Server

PAGE_SIZE = 20
"""The skills on a page: each may list 512 files, and a message has a limit."""
Function = TypeVar("Function", bound=Callable[..., object])
_logger = logging.getLogger("dragoman.server")


class SkillSource(Protocol):
    """Where skills come from."""

    def current(self) -> Iterable[ServedSkill | DefinitionError]:
        """Return each skill as it is now, or why it cannot be served."""


class Shelf:
    """The skills of a server at one time, and why others cannot be served: two skills never have the same name."""

    def __init__(self, found: Iterable[ServedSkill | DefinitionError] = ()) -> None:
        self.skills: dict[str, ServedSkill] = {}
        """The skills by the URI of their SKILL.md."""
        self.problems: list[DefinitionError] = []
        names: dict[str, str] = {}
        for one in found:
            if isinstance(one, DefinitionError):
                self.problems.append(one)
            elif one.name in names:
                both = f"{names[one.name]} and {one.entry.uri}"
                self.problems.append(DefinitionError(f"Two skills are called {one.name!r}: {both}; rename one"))
            else:
                names[one.name] = one.entry.uri
                self.skills[one.entry.uri] = one
        self.files = {uri: skill for skill in self.skills.values() for uri in skill.files}
        self.folders = {uri: skill for skill in self.skills.values() for uri in skill.folders}
        self.dynamic = [skill for skill in self.skills.values() if skill.make is not None]


class Skills(ServerExtension):
    """The skills of a server; `server.add_skills`, `add_skill` and `skill` install it."""

    rows = (ROW,)

    def __init__(self) -> None:
        self._sources: tuple[SkillSource, ...] = ()
        self._shelf = Shelf()
        self._refreshing = Lock()
        self._told: set[str] = set()
        """What was logged about skills that cannot be served."""

    def bind(self, server: Server) -> None:
        """Keep the server, whose resources list each SKILL.md."""
        self._server = server

    def settings(self) -> types.Json | None:
        """Declare the extension if there are skills."""
        return super().settings() if self._sources else None

    def check(self) -> None:
        """Refuse a server that does not declare resources, by which skills are read."""
        if self._sources and self._server.capabilities.resources is None:
            raise DefinitionError("Skills are read as resources: let `capabilities` declare resources too")

    def handlers(self) -> Mapping[str, ExtensionHandler]:
        """Return the handlers of the methods of skills."""
        return {LIST: self.list_skills, GET: self.get_skill, READ_DIRECTORY: self.read_directory}

    # Registration.

    def add(self, source: SkillSource) -> None:
        """Add skills; if one of them cannot be served, none is added.

        Raises:
            DefinitionError: a skill breaks a rule, or two skills have the same name.
        """
        with self._refreshing:
            shelf = Shelf([*self._shelf.skills.values(), *source.current()])
            if shelf.problems:
                raise shelf.problems[0]
            self._put(shelf)
            self._sources = (*self._sources, source)
        self._server.renew()

    def add_skill(self, skill: object, prefix: str) -> None:
        """Add a folder that is a skill, or a `Skill`."""
        if isinstance(skill, str | PathLike):
            self.add_folder(skill, prefix, is_skill=True)
        elif not isinstance(skill, Skill):
            raise DefinitionError(f"{skill!r} is not a skill: give the path of a folder, or a Skill(...)")
        elif prefix:
            raise DefinitionError(f"The prefix of {skill!r} is given when it is made: Skill(..., prefix={prefix!r})")
        else:
            self.add(skill)

    def add_folder(self, folder: str | PathLike[str], prefix: str, *, is_skill: bool) -> None:
        """Add the skills of a folder on disk, or the skill that the folder is."""
        path = Path(folder)
        if not path.is_dir():
            raise DefinitionError(f"There is no folder {str(path)!r} with {'a skill' if is_skill else 'skills'}")
        self.add(SkillFolder(path, prefix, is_skill=is_skill))

    def add_function(
        self,
        function: Function,
        name: str | None,
        description: str | None,
        prefix: str,
        fields: types.Json | None,
    ) -> Function:
        """Add a dynamic skill, whose name and description are by default those of the function."""
        known = name or snake_case(getattr(function, "__name__", "")).replace("_", "-")
        told = description or docstrings.parse(function.__doc__).description or ""
        self.add(DynamicSkill(function, known, told, prefix, fields))
        return function

    # The shelf.

    def refresh(self) -> Shelf:
        """Look at the sources again, and return the shelf."""
        with self._refreshing:
            shelf = Shelf(one for source in self._sources for one in source.current())
            problems = {str(problem) for problem in shelf.problems}
            for problem in sorted(problems - self._told):
                _logger.warning("A skill cannot be served: %s", problem)
            self._told = problems
            is_changed = shelf.skills != self._shelf.skills
            if is_changed:
                self._put(shelf)
        if is_changed:
            self._server.notify_resources_list_changed()
        return shelf

    def _put(self, shelf: Shelf) -> None:
        """Put another shelf in place, and list each SKILL.md on it as a resource."""
        before, registry = self._shelf.skills, self._server.registry
        for uri, skill in shelf.skills.items():
            if uri not in before and uri in registry.resources:
                raise DefinitionError(f"{uri!r} is registered already, and cannot be a skill too")
            if uri in before and before[uri].entry == skill.entry:
                continue
            registry.resources.pop(uri, None)
            self._server.add_resource(_listed(skill))
        for uri in before.keys() - shelf.skills.keys():
            registry.resources.pop(uri, None)  # the author may have replaced the resources
        self._shelf = shelf
        registry.renew()

    # Requests.

    async def list_skills(self, ctx: Context, params: types.PaginatedRequestParams) -> types.Result:  # noqa: ARG002
        """Return a page of skills."""
        shelf = await offload(self.refresh)
        entries = [skill.entry for skill in shelf.skills.values()]
        return paginate(ListSkillsResult, entries, read_cursor(params.cursor), PAGE_SIZE)

    async def get_skill(self, ctx: Context, params: GetSkillRequestParams) -> types.Result:  # noqa: ARG002
        """Return one skill."""
        skill = (await offload(self.refresh)).skills.get(params.uri)
        if skill is None:
            raise InvalidParams(f"Unknown skill: {params.uri}", {"uri": params.uri})
        return GetSkillResult(skill=skill.entry)

    async def read_directory(self, ctx: Context, params: ReadDirectoryRequestParams) -> types.Result:  # noqa: ARG002
        """Return the files and folders of a folder of a skill."""
        skill = (await offload(self.refresh)).folders.get(params.uri)
        if skill is None:
            raise InvalidParams(f"Unknown directory: {params.uri}", {"uri": params.uri})
        return paginate(ReadDirectoryResult, skill.children(params.uri), read_cursor(params.cursor), PAGE_SIZE)

    def reader(self, uri: str) -> ResourceReader | None:
        """Return the function that reads a file of a skill."""
        shelf = self._shelf
        if uri in shelf.files:
            return partial(_read, shelf.files[uri], uri)
        for skill in shelf.dynamic:
            path = path_within(folder_of(skill.entry.uri), uri)
            if path is not None:
                return partial(_make, skill, uri, path)
        return partial(self._read_new, uri) if self._may_be_new(uri) else None

    def _may_be_new(self, uri: str) -> bool:
        """Tell whether a file may have come since the last look, which another process of the server has listed."""
        server = self._server
        return (
            uri.startswith(SCHEME)
            and any(isinstance(source, SkillFolder) for source in self._sources)
            and "on_read_resource" not in server.registry.hooks
            and uri not in server.registry.resources
            and all(template.match(uri) is None for template in list(server.registry.templates.values()))
        )

    async def _read_new(self, uri: str, ctx: Context) -> types.ResourceContents:
        skill = (await offload(self.refresh)).files.get(uri)
        if skill is None:
            raise ResourceNotFound(uri)
        return await _read(skill, uri, ctx)


def _listed(skill: ServedSkill) -> Resource[..., object]:
    fields = skill.entry.frontmatter
    document = skill.files.get(skill.entry.uri)
    return Resource(
        uri=skill.entry.uri,
        name=skill.name,
        description=fields["description"],
        mime_type=mime_type_of(DOCUMENT),
        size=None if document is None else document.size,
    )


async def _read(skill: ServedSkill, uri: str, ctx: Context) -> types.ResourceContents:  # noqa: ARG001
    try:
        data = await offload(read_file, skill.files[uri], skill.root)
    except OSError as error:
        _logger.warning("A file of a skill cannot be read: %s", error)
        raise ResourceNotFound(uri) from None
    return _contents(uri, data)


async def _make(skill: ServedSkill, uri: str, path: str, ctx: Context) -> types.ResourceContents:
    assert skill.make is not None
    made = await skill.make(ctx._call, path)
    if made is None:
        raise ResourceNotFound(uri)
    if not isinstance(made, str | bytes):
        raise TypeError(f"The function of the skill {skill.name!r} must return text, bytes or None, not {made!r}")
    return _contents(uri, made.encode() if isinstance(made, str) else made)


def _contents(uri: str, data: bytes) -> types.ResourceContents:
    """Return contents from which a client gets exactly these bytes: text if they are UTF-8, else a blob."""
    kind = mime_type_of(uri)
    try:
        return types.ResourceContents(uri, kind or "text/plain", text=data.decode())
    except UnicodeDecodeError:
        return types.ResourceContents(uri, kind or "application/octet-stream", blob=data)
