"""What server authors use."""

from typing import TYPE_CHECKING

from dragoman.runtime.lazy import lazy

if TYPE_CHECKING:
    from dragoman.protocol.extensions import ExtensionRow as ExtensionRow
    from dragoman.protocol.listen import SubscriptionField as SubscriptionField
    from dragoman.protocol.methods import Method as Method
    from dragoman.server.extensions.contract import ServerExtension as ServerExtension
else:
    __getattr__, __dir__, __all__ = lazy(
        __name__, {"extensions.contract": "ExtensionRow Method ServerExtension SubscriptionField"}
    )
