"""What a chat can be told when it is made; the same for the blocking and the asynchronous one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypedDict, get_args

from dragoman.chat.links import LinkMode
from dragoman.chat.messages import Message, ToolCall
from dragoman.chat.outcomes import ChatToolResult
from dragoman.chat.policy import Policy
from dragoman.client.answer.approval import ApprovalHandler
from dragoman.client.answer.calling import handler
from dragoman.runtime.callables import did_you_mean


class ChatOptions(TypedDict, total=False):
    """The options of a chat."""

    base_url: str | None
    """Where the provider is, for a model that is given by its name."""
    api_key: str | None
    """The provider's key, for a model that is given by its name; else its own environment variable is read."""
    temperature: float | None
    """How freely the model answers."""
    max_tokens: int | None
    """How much it may write at a time."""
    extra: Mapping[str, Any] | None
    """Whatever else the provider takes."""
    policy: Policy | None
    """Which tools may be called; all of them, without it."""
    on_approval: ApprovalHandler | None
    """Decides about calls that the policy has a person asked about: a function of an `Approval`, plain or async.
    Without it they are not made."""
    approval_timeout: float | None
    """After how many seconds without a decision a call is denied."""
    max_rounds: int
    """How often in one turn the model may answer: 25."""
    max_result_characters: int | None
    """How much text of one result the model is told: 50,000 characters; None is no limit."""
    resource_links: LinkMode | None
    """What becomes of resources that a result links to. "offer", as without it: the model is told of the links and has
    a tool, `server__read_resource`, that reads them. "follow": what the first 10 of a result hold is put into it.
    "name": the model is told of the links."""
    tool_timeout: float | None
    """How many seconds a call may go without a sign of life; the client's own limit, without it."""
    on_tool_call: Callable[[ToolCall], object] | None
    """Is told of each call that is made. Observers are told in order, one at a time, while the turn goes on; the turn
    ends when they were told."""
    on_tool_result: Callable[[ChatToolResult], object] | None
    """Is told of what came of each call."""
    on_message: Callable[[Message], object] | None
    """Is told of each message, in the order of the conversation."""


def check(options: Mapping[str, Any]) -> None:
    """Refuse options that there are not, and values that make no sense.

    Raises:
        TypeError: there is no such option, or its value is of the wrong kind.
        ValueError: its value makes no sense.
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
        handler(value, name)
    elif name.startswith("on_") and not callable(value):
        raise TypeError(f"{name} must be a function, not {value!r}")
    if name == "resource_links" and value not in get_args(LinkMode):
        raise ValueError(f'resource_links must be "offer", "follow" or "name", not {value!r}')
    if name in ("max_rounds", "max_result_characters") and (isinstance(value, bool) or not isinstance(value, int)):
        raise TypeError(f"{name} must be an integer, not {value!r}")
    if name in _POSITIVE and not value > 0:
        raise ValueError(f"{name} must be more than 0, not {value!r}")


_POSITIVE = ("approval_timeout", "max_rounds", "max_result_characters", "tool_timeout", "max_tokens")
