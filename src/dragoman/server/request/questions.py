"""The questions that a server may ask its client: forms and pages for the user, the model, and the roots.

A question has the capabilities that the client needs, the request as it is on the wire, and a reader for the answer.
How it travels, as a request or in an `input_required` result, is decided in `asking`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Generic, Literal, Protocol, TypedDict, TypeVar, Unpack, cast

from msgspec import MsgspecError, Raw, Struct, convert, to_builtins

from dragoman import types
from dragoman.errors import DefinitionError, InvalidParams, NotAccepted, UrlElicitationRequired, ValidationError
from dragoman.schema.forms import form_content, form_schema
from dragoman.schema.python.annotations import Codec
from dragoman.server.wire_objects import optional_wire_object, wire_object

T = TypeVar("T")
_ABSOLUTE_URL = r"[A-Za-z][A-Za-z0-9+.-]*://[^\s/]"

Capability = tuple[str, ...]
Messages = str | types.SamplingMessage | types.Json | Iterable[types.SamplingMessage | types.Json]


class ElicitResult(Generic[T]):
    """The user's answer to a question.

    Example:
        answer = await ctx.elicit("How long?", Stay)
        if answer.accepted:
            book(answer.content.nights)

    `content` is what was filled in; it raises `NotAccepted` if the user declined or cancelled.
    """

    __slots__ = ("_content", "action")

    def __init__(self, action: Literal["accept", "decline", "cancel"], content: T | None = None) -> None:
        self.action: Literal["accept", "decline", "cancel"] = action
        self._content = content

    @property
    def accepted(self) -> bool:
        """Whether the user accepted."""
        return self.action == "accept"

    @property
    def content(self) -> T:
        """What the user filled in.

        Raises:
            NotAccepted: the user declined or cancelled. A tool that does not catch it tells the model so.
        """
        if self.action != "accept":
            raise NotAccepted(self.action)
        return cast("T", self._content)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ElicitResult) and (self.action, self._content) == (other.action, other._content)

    __hash__ = None  # type: ignore[assignment]  # what was filled in may be a dict

    def __repr__(self) -> str:
        return f"ElicitResult(action={self.action!r}, content={self._content!r})"


class Elicit(Generic[T]):
    """A form for the user: a message, and the schema of what to fill in.

    Example:
        Elicit("Which units?", Units)

    `schema` is a dataclass, TypedDict, Struct, pydantic model or a JSON Schema, flat and of simple fields; or the type
    of a single field, such as `str`, `int`, `bool` or an Enum, which is asked for as `value`.

    Raises:
        DefinitionError: a field is nothing that a form can have.
    """

    def __init__(self, message: str, schema: type[T] | Mapping[str, Any]) -> None:
        self._message = message
        if isinstance(schema, Mapping):
            from dragoman.schema.compile import InputSchema

            form_schema(schema)
            self._schema = dict(schema)
            self._form = InputSchema(self._schema)
            self._read: Callable[[types.Json], Any] = self._validated
            return
        codec = Codec(schema, "The schema of a form")
        if codec.schema.get("type") == "object":
            self._schema = form_schema(codec.schema, schema)
            self._read = codec.convert
        else:
            # One field: the protocol has only forms, which are objects.
            form = TypedDict("form", {"value": schema})  # type: ignore[valid-type]  # noqa: UP013
            whole = Codec(form, "The schema of a form")
            self._schema = form_schema(whole.schema, form)
            self._read = lambda content: whole.convert(content)["value"]

    def _validated(self, content: types.Json) -> types.Json:
        self._form.validate(content)
        return content

    def __repr__(self) -> str:
        return f"<Elicit {self._message!r}: {', '.join(self._schema['properties'])}>"

    capabilities: Sequence[Capability] = (("elicitation", "form"),)
    method = "elicitation/create"

    def request(self) -> types.InputRequest:
        """Return the request as it is on the wire."""
        return types.ElicitRequest(types.ElicitRequestParams(self._message, mode="form", requested_schema=self._schema))

    def read(self, raw: Raw) -> ElicitResult[T]:
        """Return the meaning of the answer."""
        result = _decode(raw, types.ElicitResult)
        if result.action != "accept":
            return ElicitResult(result.action)
        try:
            return ElicitResult("accept", self._read(form_content(self._schema, result.content or {})))
        except ValidationError as error:
            raise InvalidParams(f"The answer does not fit the form: {error}") from None


class ElicitUrl:
    """A page for the user to visit: for what must not pass through the client, such as a password.

    Example:
        ElicitUrl("Please sign in", "https://example.com/sign-in", "sign-in-42")
    """

    def __init__(self, message: str, url: str, elicitation_id: str | None = None) -> None:
        self.elicitation_id = elicitation_id or url
        self._params = types.ElicitRequestParams(message, mode="url", url=url, elicitation_id=self.elicitation_id)

    def __repr__(self) -> str:
        # Without the URL, which may grant access to whoever has it.
        return f"<ElicitUrl {self._params.message!r}>"

    capabilities: Sequence[Capability] = (("elicitation", "url"),)
    method = "elicitation/create"

    def request(self) -> types.InputRequest:
        """Return the request as it is on the wire."""
        return types.ElicitRequest(self._params)

    def read(self, raw: Raw) -> ElicitResult[None]:
        """Return the meaning of the answer: accepting is consent to visit, not the end of the visit."""
        return ElicitResult(_decode(raw, types.ElicitResult).action)


class HasDefinition(Protocol):
    """A tool with its definition: one of the author's, or one that a client found."""

    @property
    def definition(self) -> types.Tool:
        """The tool as it is listed."""


