"""What client authors use: any MCP server, blocking or async, in both eras."""

from typing import TYPE_CHECKING

from dragoman.runtime.lazy import lazy

if TYPE_CHECKING:
    from dragoman.client.extensions.contract import ClientExtension as ClientExtension
    from dragoman.client.extensions.contract import ExtendedRequest as ExtendedRequest
else:
    __getattr__, __dir__, __all__ = lazy(__name__, {"extensions.contract": "ClientExtension ExtendedRequest"})
