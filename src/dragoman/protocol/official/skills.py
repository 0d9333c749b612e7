"""Skills (`io.modelcontextprotocol/skills`): the row of the extension, and the rules for entries, URIs and files.

A skill is a folder of files with a SKILL.md. Its entry lists every file with size and digest. A server makes entries,
and a client checks what it reads against them. Only the server declares the extension.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from typing import Any, Final
from urllib.parse import quote, unquote

from dragoman import types
from dragoman.errors import ValidationError
from dragoman.protocol.extensions import ExtensionRow
from dragoman.protocol.methods import Method
from dragoman.protocol.official.frontmatter import read_frontmatter
from dragoman.types.skills import (
    GetSkillRequestParams,
    GetSkillResult,
    ListSkillsResult,
    ReadDirectoryRequestParams,
    ReadDirectoryResult,
    Skill,
    SkillResource,
)

ID = "io.modelcontextprotocol/skills"
SCHEME = "skill://"
DOCUMENT = "SKILL.md"
DYNAMIC: Final = "dynamic"
FOLDER_TYPE = "inode/directory"
LIST, GET, READ_DIRECTORY = "skills/list", "skills/get", "resources/directory/read"
RESERVED = "io.modelcontextprotocol/"
MAX_FILES = 512
MAX_BYTES = 16 * 1024 * 1024
MAX_DESCRIPTION = 1024
_NAME = re.compile(r"(?!.*--)[a-z0-9](?:[a-z0-9-]{0,62}[a-z0-9])?")
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
_SAFE = "!$&'()*+,;=:@~"
"""The characters of a path segment, beside letters, digits and `-._`, that a URI takes as they are."""


def _method(name: str, params: type[types.Params], result: type[types.Result], *uris: str, **row: Any) -> Method:
    return Method(name=name, params=params, result=result, repeatable=True, uri_in="uri", uris=uris, **row)


ROW = ExtensionRow(
    id=ID,
    settings={"directoryRead": True},
    one_sided=True,
    methods=(
        _method(LIST, types.PaginatedRequestParams, ListSkillsResult, "resources[].uri"),
        _method(GET, GetSkillRequestParams, GetSkillResult, "skill.uri", "skill.resources[].uri", listed_in=(LIST,)),
        _method(READ_DIRECTORY, ReadDirectoryRequestParams, ReadDirectoryResult, "resources[].uri"),
    ),
)


# URIs.


def skill_uri(segments: Iterable[str]) -> str:
    """Return the `skill://` URI of a path."""
    first, *others = segments
    return file_uri(SCHEME + quote(first, safe=""), others)


def file_uri(folder: str, segments: Iterable[str]) -> str:
    """Return the URI of a path below a folder."""
    return "/".join([folder, *(quote(segment, safe=_SAFE) for segment in segments)])


def folder_of(uri: str) -> str:
    """Return the URI of the folder of a SKILL.md, without a slash at its end."""
    return uri.removesuffix(f"/{DOCUMENT}")


def path_within(folder: str, uri: str) -> str | None:
    """Return the path of a file in a folder, decoded; None if the URI does not lead to a file inside the folder."""
    if not uri.startswith(f"{folder}/") or "?" in uri or "#" in uri:
        return None
    segments = [unquote(segment) for segment in uri[len(folder) + 1 :].split("/")]
    is_inside = all(segment not in ("", ".", "..") and not re.search(r"[/\\\0]", segment) for segment in segments)
    return "/".join(segments) if is_inside else None


def resolved_path(path: str) -> str | None:
    """Return a relative reference of a SKILL.md without `.` and `..`; None if it leaves the folder of the skill."""
    found: list[str] = []
    for segment in path.split("/"):
        if segment == "..":
            if not found:
                return None
            found.pop()
        elif segment != ".":
            found.append(segment)
    return "/".join(found) if all(found) and found else None


# Entries.


def check_name(name: object) -> None:
    """Check the name of a skill.

    Raises:
        ValidationError: the name breaks the rule of names.
    """
    if not isinstance(name, str) or _NAME.fullmatch(name) is None:
        raise ValidationError(
            f"The name of a skill has 1 to 64 small letters, digits and single hyphens between them, not {name!r}"
        )


def check_frontmatter(fields: Mapping[str, Any], folder_name: str) -> None:
    """Check the frontmatter of a skill that a server offers.

    Raises:
        ValidationError: a field is missing or breaks a rule of skills.
    """
    name, description, metadata = fields.get("name"), fields.get("description"), fields.get("metadata")
    check_name(name)
    if name != folder_name:
        raise ValidationError(f"The name of a skill is the name of its folder: {folder_name!r}, not {name!r}")
    if not isinstance(description, str) or not 1 <= len(description) <= MAX_DESCRIPTION:
        raise ValidationError(f"The description of a skill is a text of 1 to {MAX_DESCRIPTION} characters")
    if metadata is not None:
        if not isinstance(metadata, Mapping) or not all(isinstance(value, str) for value in metadata.values()):
            raise ValidationError("The metadata of a skill map names to texts; write numbers in quotes")
        if reserved := [key for key in metadata if key.startswith(RESERVED)]:
            raise ValidationError(f"The metadata key {reserved[0]!r} is reserved for the protocol")


def check_limits(sizes: Iterable[int]) -> None:
    """Check the number of files and bytes of a skill.

    Raises:
        ValidationError: the skill has more than hosts must accept.
    """
    count = total = 0
    for size in sizes:
        count, total = count + 1, total + size
    if count > MAX_FILES:
        raise ValidationError(f"A skill has at most {MAX_FILES} files, not {count}")
    if total > MAX_BYTES:
        raise ValidationError(f"The files of a skill have at most {MAX_BYTES:,} bytes, not {total:,}")


def check_entry(skill: Skill) -> None:
    """Check the entry of a skill that a server sent.

    Raises:
        ValidationError: the entry breaks a rule; a client must not load the skill.
    """
    folder, name = folder_of(skill.uri), skill.frontmatter.get("name")
    if folder == skill.uri or not re.match(r"[A-Za-z][A-Za-z0-9+.-]*://[^/]", folder):
        raise ValidationError(f"The URI of a skill ends with a folder and /{DOCUMENT}, not {skill.uri!r}")
    check_name(name)
    if unquote(folder.rpartition("/")[2]) != name:
        raise ValidationError(f"The skill {skill.uri} has another name than its folder: {name!r}")
    if not isinstance(skill.frontmatter.get("description"), str):
        raise ValidationError(f"The skill {skill.uri} has no description")
    if isinstance(skill.resources, str):
        return
    paths = [path_within(folder, resource.uri) for resource in skill.resources]
    if None in paths or len(set(paths)) < len(paths) or DOCUMENT not in paths:
        raise ValidationError(f"The files of {skill.uri} must be inside its folder, each once, with {DOCUMENT}")
    for resource in skill.resources:
        if _DIGEST.fullmatch(resource.digest) is None or resource.size < 0:
            raise ValidationError(f"The digest or the size of {resource.uri} is malformed")
    check_limits(resource.size for resource in skill.resources)


# Files.


def digest_of(data: bytes) -> str:
    """Return the digest of a file."""
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


def check_file(listed: SkillResource, data: bytes) -> None:
    """Compare a file with its entry: the size, then the digest.

    Raises:
        ValidationError: the file is another one than the server listed.
    """
    if len(data) != listed.size:
        raise ValidationError(f"{listed.uri} has {len(data)} bytes, and the server listed {listed.size}")
    if digest_of(data) != listed.digest:
        raise ValidationError(f"The digest of {listed.uri} differs from what the server listed")


def check_document(skill: Skill, data: bytes) -> str:
    """Compare the frontmatter of a SKILL.md with its entry, field by field, and return the text.

    Raises:
        ValidationError: the file is not UTF-8, or a field differs.
    """
    try:
        text = data.decode()
    except UnicodeDecodeError:
        raise ValidationError(f"{skill.uri} is not UTF-8") from None
    fields = read_frontmatter(text)
    names = {*fields, *skill.frontmatter}
    differing = sorted(name for name in names if not _equal(fields.get(name), skill.frontmatter.get(name)))
    if differing or fields.keys() != skill.frontmatter.keys():
        told = ", ".join(differing) or "a field that is null"
        raise ValidationError(f"The frontmatter of {skill.uri} differs from what the server listed: {told}")
    return text


def _equal(one: Any, other: Any) -> bool:
    """Compare JSON values; 1 equals 1.0, and neither equals true."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_equal, one, other))
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return one.keys() == other.keys() and all(_equal(value, other[key]) for key, value in one.items())
    return bool(one == other)
