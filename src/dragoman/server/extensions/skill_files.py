"""The skills of a server, with their files: from folders, from objects, and from functions.

A `SkillFolder` is looked at again at each list. A file keeps its digest if its size, its number and the times of its
last changes are the same; any other file is read and hashed anew. The modification time alone does not do, because
programs that copy and unpack files set it. A skill that breaks a rule is refused as a whole; the refusal names the
path.

A symbolic link to a file of the same skill is served as that file. Any other link is refused, because it could lead to
a file that the author did not mean to publish. A link to a folder is refused too, also beside the skills.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct

from dragoman import types
from dragoman.errors import DefinitionError, ValidationError
from dragoman.protocol.official.frontmatter import read_frontmatter, write_frontmatter
from dragoman.protocol.official.skills import (
    DOCUMENT,
    DYNAMIC,
    FOLDER_TYPE,
    MAX_BYTES,
    check_frontmatter,
    check_limits,
    digest_of,
    file_uri,
    folder_of,
    path_within,
    skill_uri,
)
from dragoman.server.define.binding import Hook, signature_of
from dragoman.server.request.call import Call
from dragoman.types.skills import Skill as SkillEntry
from dragoman.types.skills import SkillResource

_SKIPPED = frozenset({"__pycache__", "node_modules"})
_TYPES = {".md": "text/markdown", ".yaml": "application/yaml", ".yml": "application/yaml", ".py": "text/x-python"}


class ServedFile(Struct, frozen=True):
    """A file of a skill: its bytes, or the path from which they are read."""

    size: int
    digest: str
    data: bytes | None = None
    path: str = ""
    stamp: tuple[int, ...] = ()
    """The times of the last changes, the size and the number of the file on disk."""


class ServedSkill(Struct, frozen=True):
    """A skill of a server, as it is at one time."""

    entry: SkillEntry
    files: Mapping[str, ServedFile]
    """The files by URI; empty for a dynamic skill."""
    folders: frozenset[str]
    """The URIs of its folders, its own among them."""
    root: str = ""
    """The folder on disk, without links in its path."""
    make: Callable[[Call, str], Awaitable[object]] | None = None
    """Makes the file at a path; only for a dynamic skill."""

    @property
    def name(self) -> str:
        """The name of the skill."""
        return str(self.entry.frontmatter["name"])

    def children(self, folder: str) -> list[types.Resource]:
        """Return the files and folders directly in a folder of the skill."""
        sizes: dict[str, int | None] = {uri: file.size for uri, file in self.files.items()} or {self.entry.uri: None}
        found = [(path_within(folder, uri), uri) for uri in (*self.folders, *sizes)]
        return [
            types.Resource(
                name=path,
                uri=uri,
                mime_type=FOLDER_TYPE if uri in self.folders else mime_type_of(uri),
                size=sizes.get(uri),
            )
            for path, uri in sorted(found, key=lambda one: one[1])
            if path is not None and "/" not in path
        ]


def mime_type_of(uri: str) -> str | None:
    """Return the MIME type of a file, by its name; None if the name does not say it."""
    import mimetypes

    suffix = os.path.splitext(uri)[1].lower()  # noqa: PTH122
    return _TYPES.get(suffix) or mimetypes.types_map.get(suffix)


class Skill:
    """A skill that is made in Python: the text of its SKILL.md, and its other files by their paths.

    Example:
        refunds = Skill("refunds", "How to refund a payment.", "Read references/LIMITS.md first.",
                        files={"references/LIMITS.md": "At most 100 euros."})
        server.add_skill(refunds)

    `text` is what follows the frontmatter, which is made of `name`, `description` and `fields`, such as `license` and
    `metadata`. `prefix` is a path before the name, such as "acme/billing".

    Raises:
        DefinitionError: the name, a field or a path breaks a rule of skills.
    """

    def __init__(
        self,
        name: str,
        description: str,
        text: str,
        *,
        files: Mapping[str, str | bytes] | None = None,
        prefix: str = "",
        fields: types.Json | None = None,
    ) -> None:
        entry, document = _described(name, description, fields, prefix)
        folder = folder_of(entry.uri)
        held = {DOCUMENT: document + text, **(files or {})}
        found = {file_uri(folder, _segments(path)): _bytes(content) for path, content in held.items()}
        _require(repr(name), check_limits, map(len, found.values()))
        served = {uri: ServedFile(len(data), digest_of(data), data) for uri, data in found.items()}
        entry.resources = _resources(served)
        self._served = ServedSkill(entry, served, _folders(folder, served))

    def __repr__(self) -> str:
        return f"<Skill {self._served.entry.uri!r}>"

    def current(self) -> Iterator[ServedSkill | DefinitionError]:
        """Yield the skill."""
        yield self._served


class DynamicSkill:
    """A skill whose files a function makes for each request."""

    def __init__(
        self, function: Callable[..., object], name: str, description: str, prefix: str, fields: types.Json | None
    ) -> None:
        entry, document = _described(name, description, fields, prefix)
        hook, takes_path = Hook(function), bool(signature_of(function).parameters)

        async def make(call: Call, path: str) -> object:
            made = await hook.invoke(call, path) if takes_path or path == DOCUMENT else None
            return document + made if path == DOCUMENT and isinstance(made, str) else made

        self._served = ServedSkill(entry, {}, frozenset({folder_of(entry.uri)}), make=make)

    def current(self) -> Iterator[ServedSkill | DefinitionError]:
        """Yield the skill."""
        yield self._served


class SkillFolder:
    """The skills below a folder on disk; `is_skill` says that the folder itself is one."""

    def __init__(self, path: Path, prefix: str, *, is_skill: bool) -> None:
        self._path = path
        self._is_skill = is_skill
        self._above = [*_prefix(prefix), *([Path(os.path.abspath(path)).name] if is_skill else [])]  # noqa: PTH100
        self._files: dict[str, ServedFile] = {}
        self._documents: dict[str, tuple[bytes, types.Json | None]] = {}
        """Each SKILL.md by path: its bytes, and its frontmatter once it was read."""

    def current(self) -> Iterator[ServedSkill | DefinitionError]:
        """Yield each skill as it is now, or why it cannot be served."""
        try:
            tree = sorted(_walk(str(self._path)))
        except OSError as error:
            yield DefinitionError(f"{error.filename} cannot be read: {error.strerror}")
            return
        present = {path for path, _ in tree}
        self._files = {path: file for path, file in self._files.items() if path in present}
        skills = [path.rpartition("/")[0] for path, is_folder in tree if not is_folder and _is_document(path)]
        yield from self._misplaced(tree, skills)
        for folder in skills:
            inside = [one for one in tree if not folder or one[0].startswith(f"{folder}/")]
            try:
                yield self._skill(folder, inside)
            except (ValidationError, OSError) as error:
                yield DefinitionError(f"{self._path / folder}: {error}")

    def _misplaced(self, tree: list[tuple[str, bool]], skills: list[str]) -> Iterator[DefinitionError]:
        """Yield an error for each folder that should be a skill and is none."""
        if self._is_skill:
            if "" not in skills:
                yield DefinitionError(f"{self._path} is not a skill: it has no {DOCUMENT}")
            return
        for path in (path for path, is_folder in tree if not is_folder and (self._path / path).is_dir()):
            if not any(path.startswith(f"{one}/") for one in skills):
                yield DefinitionError(f"{self._path / path} is a link to a folder: copy the folder instead")
        if "" in skills:
            yield DefinitionError(f"{self._path} is a skill itself: register it with server.add_skill")
        if not skills:
            yield DefinitionError(f"{self._path} has no skills: a skill is a folder with a {DOCUMENT}")
        for folder in (path for path, is_folder in tree if is_folder and "/" not in path):
            if not any(f"{one}/".startswith(f"{folder}/") for one in skills):
                yield DefinitionError(f"{self._path / folder} is not a skill: it has no {DOCUMENT}")

    def _skill(self, folder: str, inside: list[tuple[str, bool]]) -> ServedSkill:
        root = os.path.realpath(self._path / folder)
        facts = {path: self._facts(path, root) for path, is_folder in inside if not is_folder}
        check_limits(one.st_size for one in facts.values())
        files = {self._uri(path): self._file(path, one) for path, one in facts.items()}
        document = f"{folder}/{DOCUMENT}" if folder else DOCUMENT
        fields = self._frontmatter(document)
        check_frontmatter(fields, [*self._above, *folder.split("/")][-1] if folder else self._above[-1])
        entry = SkillEntry(uri=self._uri(document), frontmatter=fields, resources=_resources(files))
        folders = {self._uri(path) for path, is_folder in inside if is_folder} | {folder_of(entry.uri)}
        return ServedSkill(entry, files, frozenset(folders), root)

    def _uri(self, path: str) -> str:
        try:
            return skill_uri([*self._above, *path.split("/")])
        except UnicodeEncodeError:
            raise ValidationError(f"the name of the file {path!r} is not valid Unicode: rename the file") from None

    def _facts(self, path: str, root: str) -> os.stat_result:
        place = str(self._path / path)
        if os.path.islink(place) and not _is_within(os.path.realpath(place), root):  # noqa: PTH114
            raise ValidationError(f"{path} is a link that leads out of the skill: copy the file instead")
        facts = os.stat(place)  # noqa: PTH116
        if not stat.S_ISREG(facts.st_mode):
            raise ValidationError(f"{path} is neither a file nor a folder: copy what it stands for instead")
        if facts.st_size > MAX_BYTES:
            raise ValidationError(f"{path} has {facts.st_size:,} bytes, and a skill has at most {MAX_BYTES:,}")
        return facts

    def _file(self, path: str, facts: os.stat_result) -> ServedFile:
        stamp = facts.st_mtime_ns, facts.st_ctime_ns, facts.st_size, facts.st_ino
        known = self._files.get(path)
        if known is None or known.stamp != stamp:
            data = (self._path / path).read_bytes()
            known = self._files[path] = ServedFile(len(data), digest_of(data), path=str(self._path / path), stamp=stamp)
            if _is_document(path):
                self._documents[path] = data, None
        return known

    def _frontmatter(self, path: str) -> types.Json:
        data, fields = self._documents[path]
        if fields is None:
            try:
                fields = read_frontmatter(data.decode())
            except UnicodeDecodeError:
                raise ValidationError(f"{DOCUMENT} is not UTF-8") from None
            self._documents[path] = data, fields
        return fields


def read_file(file: ServedFile, root: str) -> bytes:
    """Return the bytes of a file.

    Raises:
        OSError: the file is gone, is too large, or leads out of its skill now.
    """
    if file.data is not None:
        return file.data
    place = os.path.realpath(file.path)
    if not _is_within(place, root):
        raise PermissionError(f"{file.path} leads out of its skill")
    with open(place, "rb") as opened:  # noqa: PTH123
        data = opened.read(MAX_BYTES + 1)
    if len(data) > MAX_BYTES:
        raise OSError(f"{file.path} has more than {MAX_BYTES:,} bytes")
    return data


def _walk(root: str, below: str = "") -> Iterator[tuple[str, bool]]:
    """Yield the path of each file and folder below a folder, and whether it is a folder; hidden ones are left out."""
    for entry in os.scandir(f"{root}/{below}"):
        if not entry.name.startswith(".") and entry.name not in _SKIPPED:
            is_folder = entry.is_dir(follow_symlinks=False)
            yield f"{below}{entry.name}", is_folder
            if is_folder:
                yield from _walk(root, f"{below}{entry.name}/")


def _is_document(path: str) -> bool:
    return path == DOCUMENT or path.endswith(f"/{DOCUMENT}")


def _is_within(path: str, root: str) -> bool:
    return path.startswith(root.rstrip(os.sep) + os.sep)


def _described(name: str, description: str, fields: types.Json | None, prefix: str) -> tuple[SkillEntry, str]:
    """Return the entry of a skill that is made in Python, without files, and its frontmatter as text.

    Raises:
        DefinitionError: the name, a field or the prefix breaks a rule of skills.
    """
    held = {"name": name, "description": description, **(fields or {})}
    _require(repr(name), check_frontmatter, held, name)
    try:
        document = write_frontmatter(held)
    except (TypeError, ValueError) as error:
        raise DefinitionError(f"The fields of the skill {name!r} must be JSON: {error}") from None
    uri = skill_uri([*_prefix(prefix), name, DOCUMENT])
    return SkillEntry(uri=uri, frontmatter=held, resources=DYNAMIC), document


def _require(what: str, check: Callable[..., None], *values: Any) -> None:
    try:
        check(*values)
    except ValidationError as error:
        raise DefinitionError(f"The skill {what} cannot be served: {error}") from None


def _prefix(prefix: str) -> list[str]:
    return _segments(prefix) if prefix else []


def _segments(path: str) -> list[str]:
    segments = path.split("/")
    if any(segment in ("", ".", "..") or "\\" in segment or "\0" in segment for segment in segments):
        raise DefinitionError(f"A path in a skill is relative, such as 'references/FORMS.md', not {path!r}")
    return segments


def _bytes(content: object) -> bytes:
    if not isinstance(content, str | bytes):
        raise DefinitionError(f"A file of a skill is a text or bytes, not {type(content).__name__}")
    return content.encode() if isinstance(content, str) else content


def _folders(folder: str, uris: Iterable[str]) -> frozenset[str]:
    found = {folder}
    for uri in uris:
        parts = uri.split("/")[:-1]
        found |= {"/".join(parts[:length]) for length in range(folder.count("/") + 2, len(parts) + 1)}
    return frozenset(found)


def _resources(files: Mapping[str, ServedFile]) -> list[SkillResource]:
    return [SkillResource(uri=uri, digest=file.digest, size=file.size) for uri, file in sorted(files.items())]
