"""What users of servers use.

Names are imported when they are first used.
"""

from typing import TYPE_CHECKING

from dragoman.runtime.lazy import lazy

if TYPE_CHECKING:
    from dragoman.client.approval import Approval, ApprovalHandler
    from dragoman.client.blocking import BoundPrompt, BoundResource, BoundResourceTemplate, BoundTool, Call, Client
    from dragoman.client.bound import AsyncBoundPrompt, AsyncBoundResource, AsyncBoundResourceTemplate, AsyncBoundTool
    from dragoman.client.client import AsyncClient
    from dragoman.client.elicitation import Accept, Cancel, Decline, Elicitation, ElicitationHandler, ElicitationRequest
    from dragoman.client.group import AsyncClients, AsyncGroupTool
    from dragoman.client.group_blocking import Clients, GroupTool
    from dragoman.client.notifications import LogMessage, Notification
    from dragoman.client.options import CallOptions, ClientOptions
    from dragoman.client.results import CallResult
    from dragoman.client.roots import Roots
    from dragoman.client.sampling import Sampling, SamplingHandler, SamplingRequest
    from dragoman.client.target import Target, register_transport
    from dragoman.runtime.network import Network
    from dragoman.transports.contract import Transport

__all__ = [
    "Accept",
    "Approval",
    "ApprovalHandler",
    "AsyncBoundPrompt",
    "AsyncBoundResource",
    "AsyncBoundResourceTemplate",
    "AsyncBoundTool",
    "AsyncClient",
    "AsyncClients",
    "AsyncGroupTool",
    "BoundPrompt",
    "BoundResource",
    "BoundResourceTemplate",
    "BoundTool",
    "Call",
    "CallOptions",
    "CallResult",
    "Cancel",
    "Client",
    "ClientOptions",
    "Clients",
    "Decline",
    "Elicitation",
    "ElicitationHandler",
    "ElicitationRequest",
    "GroupTool",
    "LogMessage",
    "Network",
    "Notification",
    "Roots",
    "Sampling",
    "SamplingHandler",
    "SamplingRequest",
    "Target",
    "Transport",
    "register_transport",
]

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy(
        __name__,
        {
            ".approval": "Approval ApprovalHandler",
            ".blocking": "BoundPrompt BoundResource BoundResourceTemplate BoundTool Call Client",
            ".bound": "AsyncBoundPrompt AsyncBoundResource AsyncBoundResourceTemplate AsyncBoundTool",
            ".client": "AsyncClient",
            ".elicitation": "Accept Cancel Decline Elicitation ElicitationHandler ElicitationRequest",
            ".group": "AsyncClients AsyncGroupTool",
            ".group_blocking": "Clients GroupTool",
            ".notifications": "LogMessage Notification",
            ".options": "CallOptions ClientOptions",
            ".results": "CallResult",
            ".roots": "Roots",
            ".sampling": "Sampling SamplingHandler SamplingRequest",
            ".target": "Target register_transport",
            "dragoman.runtime.network": "Network",
            "dragoman.transports.contract": "Transport",
        },
    )