ModelTool = types.Tool | HasDefinition | types.Json
"""A tool that the client's model may use: a definition, a plain dict of one, or an object that has one."""


class SampleOptions(TypedDict, total=False):
    """The options of `sampling/createMessage` beside the messages."""

    max_tokens: int
    """How long the answer may be (1024)."""
    system_prompt: str | None
    """The system prompt."""
    model_preferences: types.ModelPreferences | types.Json | None
    """Which model the server would like."""
    include_context: Literal["none", "thisServer", "allServers"] | None
    """The servers whose context the client should include."""
    temperature: float | None
    """The randomness of the answer."""
    stop_sequences: Iterable[str] | None
    """Texts at which the answer ends."""
    metadata: types.Json | None
    """Further parameters for the provider of the model."""
    tools: Iterable[ModelTool] | None
    """The tools that the model may use, as definitions or as `Tool` objects."""
    tool_choice: types.ToolChoice | types.Json | None
    """Whether the model may use tools, must, or must not."""


class Sample:
    """A question to the client's model.

    Example:
        Sample("Summarise this: ...", max_tokens=200)

    `messages` is text, a message or several, which may be plain dicts; the rest is as in `sampling/createMessage`.

    Raises:
        DefinitionError: a message is malformed, or tool results do not follow the tool uses that they answer.
    """

    def __init__(self, messages: Messages, **options: Unpack[SampleOptions]) -> None:
        given: dict[str, Any] = {"max_tokens": 1024, **options}
        for name, kind in _OBJECTS.items():
            given[name] = optional_wire_object(given.get(name), kind, name)
        for name, make in _LISTS.items():
            given[name] = None if given.get(name) is None else [make(one) for one in given[name]]
        self._params = types.CreateMessageRequestParams(_conversation(messages), **given)
        needs_tools = self._params.tools is not None or self._params.tool_choice is not None
        self.capabilities: Sequence[Capability] = (("sampling", "tools"),) if needs_tools else (("sampling",),)

    def __repr__(self) -> str:
        return f"<Sample: {len(self._params.messages)} messages, at most {self._params.max_tokens} tokens>"

    method = "sampling/createMessage"

    def request(self) -> types.InputRequest:
        """Return the request as it is on the wire."""
        return types.CreateMessageRequest(self._params)

    def read(self, raw: Raw) -> types.CreateMessageResult:
        """Return the meaning of the answer."""
        return _decode(raw, types.CreateMessageResult)


def _model_tool(tool: Any) -> types.Tool:
    return wire_object(getattr(tool, "definition", tool), types.Tool, "A tool for the model")


_OBJECTS = {"model_preferences": types.ModelPreferences, "tool_choice": types.ToolChoice}
_LISTS: dict[str, Callable[[Any], Any]] = {"tools": _model_tool, "stop_sequences": lambda text: text}


class ListRoots:
    """A question for the client's roots."""

    def __repr__(self) -> str:
        return "ListRoots()"

    capabilities: Sequence[Capability] = (("roots",),)
    method = "roots/list"

    def request(self) -> types.InputRequest:
        """Return the request as it is on the wire."""
        return types.ListRootsRequest()

    def read(self, raw: Raw) -> list[types.Root]:
        """Return the meaning of the answer."""
        return _decode(raw, types.ListRootsResult).roots


