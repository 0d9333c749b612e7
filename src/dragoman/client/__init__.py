"""What users of servers use.

Names are imported when they are first used.
"""

from typing import TYPE_CHECKING

from dragoman.runtime.lazy import lazy

if TYPE_CHECKING:
    from dragoman.client.approval import Approval as Approval
    from dragoman.client.approval import ApprovalHandler as ApprovalHandler
    from dragoman.client.blocking import BoundPrompt as BoundPrompt
    from dragoman.client.blocking import BoundResource as BoundResource
    from dragoman.client.blocking import BoundResourceTemplate as BoundResourceTemplate
    from dragoman.client.blocking import BoundTool as BoundTool
    from dragoman.client.blocking import Call as Call
    from dragoman.client.blocking import Client as Client
    from dragoman.client.bound import AsyncBoundPrompt as AsyncBoundPrompt
    from dragoman.client.bound import AsyncBoundResource as AsyncBoundResource
    from dragoman.client.bound import AsyncBoundResourceTemplate as AsyncBoundResourceTemplate
    from dragoman.client.bound import AsyncBoundTool as AsyncBoundTool
    from dragoman.client.client import AsyncClient as AsyncClient
    from dragoman.client.elicitation import Accept as Accept
    from dragoman.client.elicitation import Cancel as Cancel
    from dragoman.client.elicitation import Decline as Decline
    from dragoman.client.elicitation import Elicitation as Elicitation
    from dragoman.client.elicitation import ElicitationHandler as ElicitationHandler
    from dragoman.client.elicitation import ElicitationRequest as ElicitationRequest
    from dragoman.client.extensions.contract import ClientExtension as ClientExtension
    from dragoman.client.extensions.contract import ExtendedRequest as ExtendedRequest
    from dragoman.client.group import AsyncClients as AsyncClients
    from dragoman.client.group import AsyncGroupTool as AsyncGroupTool
    from dragoman.client.group_blocking import Clients as Clients
    from dragoman.client.group_blocking import GroupTool as GroupTool
    from dragoman.client.notifications import LogMessage as LogMessage
    from dragoman.client.notifications import Notification as Notification
    from dragoman.client.options import CallOptions as CallOptions
    from dragoman.client.options import ClientOptions as ClientOptions
    from dragoman.client.results import CallResult as CallResult
    from dragoman.client.roots import Roots as Roots
    from dragoman.client.sampling import Sampling as Sampling
    from dragoman.client.sampling import SamplingHandler as SamplingHandler
    from dragoman.client.sampling import SamplingRequest as SamplingRequest
    from dragoman.client.target import Target as Target
    from dragoman.client.target import register_transport as register_transport
    from dragoman.protocol.extensions import ExtensionRow as ExtensionRow
    from dragoman.protocol.listen import SubscriptionField as SubscriptionField
    from dragoman.protocol.methods import Method as Method
    from dragoman.runtime.network import Network as Network
    from dragoman.transports.contract import Transport as Transport
else:
    __getattr__, __dir__, __all__ = lazy(
        __name__,
        {
            "approval": "Approval ApprovalHandler",
            "blocking": "BoundPrompt BoundResource BoundResourceTemplate BoundTool Call Client",
            "bound": "AsyncBoundPrompt AsyncBoundResource AsyncBoundResourceTemplate AsyncBoundTool",
            "client": "AsyncClient",
            "elicitation": "Accept Cancel Decline Elicitation ElicitationHandler ElicitationRequest",
            "extensions.contract": "ClientExtension ExtendedRequest",
            "group": "AsyncClients AsyncGroupTool",
            "group_blocking": "Clients GroupTool",
            "notifications": "LogMessage Notification",
            "options": "CallOptions ClientOptions",
            "results": "CallResult",
            "roots": "Roots",
            "sampling": "Sampling SamplingHandler SamplingRequest",
            "target": "Target register_transport",
            ".protocol.extensions": "ExtensionRow",
            ".protocol.listen": "SubscriptionField",
            ".protocol.methods": "Method",
            ".runtime.network": "Network",
            ".transports.contract": "Transport",
        },
    )
