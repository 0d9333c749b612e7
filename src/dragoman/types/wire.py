"""What all wire types share.

Attributes are snake_case and fields camelCase; a field at its default is left out. `None` means absent. Where null and
absent differ the default is `UNSET`. Numbers are `int | float`, so that `1` does not come back as `1.0`. Unknown fields
are dropped, except where a type is a plain `dict`. Parts that a later decoder reads are left as `Raw` slices.
"""

from __future__ import annotations

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
    """The parameters of a request or notification; `_meta` stays encoded until the era is known."""

    meta: Raw | UnsetType = field(default=UNSET, name="_meta")


class Result(WithMeta, kw_only=True):
    """Any result; `result_type` is sent from 2026-07-28 on, and absent means complete."""

    result_type: str | None = None


class CacheableResult(Result, kw_only=True):
    """A result with a lifetime, from 2026-07-28 on."""

    ttl_ms: int | None = None
    cache_scope: CacheScope | None = None


class PaginatedRequestParams(Params, kw_only=True):
    """Which page of a list."""

    cursor: str | None = None


class PaginatedResult(CacheableResult, kw_only=True):
    """One page of a list; no `next_cursor` means the last."""

    next_cursor: str | None = None


class Icon(Wire):
    """An image to show for a server, tool, prompt or resource (2025-11-25)."""

    src: str
    mime_type: str | None = None
    sizes: list[str] | None = None
    theme: Literal["light", "dark"] | None = None


class Annotations(Wire):
    """For whom a piece of content is and how much it matters."""

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
    """What tools, prompts, resources and templates share."""

    name: str
    title: str | None = None
    description: str | None = None
    icons: list[Icon] | None = None
