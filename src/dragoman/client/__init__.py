"""What client authors use: any MCP server, blocking or async, in both eras."""

from typing import TYPE_CHECKING

from dragoman.runtime.lazy import lazy

if TYPE_CHECKING:
    from dragoman.client.extensions.contract import ClientExtension as ClientExtension
    from dragoman.client.extensions.contract import ExtendedRequest as ExtendedRequest
    from dragoman.protocol.extensions import ExtensionRow as ExtensionRow
    from dragoman.protocol.listen import SubscriptionField as SubscriptionField
    from dragoman.protocol.methods import Method as Method
else:
    __getattr__, __dir__, __all__ = lazy(
        __name__, {"extensions.contract": "ClientExtension ExtendedRequest ExtensionRow Method SubscriptionField"}
    )
