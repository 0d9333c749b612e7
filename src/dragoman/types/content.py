"""Content blocks: a union with the tag `type`.

`dragoman.types.decode` decodes a block of an unknown type to an `UnknownContent`, which keeps all its fields. For type
checkers the unions include `UnknownContent`; at run time they do not, because msgspec decodes the known types only.
"""

from __future__ import annotations

from binascii import b2a_base64
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar, Union

from msgspec import UNSET, StructMeta, UnsetType

from dragoman.types.wire import Annotations, Icon, Json, WithMeta


class ResourceContents(WithMeta):
    """The contents of a resource: `text`, or `blob` in base64. A `blob` that is given as bytes becomes base64.

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


B = TypeVar("B")


class _BlockMeta(StructMeta):
    """The class of the classes of blocks: explains an argument that a block does not have."""

    def __call__(self: type[B], *args: Any, **kwargs: Any) -> B:
        try:
            return StructMeta.__call__(self, *args, **kwargs)  # type: ignore[no-any-return]
        except TypeError as error:
            raise TypeError(f"{self.__name__}: {error}{_remedy(self, kwargs)}") from None


def _remedy(cls: type, given: Collection[str]) -> str:
    if "type" in given:
        return f"; leave it out, because every {cls.__name__} has the type {cls.type!r}"  # type: ignore[attr-defined]
    names = dict(zip(cls.__struct_encode_fields__, cls.__struct_fields__, strict=True))  # type: ignore[attr-defined]
    meant = [f"{name}= is called {names[name]}=" for name in given if names.get(name, name) != name]
    return "".join(f"; {one}" for one in meant)


class Block(WithMeta, metaclass=_BlockMeta, tag_field="type", kw_only=True):
    """The fields that all content blocks share."""

    type: ClassVar[str]


class AnnotatedBlock(Block, kw_only=True):
    """A content block that may be annotated."""

    annotations: Annotations | None = None


class TextContent(AnnotatedBlock, tag="text"):
    """Text."""

    type: ClassVar[str] = "text"
    text: str


text_block: Callable[[str], TextContent] = StructMeta.__call__.__get__(TextContent)
"""Makes a TextContent for the answer of a tool, without the cost of explaining wrong arguments."""


class ImageContent(AnnotatedBlock, tag="image"):
    """An image; `data` is base64."""

    type: ClassVar[str] = "image"
    data: str
    mime_type: str


class AudioContent(AnnotatedBlock, tag="audio"):
    """Audio (2025-03-26); `data` is base64."""

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
    """The contents of a resource, embedded in the message."""

    type: ClassVar[str] = "resource"
    resource: ResourceContents


class UnknownContent(dict[str, Any]):
    """A block of a type that this version of dragoman does not know, with all its fields.

    Example:
        if isinstance(block, UnknownContent):
            print(block.type, block["url"])
    """

    @property
    def type(self) -> str:
        """The type that the block names."""
        return str(self.get("type", ""))


if TYPE_CHECKING:
    ContentBlock = TextContent | ImageContent | AudioContent | ResourceLink | EmbeddedResource | UnknownContent
else:
    ContentBlock = Union[TextContent, ImageContent, AudioContent, ResourceLink, EmbeddedResource]  # noqa: UP007


class ToolUseContent(Block, tag="tool_use"):
    """A tool call of the model, in sampling (2025-11-25)."""

    type: ClassVar[str] = "tool_use"
    id: str
    name: str
    input: Json


class ToolResultContent(Block, tag="tool_result"):
    """The result of a tool that the model called, in sampling (2025-11-25)."""

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
