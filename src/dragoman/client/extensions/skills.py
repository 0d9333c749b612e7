"""Skills on a client: listing them, loading them, and reading their files, with the duties of a host (SEP-2640).

Nothing of a skill is fetched before it is loaded. `load` asks for approval, reads the SKILL.md, and compares its size,
its digest and its frontmatter with the entry that the server listed. `read` reads files of a loaded skill, and only
those that the entry lists, each compared with its size and digest. A file that differs is refused, and not given out.

An approval counts for one skill of one client, and for one set of digests:

    listed --load, approved--> loaded --another set of digests is listed, or a file differs--> listed

A dynamic skill has no digests, so that each load of it is approved anew. The skills inside a skill are approved by
themselves. The content of a skill is text of its server, and is never run here.

Rejected: a cache on disk. It would have to be hashed again at each access, and the server is asked quickly enough.
"""

from __future__ import annotations

import logging
from collections import Counter
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import unquote
from weakref import WeakKeyDictionary

from dragoman.client.answer.approval import Approval, ApprovalHandler
from dragoman.client.options import RequestOptions
from dragoman.client.results import contents_bytes
from dragoman.client.twins import BoundTwin, blocking_twin
from dragoman.errors import MethodNotFound, NotFound, PaginationLimit, SkillRefused, ToolError, ValidationError
from dragoman.protocol.official.skills import (
    DOCUMENT,
    DYNAMIC,
    GET,
    ID,
    LIST,
    check_document,
    check_entry,
    check_file,
    file_uri,
    folder_of,
    path_within,
    resolved_path,
)
from dragoman.runtime.callables import blocking
from dragoman.runtime.offload import offload
from dragoman.types.skills import GetSkillResult, ListSkillsResult, Skill, SkillResource

if TYPE_CHECKING:
    from typing import Self

    from dragoman.client.blocking import Client
    from dragoman.client.client import AsyncClient

T = TypeVar("T")
MAX_PAGES = 1000
Digests = frozenset[tuple[str, str]]
_approved: WeakKeyDictionary[AsyncClient, dict[str, Digests]] = WeakKeyDictionary()
"""The skills of each client that were approved and loaded, by URI, with the digests that were approved."""
_logger = logging.getLogger("dragoman.client")


async def list_skills(client: AsyncClient, origin: str | None = None) -> list[AsyncBoundSkill]:
    """Return the skills that a server lists; entries that break a rule are left out, with a warning."""
    connection = await client._session.start()
    if not connection.offers("extensions", ID):
        return []
    try:
        listed = await _all_pages(client)
    except MethodNotFound:
        if connection.knows_capabilities:
            raise
        return []
    copies = Counter(entry.uri for entry in listed)
    found: list[AsyncBoundSkill] = []
    for entry in listed:
        problem = f"{entry.uri} is listed {copies[entry.uri]} times" if copies[entry.uri] > 1 else _problem(entry)
        if problem is None:
            found.append(AsyncBoundSkill(client, entry, origin))
        else:
            _logger.warning("%s: a skill was left out: %s", LIST, problem)
    return found


def _problem(entry: Skill) -> str | None:
    try:
        check_entry(entry)
    except ValidationError as error:
        return str(error)
    return None


async def _all_pages(client: AsyncClient) -> list[Skill]:
    entries: list[Skill] = []
    cursor: str | None = None
    seen: set[str | None] = set()
    while cursor not in seen:
        if len(seen) >= MAX_PAGES:
            raise PaginationLimit(f"There are more than {MAX_PAGES} pages of skills")
        seen.add(cursor)
        params = {} if cursor is None else {"cursor": cursor}
        page = await client._session.request(LIST, params, ListSkillsResult, RequestOptions(is_repeatable=True))
        entries += page.skills
        cursor = page.next_cursor
        if cursor is None:
            break
    return entries


async def find_skill(client: AsyncClient, name: str) -> AsyncBoundSkill:
    """Return a skill by its name, or by the URI of its SKILL.md, which need not be listed.

    Raises:
        NotFound: the server has no such skill, or several of that name.
    """
    from difflib import get_close_matches

    if "://" in name:
        return await get_skill(client, name)
    skills = await list_skills(client)
    alike = [skill for skill in skills if skill.name == name]
    if len(alike) == 1:
        return alike[0]
    raise NotFound(
        "skill", name, [skill.uri for skill in alike] or get_close_matches(name, [one.name for one in skills])
    )


