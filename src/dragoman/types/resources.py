"""The types of `resources/list`, `resources/templates/list`, `resources/read` and resource subscriptions."""

from __future__ import annotations

from msgspec import Raw

from dragoman.types.content import ResourceContents
from dragoman.types.wire import Annotations, CacheableResult, Named, PaginatedResult, Params


class Resource(Named, kw_only=True):
    """A resource as it is listed."""

    uri: str
    mime_type: str | None = None
    annotations: Annotations | None = None
    size: int | None = None


class ResourceTemplate(Named, kw_only=True):
    """Resources whose URIs match an RFC 6570 template."""

    uri_template: str
    mime_type: str | None = None
    annotations: Annotations | None = None


class ListResourcesResult(PaginatedResult):
    """A page of resources."""

    resources: list[Resource]


class ListResourceTemplatesResult(PaginatedResult):
    """A page of resource templates."""

    resource_templates: list[ResourceTemplate]


class ResourceRequestParams(Params):
    """The URI of the resource of a request or notification."""

    uri: str


class ReadResourceRequestParams(ResourceRequestParams, kw_only=True):
    """The resource to read."""

    input_responses: dict[str, Raw] | None = None
    request_state: str | None = None


class ReadResourceResult(CacheableResult):
    """The contents of a resource."""

    contents: list[ResourceContents]

    @property
    def text(self) -> str:
        """The text of all parts."""
        return "\n".join(part.text for part in self.contents if part.text is not None)


class SubscribeRequestParams(ResourceRequestParams):
    """The resource to subscribe to (until 2025-11-25)."""


class UnsubscribeRequestParams(ResourceRequestParams):
    """The resource to unsubscribe from (until 2025-11-25)."""


class ResourceUpdatedNotificationParams(ResourceRequestParams):
    """The resource that changed."""
