"""The types of the skills extension: `skills/list`, `skills/get` and `resources/directory/read`."""

from __future__ import annotations

from typing import Literal

from dragoman.types.resources import Resource, ResourceRequestParams
from dragoman.types.wire import CacheableResult, Json, PaginatedRequestParams, PaginatedResult, Wire


class SkillResource(Wire):
    """A file of a skill; the digest is `sha256:` and the hexadecimal hash of its bytes."""

    uri: str
    digest: str
    size: int


class Skill(Wire):
    """A skill as it is listed: its SKILL.md, the fields at the beginning of that file, and all of its files."""

    uri: str
    frontmatter: Json
    resources: list[SkillResource] | Literal["dynamic"]


class ListSkillsResult(PaginatedResult):
    """A page of skills."""

    skills: list[Skill]


class GetSkillRequestParams(ResourceRequestParams):
    """The skill to get, by the URI of its SKILL.md."""


class GetSkillResult(CacheableResult):
    """One skill."""

    skill: Skill


class ReadDirectoryRequestParams(PaginatedRequestParams, kw_only=True):
    """The folder whose files and folders to list."""

    uri: str


class ReadDirectoryResult(PaginatedResult):
    """The files and folders of a folder; folders have the MIME type `inode/directory`."""

    resources: list[Resource]
