"""The types of `elicitation/create`, and the schemas of form fields."""

from __future__ import annotations

from typing import Literal

from msgspec import UNSET, Raw, UnsetType

from dragoman.types.wire import Json, Number, Params, Result, Wire


class FieldSchema(Wire, kw_only=True):
    """The keywords that all form fields share."""

    title: str | None = None
    description: str | None = None


class StringSchema(FieldSchema, kw_only=True):
    """A text field; `default` from 2025-11-25 on."""

    type: Literal["string"]
    min_length: int | None = None
    max_length: int | None = None
    format: Literal["email", "uri", "date", "date-time"] | None = None
    default: str | None = None


class NumberSchema(FieldSchema, kw_only=True):
    """A number field; `default` from 2025-11-25 on."""

    type: Literal["number", "integer"]
    minimum: Number | None = None
    maximum: Number | None = None
    default: Number | None = None


class BooleanSchema(FieldSchema, kw_only=True):
    """A yes-or-no field."""

    type: Literal["boolean"]
    default: bool | None = None


class EnumOption(Wire):
    """A choice and its title."""

    const: str
    title: str


class SingleSelectEnumSchema(FieldSchema, kw_only=True):
    """A field with one choice: `enum`, `enum` with titles in `enum_names` (2025-06-18), or `one_of` (2025-11-25)."""

    type: Literal["string"]
    enum: list[str] | None = None
    enum_names: list[str] | None = None
    one_of: list[EnumOption] | None = None
    default: str | None = None


class EnumItems(Wire):
    """The choices of a multiple selection: `enum` without titles, `any_of` with titles."""

    type: Literal["string"] | None = None
    enum: list[str] | None = None
    any_of: list[EnumOption] | None = None


class MultiSelectEnumSchema(FieldSchema, kw_only=True):
    """A field in which the user may choose several options (2025-11-25)."""

    type: Literal["array"]
    items: EnumItems
    min_items: int | None = None
    max_items: int | None = None
    default: list[str] | None = None


class ElicitRequestParams(Params):
    """A question to the user: `requested_schema` in form mode, `url` in URL mode (2025-11-25); no mode means form."""

    message: str
    mode: Literal["form", "url"] | None = None
    requested_schema: Json | None = None
    url: str | None = None
    elicitation_id: str | None = None
    task: Raw | UnsetType = UNSET
    """Stays encoded until an extension for tasks decodes it (2025-11-25)."""


class ElicitResult(Result):
    """The action of the user; an accepted form has `content`."""

    action: Literal["accept", "decline", "cancel"]
    content: Json | None = None


class ElicitationCompleteNotificationParams(Params):
    """The URL elicitation that is complete (2025-11-25 only)."""

    elicitation_id: str
