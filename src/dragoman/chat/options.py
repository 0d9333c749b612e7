"""The options of `Chat` and `AsyncChat`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypedDict, get_args

from dragoman.chat.messages import Message, ToolCall
from dragoman.chat.policy import Policy
from dragoman.chat.replies import ChatToolResult
from dragoman.chat.tools import LinkMode
from dragoman.client.answer.approval import ApprovalHandler
from dragoman.client.answer.callbacks import as_function
from dragoman.runtime.callables import did_you_mean


class ChatOptions(TypedDict, total=False):
    """The options of a chat."""

    base_url: str | None
    """The address of the provider, for a model that is given by its name."""
    api_key: str | None
    """The provider's key, for a model that is given by its name; by default, the provider's environment variable."""
    temperature: float | None
    """The temperature of the model; None leaves it to the model."""
    max_tokens: int | None
    """The number of tokens that one answer of the model may have."""
    extra: Mapping[str, Any] | None
    """Further options of the provider, sent with each request."""
    policy: Policy | None
    """Which tool calls are allowed, need approval or are denied; by default, all are allowed."""
    on_approval: ApprovalHandler | None
    """Decides the calls for which the policy requires approval: a function of an `Approval`, plain or async. Without it
    these calls are denied."""
    approval_timeout: float | None
    """Seconds after which an undecided call is denied, from the moment in which `on_approval` is called."""
    parallel_approvals: bool
    """Call `on_approval` for several calls at a time, instead of one after the other in the order of the calls
    (False)."""
    max_rounds: int
    """The number of answers that the model may give in one turn (25)."""
    max_result_characters: int | None
    """The number of characters of one result that the model gets (50,000); None for no limit."""
    resource_links: LinkMode | None
    """How the chat treats resource links in results. "offer", the default: the model gets the links and a tool,
    `server__read_resource`, that reads them. "follow": the contents of the first 10 links are added to the result.
    "name": the model gets the links only."""
    tool_timeout: float | None
    """The time-out of a tool call in seconds, which progress restarts; by default, the client's `timeout`."""
    on_tool_call: Callable[[ToolCall], object] | None
    """Called with each tool call that is made. Observers are called in order, one at a time, while the turn is running;
    the turn ends after they were called."""
    on_tool_result: Callable[[ChatToolResult], object] | None
    """Called with the outcome of each call."""
    on_message: Callable[[Message], object] | None
    """Called with each message, in the order of the conversation."""


def check(options: Mapping[str, Any]) -> None:
    """Check the names and values of options.

    Raises:
        TypeError: an option is unknown, or its value has the wrong type.
        ValueError: the value of an option is invalid.
    """
    for name, value in options.items():
        if name not in ChatOptions.__annotations__:
            hint = did_you_mean(name, ChatOptions.__annotations__)
            remedy = hint or "; what only the provider knows is given as extra={...}"
            raise TypeError(f"A chat has no option {name!r}{remedy}")
        if value is not None:
            _check_value(name, value)


def _check_value(name: str, value: Any) -> None:
    if name == "policy" and not isinstance(value, Policy):
        raise TypeError(f"policy must be a Policy, not {value!r}")
    if name == "on_approval":
        as_function(value, name)
    elif name.startswith("on_") and not callable(value):
        raise TypeError(f"{name} must be a function, not {value!r}")
    if name == "parallel_approvals" and not isinstance(value, bool):
        raise TypeError(f"parallel_approvals must be True or False, not {value!r}")
    if name == "resource_links" and value not in get_args(LinkMode):
        raise ValueError(f'resource_links must be "offer", "follow" or "name", not {value!r}')
    if name in ("max_rounds", "max_result_characters") and (isinstance(value, bool) or not isinstance(value, int)):
        raise TypeError(f"{name} must be an integer, not {value!r}")
    if name in _POSITIVE and not value > 0:
        raise ValueError(f"{name} must be more than 0, not {value!r}")


_POSITIVE = ("approval_timeout", "max_rounds", "max_result_characters", "tool_timeout", "max_tokens")