Question = Elicit[Any] | ElicitUrl | Sample | ListRoots


class RunEnded(BaseException):
    """Ends the run of a blocking handler that asked a question; the handler runs again with the answer."""


class InputRequired:
    """The questions that a handler returns, to be run again with the answers in `ctx.inputs`.

    Example:
        if "city" not in ctx.inputs:
            return InputRequired({"city": Elicit("Which city?", City)}, state={"tries": 1})

    Raises:
        DefinitionError: there are neither questions nor a state, so nothing would change from run to run.
    """

    def __init__(self, questions: Mapping[str, Question] | None = None, state: object = None) -> None:
        if not questions and state is None:
            raise DefinitionError('InputRequired needs questions, such as {"city": Elicit(...)}, or a state')
        self.questions = dict(questions or {})
        self.state = state

    def __repr__(self) -> str:
        # Without the state, which may hold secrets.
        return f"InputRequired({self.questions!r})"

    @property
    def capabilities(self) -> list[Capability]:
        """The capabilities that the client needs for the questions."""
        return [path for question in self.questions.values() for path in question.capabilities]


def _decode(raw: Raw, kind: type[T]) -> T:
    try:
        return types.decode(raw, kind)
    except ValidationError as error:
        raise InvalidParams(f"The answer is malformed: {error}") from None


def check_empty(raw: Raw) -> None:
    """Check an answer that has no content.

    Raises:
        InvalidParams: the answer is no object.
    """
    _decode(raw, types.Result)


def _conversation(messages: Any) -> list[types.SamplingMessage]:
    if isinstance(messages, str):
        return [types.SamplingMessage("user", types.TextContent(messages))]
    given = [messages] if isinstance(messages, types.SamplingMessage | Mapping) else messages
    conversation = [wire_object(_with_block(one), types.SamplingMessage, "A sampling message") for one in given]
    _check_tool_results(conversation)
    return conversation


def _with_block(message: Any) -> Any:
    """Return a message whose content is a block where a dict has plain text."""
    if isinstance(message, dict) and isinstance(message.get("content"), str):
        return {**message, "content": {"type": "text", "text": message["content"]}}
    return message


def _check_tool_results(conversation: list[types.SamplingMessage]) -> None:
    """MUST (2025-11-25): a message with tool results holds nothing else, and answers every tool use before it."""
    asked: list[str] = []
    for message in conversation:
        blocks = message.content if isinstance(message.content, list) else [message.content]
        results = [block for block in blocks if isinstance(block, types.ToolResultContent)]
        if results and len(results) != len(blocks):
            raise DefinitionError("A sampling message with tool results must hold nothing else")
        if sorted(result.tool_use_id for result in results) != asked:
            raise DefinitionError("Each tool use must be answered by one tool result in the very next message")
        asked = sorted(block.id for block in blocks if isinstance(block, types.ToolUseContent))
    if asked:
        raise DefinitionError("The last sampling message uses tools: add a message with their results")


def checked_elicitations(error: UrlElicitationRequired) -> UrlElicitationRequired:
    """Return the error with its entries as they are on the wire; an author gives objects or dicts in either spelling.

    Raises:
        DefinitionError: there are no entries, or one lacks its message or an absolute URL.
    """
    if not error.elicitations:
        raise DefinitionError("UrlElicitationRequired needs an entry for each page that the user must visit")
    entries = [wire_object(entry, types.ElicitRequestParams, "An elicitation") for entry in error.elicitations]
    for entry in entries:
        if entry.mode not in (None, "url") or entry.url is None or not re.match(_ABSOLUTE_URL, entry.url):
            raise DefinitionError(f"An elicitation of UrlElicitationRequired needs an absolute url, not {entry.url!r}")
        entry.mode, entry.elicitation_id = "url", entry.elicitation_id or entry.url
    return UrlElicitationRequired([to_builtins(entry) for entry in entries], error.message)


class Page(Struct, frozen=True):
    """A page that the user must visit, and why."""

    message: str
    url: str


def pages(error: UrlElicitationRequired) -> list[Page]:
    """Return the pages that an error names, without malformed entries."""
    found: list[Page] = []
    for entry in error.elicitations:
        with suppress(MsgspecError):
            found.append(convert(entry, Page, from_attributes=True))
    return found
