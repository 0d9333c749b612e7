"""The bases of all wire types, and types that several methods share.

Attributes are snake_case, and JSON fields are camelCase. A field with its default value is not sent. `None` means
absent; where null and absent differ, the default is `UNSET`. Numbers are `int | float`, so that `1` does not become
`1.0`. Unknown fields are dropped, except where a type is a plain `dict`. A field that another decoder reads later is a
`Raw` slice of the JSON text.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Any, Literal

from msgspec import UNSET, Raw, Struct, UnsetType, field

Json = dict[str, Any]
"""A JSON object."""

Number = int | float
RequestId = int | str
ProgressToken = int | str
Role = Literal["user", "assistant"]
LoggingLevel = Literal["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"]
CacheScope = Literal["public", "private"]


class Wire(Struct, rename="camel", omit_defaults=True, kw_only=True):
    """A JSON object of the protocol."""


class WithMeta(Wire, kw_only=True):
    """An object that may carry `_meta`."""

    meta: Json | None = field(default=None, name="_meta")


class Params(Wire, kw_only=True):
    """The parameters of a request or notification; `_meta` stays encoded until it is read."""

    meta: Raw | UnsetType = field(default=UNSET, name="_meta")


class ResultType(StrEnum):
    """The types of results that the protocol itself has (2026-07-28); extensions add others, such as "task".

    Example:
        if result.result_type in (None, ResultType.COMPLETE): ...
    """

    COMPLETE = "complete"
    INPUT_REQUIRED = "input_required"


class Result(WithMeta, kw_only=True):
    """Any result; `result_type` exists since 2026-07-28, and a result without it is `ResultType.COMPLETE`."""

    result_type: str | None = None


class CacheableResult(Result, kw_only=True):
    """A result that clients may cache (2026-07-28)."""

    ttl_ms: int | None = None
    cache_scope: CacheScope | None = None


class PaginatedRequestParams(Params, kw_only=True):
    """The page of a list to return."""

    cursor: str | None = None


class PaginatedResult(CacheableResult, kw_only=True):
    """One page of a list; the last has no `next_cursor`."""

    next_cursor: str | None = None


class Icon(Wire):
    """An image to show for a server, tool, prompt or resource (2025-11-25)."""

    src: str
    mime_type: str | None = None
    sizes: list[str] | None = None
    theme: Literal["light", "dark"] | None = None


class Annotations(Wire):
    """The audience and the importance of content."""

    audience: list[Role] | None = None
    priority: Number | None = None
    last_modified: str | None = None


class Implementation(Wire):
    """The name and version of a client or server, for display only."""

    name: str
    version: str
    title: str | None = None
    description: str | None = None
    website_url: str | None = None
    icons: list[Icon] | None = None


class Named(WithMeta, kw_only=True):
    """The fields that tools, prompts, resources and templates share."""

    name: str
    title: str | None = None
    description: str | None = None
    icons: list[Icon] | None = None