async def get_skill(client: AsyncClient, uri: str, origin: str | None = None) -> AsyncBoundSkill:
    """Return the skill whose SKILL.md has a URI.

    Raises:
        RpcError: the server has no such skill.
        SkillRefused: the entry breaks a rule.
    """
    options = RequestOptions(is_repeatable=True)
    entry = (await client._session.request(GET, {"uri": uri}, GetSkillResult, options)).skill
    problem = f"The server gave the skill {entry.uri} instead of {uri}" if entry.uri != uri else _problem(entry)
    if problem is not None:
        raise SkillRefused(problem, uri)
    return AsyncBoundSkill(client, entry, origin)


class SkillView:
    """A skill as a server lists it."""

    entry: Skill

    @property
    def origin(self) -> str | None:
        """The name of the server; use it and the URI together to tell skills apart."""
        raise NotImplementedError

    @property
    def uri(self) -> str:
        """The URI of the SKILL.md."""
        return self.entry.uri

    @property
    def name(self) -> str:
        """The name, which another skill may have too."""
        return str(self.entry.frontmatter["name"])

    @property
    def description(self) -> str:
        """What the skill is for, in the words of the server."""
        return str(self.entry.frontmatter["description"])

    @property
    def is_dynamic(self) -> bool:
        """Whether the server makes the files anew each time, so that they cannot be verified."""
        return self.entry.resources == DYNAMIC

    @property
    def files(self) -> dict[str, SkillResource]:
        """The files by their paths in the skill; empty for a dynamic skill."""
        if isinstance(self.entry.resources, str):
            return {}
        folder = folder_of(self.uri)
        return {path_within(folder, one.uri) or "": one for one in self.entry.resources}

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name!r} of {self.origin!r}>"


