"""Content blocks: a union told apart by `type`.

A block of a type that this version of dragoman does not know is kept whole as an `UnknownContent`: decode with
`dragoman.types.decode`, which falls back to it. The union that msgspec decodes holds the known types only.
"""

from __future__ import annotations

from binascii import b2a_base64
from typing import TYPE_CHECKING, Any, ClassVar, Union

from msgspec import UNSET, UnsetType

from dragoman.types.wire import Annotations, Icon, Json, WithMeta


class ResourceContents(WithMeta):
    """What a resource holds: `text`, or `blob` in base64. A `blob` that is given as bytes becomes base64.

    Example:
        ResourceContents("file:///logo.png", "image/png", blob=png_bytes)
    """

    uri: str
    mime_type: str | None = None
    text: str | None = None
    blob: str | None = None

    if TYPE_CHECKING:

        def __init__(
            self,
            uri: str,
            mime_type: str | None = None,
            text: str | None = None,
            blob: str | bytes | None = None,
            *,
            meta: Json | None = None,
        ) -> None: ...

    def __post_init__(self) -> None:
        blob: object = self.blob
        if isinstance(blob, bytes):
            self.blob = b2a_base64(blob, newline=False).decode("ascii")


class Block(WithMeta, tag_field="type", kw_only=True):
    """What all content blocks share."""

    type: ClassVar[str]


class AnnotatedBlock(Block, kw_only=True):
    """A content block that may be annotated."""

    annotations: Annotations | None = None


class TextContent(AnnotatedBlock, tag="text"):
    """Text."""

    type: ClassVar[str] = "text"
    text: str


class ImageContent(AnnotatedBlock, tag="image"):
    """An image; `data` is base64."""

    type: ClassVar[str] = "image"
    data: str
    mime_type: str


class AudioContent(AnnotatedBlock, tag="audio"):
    """Sound (2025-03-26); `data` is base64."""

    type: ClassVar[str] = "audio"
    data: str
    mime_type: str


class ResourceLink(AnnotatedBlock, tag="resource_link"):
    """A resource that the client may read (2025-06-18)."""

    type: ClassVar[str] = "resource_link"
    uri: str
    name: str
    title: str | None = None
    description: str | None = None
    mime_type: str | None = None
    size: int | None = None
    icons: list[Icon] | None = None


class EmbeddedResource(AnnotatedBlock, tag="resource"):
    """The contents of a resource, in place."""

    type: ClassVar[str] = "resource"
    resource: ResourceContents


class UnknownContent(dict[str, Any]):
    """A block of a type unknown here, as it came.

    Example:
        if isinstance(block, UnknownContent):
            print(block.type, block["url"])
    """

    @property
    def type(self) -> str:
        """What the block says that it is."""
        return str(self.get("type", ""))


if TYPE_CHECKING:
    ContentBlock = TextContent | ImageContent | AudioContent | ResourceLink | EmbeddedResource | UnknownContent
else:
    ContentBlock = Union[TextContent, ImageContent, AudioContent, ResourceLink, EmbeddedResource]  # noqa: UP007


class ToolUseContent(Block, tag="tool_use"):
    """A model's wish to call a tool, in sampling (2025-11-25)."""

    type: ClassVar[str] = "tool_use"
    id: str
    name: str
    input: Json


class ToolResultContent(Block, tag="tool_result"):
    """What a tool that the model called gave back, in sampling (2025-11-25)."""

    type: ClassVar[str] = "tool_result"
    tool_use_id: str
    content: list[ContentBlock]
    structured_content: Any | UnsetType = UNSET
    is_error: bool | None = None


if TYPE_CHECKING:
    SamplingMessageContentBlock = (
        TextContent | ImageContent | AudioContent | ToolUseContent | ToolResultContent | UnknownContent
    )
else:
    SamplingMessageContentBlock = Union[  # noqa: UP007
        TextContent, ImageContent, AudioContent, ToolUseContent, ToolResultContent
    ]
