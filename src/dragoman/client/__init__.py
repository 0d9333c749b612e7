"""The public names of the client. Each is imported when it is first used."""

from typing import TYPE_CHECKING

from dragoman.runtime.lazy import lazy

if TYPE_CHECKING:
    from dragoman.client.answer.approval import Approval as Approval
    from dragoman.client.answer.approval import ApprovalHandler as ApprovalHandler
    from dragoman.client.answer.elicitation import Accept as Accept
    from dragoman.client.answer.elicitation import Cancel as Cancel
    from dragoman.client.answer.elicitation import Decline as Decline
    from dragoman.client.answer.elicitation import Elicitation as Elicitation
    from dragoman.client.answer.elicitation import ElicitationHandler as ElicitationHandler
    from dragoman.client.answer.elicitation import ElicitationRequest as ElicitationRequest
    from dragoman.client.answer.roots import Roots as Roots
    from dragoman.client.answer.sampling import Sampling as Sampling
    from dragoman.client.answer.sampling import SamplingHandler as SamplingHandler
    from dragoman.client.answer.sampling import SamplingRequest as SamplingRequest
    from dragoman.client.blocking import BoundPrompt as BoundPrompt
    from dragoman.client.blocking import BoundResource as BoundResource
    from dragoman.client.blocking import BoundResourceTemplate as BoundResourceTemplate
    from dragoman.client.blocking import BoundTool as BoundTool
    from dragoman.client.blocking import Client as Client
    from dragoman.client.blocking import StartedCall as StartedCall
    from dragoman.client.bound import AsyncBoundPrompt as AsyncBoundPrompt
    from dragoman.client.bound import AsyncBoundResource as AsyncBoundResource
    from dragoman.client.bound import AsyncBoundResourceTemplate as AsyncBoundResourceTemplate
    from dragoman.client.bound import AsyncBoundTool as AsyncBoundTool
    from dragoman.client.client import AsyncClient as AsyncClient
    from dragoman.client.connect.endpoint import Target as Target
    from dragoman.client.connect.endpoint import register_transport as register_transport
    from dragoman.client.extensions.contract import AnswerNext as AnswerNext
    from dragoman.client.extensions.contract import ClientExtension as ClientExtension
    from dragoman.client.extensions.contract import ExtendedRequest as ExtendedRequest
    from dragoman.client.extensions.contract import ExtensionClient as ExtensionClient
    from dragoman.client.extensions.contract import ExtensionHandler as ExtensionHandler
    from dragoman.client.extensions.contract import ReceivedRequest as ReceivedRequest
    from dragoman.client.extensions.tasks.handles import AsyncServerTasks as AsyncServerTasks
    from dragoman.client.extensions.tasks.handles import AsyncTask as AsyncTask
    from dragoman.client.extensions.tasks.handles import ServerTasks as ServerTasks
    from dragoman.client.extensions.tasks.handles import Task as Task
    from dragoman.client.group.blocking import Clients as Clients
    from dragoman.client.group.blocking import GroupTool as GroupTool
    from dragoman.client.group.group import AsyncClients as AsyncClients
    from dragoman.client.group.group import AsyncGroupTool as AsyncGroupTool
    from dragoman.client.hear.notifications import LogMessage as LogMessage
    from dragoman.client.hear.notifications import ServerNotification as ServerNotification
    from dragoman.client.options import CallOptions as CallOptions
    from dragoman.client.options import ClientOptions as ClientOptions
    from dragoman.client.results import CallResult as CallResult
    from dragoman.client.results import FurtherResult as FurtherResult
    from dragoman.protocol.extensions import ExtensionRow as ExtensionRow
    from dragoman.protocol.methods import Method as Method
    from dragoman.protocol.subscriptions import SubscriptionField as SubscriptionField
    from dragoman.runtime.network import Network as Network
    from dragoman.transports.contract import Transport as Transport
else:
    __getattr__, __dir__ = lazy()