class AsyncBoundSkill(SkillView):
    """A skill of a server, bound to the client that found it.

    Example:
        skill = await client.skill("pdf-processing")
        text = await skill.load(approve=ask_the_user)
        forms = await skill.read("references/FORMS.md")
    """

    def __init__(self, client: AsyncClient, entry: Skill, origin: str | None = None) -> None:
        self._client = client
        self._origin = origin
        self.entry = entry
        self._is_loaded = False
        held = _approved.get(client, {})
        if held.get(entry.uri, self._digests) != self._digests:
            del held[entry.uri]  # MUST (SEP-2640): an approval ends when the set of digests is another one

    def _bound_to(self, client: AsyncClient) -> Self:
        return type(self)(client, self.entry, self._origin)

    @property
    def origin(self) -> str | None:
        """The name of the server: that of its group, else the client's `server_name`."""
        return self._origin or self._client.server_name

    @property
    def _digests(self) -> Digests:
        return frozenset((one.uri, one.digest) for one in self.files.values())

    @property
    def is_approved(self) -> bool:
        """Whether the skill was approved and loaded with the digests that are listed now."""
        return not self.is_dynamic and _approved.get(self._client, {}).get(self.uri) == self._digests

    async def load(self, *, approve: ApprovalHandler | bool | None = None) -> str:
        """Ask for approval, verify the SKILL.md and return its text; afterwards `read` returns the other files.

        `approve` decides as `on_approval` of a client does: a function of an `Approval`, whose arguments have the URI,
        the frontmatter and the files. None stands for the client's `on_approval`; without one, the call itself is the
        approval. If the skill was approved with the same digests before, nobody is asked again.

        Raises:
            SkillRefused: the skill was not approved, or differs from what the server listed.
            RpcError: the server does not have the file.
        """
        if not self.is_approved:
            await self._require_approval(self._client.on_approval if approve is None else approve)
        data, _ = await self._fetch(self.uri, self.files.get(DOCUMENT))
        try:
            text = await offload(check_document, self.entry, data)
        except ValidationError as error:
            raise self._refused(str(error)) from None
        self._is_loaded = True
        _approved.setdefault(self._client, {})[self.uri] = self._digests
        return text

    async def _require_approval(self, handler: Any) -> None:
        if handler is None or handler is True:
            return
        files = [{"path": path, "size": one.size, "digest": one.digest} for path, one in self.files.items()]
        about = {"uri": self.uri, "frontmatter": self.entry.frontmatter, "files": files or DYNAMIC}
        # No tool has a name with a colon, so that a handler takes a skill for no tool that it approves of.
        approval = Approval(f"skill:{self.name}", about, server=self.origin)
        try:
            if handler is not False:
                await self._client._approvals.decide(handler, approval, self._client._approval_timeout)
        except ToolError:
            _logger.debug("The skill %s was not approved", self.uri)
        if not approval.approved:
            reason = f": {approval.reason}" if approval.reason else ""
            raise self._refused(f"The skill {self.name!r} of {self.origin!r} was not approved{reason}")

    async def read(self, path: str) -> str | bytes:
        """Return a file of the skill, after it was verified: text, or bytes if it is no text.

        Example:
            await skill.read("references/FORMS.md")

        Raises:
            SkillRefused: the skill is not loaded, does not list the file, or the file differs from what was listed.
            RpcError: the server does not have the file.
        """
        if not (self._is_loaded or self.is_approved):
            raise SkillRefused(f"The skill {self.name!r} is not loaded: load() it before you read its files", self.uri)
        uri, listed = self._resolved(path)
        data, is_text = await self._fetch(uri, listed)
        return data.decode() if is_text else data

    def _resolved(self, reference: str) -> tuple[str, SkillResource | None]:
        """Return the URI of a file that the SKILL.md refers to, and what was listed of it.

        Raises:
            SkillRefused: the skill does not list the file, or it belongs to a skill inside this one.
        """
        folder, plain = folder_of(self.uri), reference.partition("#")[0]
        path = path_within(folder, plain) if "://" in plain else resolved_path(plain)
        if path is not None and path not in self.files:
            path = unquote(path)
        if path is None or not (self.is_dynamic or path in self.files):
            raise SkillRefused(f"The skill {self.name!r} does not list the file {reference!r}", self.uri)
        for inner in (one.removesuffix(DOCUMENT) for one in self.files if one.endswith(f"/{DOCUMENT}")):
            nested = file_uri(folder, [*inner.split("/")[:-1], DOCUMENT])
            if path.startswith(inner) and nested not in _approved.get(self._client, {}):
                raise SkillRefused(f"{path} belongs to another skill, {nested}: load that skill by itself", self.uri)
        listed = self.files.get(path)
        return file_uri(folder, path.split("/")) if listed is None else listed.uri, listed

    async def _fetch(self, uri: str, listed: SkillResource | None) -> tuple[bytes, bool]:
        """Return the verified bytes of a file, and whether the server sent them as text."""
        contents = (await self._client.read_resource(uri)).contents
        if len(contents) != 1:
            raise self._refused(f"The server gave {len(contents)} contents for {uri}, and a file is one")
        try:
            data = contents_bytes(contents[0])
            if listed is not None:
                await offload(check_file, listed, data)
        except ValidationError as error:
            raise self._refused(str(error)) from None
        return data, contents[0].blob is None

    def _refused(self, message: str) -> SkillRefused:
        """Return an error, and end the approval of the skill."""
        self._is_loaded = False
        _approved.get(self._client, {}).pop(self.uri, None)
        return SkillRefused(message, self.uri)

    async def refresh(self) -> Self:
        """Return the skill as the server has it now; if its digests are others, it needs another approval.

        Raises:
            RpcError: the server does not have the skill any more.
            SkillRefused: the entry breaks a rule.
        """
        return type(self)(self._client, (await get_skill(self._client, self.uri)).entry, self._origin)


class BoundSkill(BoundTwin[AsyncBoundSkill], SkillView):
    """A skill of a server, bound to the client that found it; its methods block.

    Example:
        skill = client.skill("pdf-processing")
        text = skill.load(approve=ask_the_user)
        forms = skill.read("references/FORMS.md")
    """

    def __init__(self, client: Client, twin: AsyncBoundSkill) -> None:
        super().__init__(client, twin)
        self.entry = twin.entry

    @property
    def origin(self) -> str | None:
        """The name of the server: that of its group, else the client's `server_name`."""
        return self.asynchronous.origin

    @property
    def is_approved(self) -> bool:
        """Whether the skill was approved and loaded with the digests that are listed now."""
        return self.asynchronous.is_approved

    load = blocking(AsyncBoundSkill.load)
    read = blocking(AsyncBoundSkill.read)
    refresh = blocking_twin(AsyncBoundSkill.refresh, lambda client, twin: BoundSkill(client, twin))
