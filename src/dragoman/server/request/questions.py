"""The questions that a server may ask a client: `Elicit`, `ElicitUrl`, `Sample` and `ListRoots`.

A question has the capabilities that the client must declare (`capabilities`), its request on the wire (`request`), and
a method that decodes the answer (`read`). `asking` sends a question as a request or in an `input_required` result.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from typing import Any, Generic, Literal, Protocol, TypedDict, TypeVar, Unpack, cast

from msgspec import MsgspecError, Raw, Struct, convert, to_builtins
from msgspec.structs import replace

from dragoman import types
from dragoman.errors import DefinitionError, InvalidParams, NotAccepted, UrlElicitationRequired, ValidationError
from dragoman.schema.python.annotations import Codec
from dragoman.server.wire_objects import optional_wire_object, wire_object

T = TypeVar("T")
_ABSOLUTE_URL = r"[A-Za-z][A-Za-z0-9+.-]*://[^\s/]"

Capability = tuple[str, ...]
Messages = str | types.SamplingMessage | types.Json | Iterable[types.SamplingMessage | types.Json]


class ElicitResult(Generic[T]):
    """The answer of the user to an elicitation.

    Example:
        answer = await ctx.elicit("How long?", Stay)
        if answer.accepted:
            book(answer.content.nights)

    `content` is the filled-in form. It raises `NotAccepted` if the user declined or cancelled.
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
        """The content of the form that the user filled in.

        Raises:
            NotAccepted: the user declined or cancelled. If a tool does not catch the error, the model reads its text.
        """
        if self.action != "accept":
            raise NotAccepted(self.action)
        return cast("T", self._content)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ElicitResult) and (self.action, self._content) == (other.action, other._content)

    __hash__ = None  # type: ignore[assignment]  # the content may be a dict

    def __repr__(self) -> str:
        return f"ElicitResult(action={self.action!r}, content={self._content!r})"


def _derive_form(schema: Any) -> tuple[types.Json, Callable[[types.Json], Any]]:
    """Return the schema of a form, and the function that converts its content."""
    from dragoman.schema.forms import form_schema

    codec = Codec(schema, "The schema of a form")
    if codec.schema.get("type") == "object":
        return form_schema(codec.schema, schema), codec.convert
    # The protocol has only forms, which are objects. So a single field becomes a form with the field `value`.
    form = TypedDict("form", {"value": schema})  # noqa: UP013
    whole = Codec(form, "The schema of a form")
    return form_schema(whole.schema, form), lambda content: whole.convert(content)["value"]


_forms = lru_cache(maxsize=256)(_derive_form)


def _form_of(schema: Any) -> tuple[types.Json, Callable[[types.Json], Any]]:
    try:
        return _forms(schema)
    except TypeError:  # the type cannot be hashed
        return _derive_form(schema)


class Elicit(Generic[T]):
    """A form for the user: a message, and the schema of the fields.

    Example:
        Elicit("Which units?", Units)

    `schema` is a dataclass, TypedDict, Struct, pydantic model or JSON Schema, flat and with simple fields. It may also
    be the type of a single field, such as `str`, `int`, `bool` or an Enum; the form then has one field `value`.

    Raises:
        DefinitionError: a form cannot have one of the fields.
    """

    def __init__(self, message: str, schema: type[T] | Mapping[str, Any]) -> None:
        from dragoman.schema.forms import form_schema  # most servers ask nothing

        self._message = message
        if isinstance(schema, Mapping):
            from dragoman.schema.compile import InputSchema

            form_schema(schema)
            self._schema = dict(schema)
            self._form = InputSchema(self._schema)
            self._read: Callable[[types.Json], Any] = self._validated
            return
        _refuse_choices(schema)
        self._schema, self._read = _form_of(schema)

    def _validated(self, content: types.Json) -> types.Json:
        self._form.validate(content)
        return content

    def __repr__(self) -> str:
        return f"<Elicit {self._message!r}: {', '.join(self._schema['properties'])}>"

    capabilities: Sequence[Capability] = (("elicitation", "form"),)
    method = "elicitation/create"

    def request(self) -> types.InputRequest:
        """Return the request on the wire."""
        return types.ElicitRequest(types.ElicitRequestParams(self._message, mode="form", requested_schema=self._schema))

    def read(self, raw: Raw) -> ElicitResult[T]:
        """Decode the client's answer.

        Raises:
            InvalidParams: the answer is malformed.
        """
        from dragoman.schema.forms import form_content

        result = decode_answer(raw, types.ElicitResult)
        if result.action != "accept":
            return ElicitResult(result.action)
        try:
            return ElicitResult("accept", self._read(form_content(self._schema, result.content or {})))
        except ValidationError as error:
            raise InvalidParams(f"The answer does not fit the form: {error}") from None


def _refuse_choices(schema: Any) -> None:
    if isinstance(schema, list | tuple | set | frozenset):
        choices = ", ".join(map(repr, schema))
        raise DefinitionError(
            f"The schema of a form cannot be a {type(schema).__name__}: pass typing.Literal[{choices}] or an Enum; for"
            " choices that are known only at run time, pass Literal[tuple(choices)]"
        )


class ElicitUrl:
    """A page for the user to visit, for data that must not pass through the client, such as a password.

    Example:
        ElicitUrl("Please sign in", "https://example.com/sign-in", "sign-in-42")

    `elicitation_id` identifies the elicitation in `notify_elicitation_complete`; by default it is the URL.
    """

    def __init__(self, message: str, url: str, elicitation_id: str | None = None) -> None:
        self.elicitation_id = elicitation_id or url
        self._params = types.ElicitRequestParams(message, mode="url", url=url, elicitation_id=self.elicitation_id)

    def __repr__(self) -> str:
        # The URL is left out, because it may hold a secret.
        return f"<ElicitUrl {self._params.message!r}>"

    capabilities: Sequence[Capability] = (("elicitation", "url"),)
    method = "elicitation/create"

    def request(self) -> types.InputRequest:
        """Return the request on the wire."""
        return types.ElicitRequest(self._params)

    def read(self, raw: Raw) -> ElicitResult[None]:
        """Decode the client's answer; an accepted answer does not mean that the visit is complete.

        Raises:
            InvalidParams: the answer is malformed.
        """
        return ElicitResult(decode_answer(raw, types.ElicitResult).action)


class HasDefinition(Protocol):
    """An object with the definition of a tool, such as a `Tool` of a server or a tool that a client listed."""

    @property
    def definition(self) -> types.Tool:
        """The entry of the tool in `tools/list`."""


ModelTool = types.Tool | HasDefinition | types.Json
"""A tool that the client's model may use: a definition, a plain dict, or an object with a definition."""


class SampleOptions(TypedDict, total=False):
    """The params of `sampling/createMessage` without the messages."""

    max_tokens: int
    """The greatest number of tokens of the answer (1024)."""
    system_prompt: str | None
    """The system prompt."""
    model_preferences: types.ModelPreferences | types.Json | None
    """The preferences of the server for the choice of the model."""
    include_context: Literal["none", "thisServer", "allServers"] | None
    """The servers whose context the client should include."""
    temperature: float | None
    """The randomness of the answer."""
    stop_sequences: Iterable[str] | None
    """The texts at which the model stops."""
    metadata: types.Json | None
    """Further parameters for the provider of the model."""
    tools: Iterable[ModelTool] | None
    """The tools that the model may use, as definitions or as `Tool` objects."""
    tool_choice: types.ToolChoice | types.Json | None
    """Whether the model may, must or must not use tools."""


class Sample:
    """A question to the client's model.

    Example:
        Sample("Summarise this: ...", max_tokens=200)

    `messages` is a text, one message or several; a message may be a plain dict. The options are the other params of
    `sampling/createMessage`.

    Raises:
        DefinitionError: a message is malformed, or the tool results do not follow the tool uses that they answer.
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
        """Return the request on the wire."""
        return types.CreateMessageRequest(self._params)

    def read(self, raw: Raw) -> types.CreateMessageResult:
        """Decode the client's answer.

        Raises:
            InvalidParams: the answer is malformed.
        """
        return decode_answer(raw, types.CreateMessageResult)


def _model_tool(tool: Any) -> types.Tool:
    return wire_object(getattr(tool, "definition", tool), types.Tool, "A tool for the model")


_OBJECTS = {"model_preferences": types.ModelPreferences, "tool_choice": types.ToolChoice}
_LISTS: dict[str, Callable[[Any], Any]] = {"tools": _model_tool, "stop_sequences": lambda text: text}


class ListRoots:
    """A question for the roots of the client.

    Example:
        answers = await ctx.ask(roots=ListRoots())
    """

    def __repr__(self) -> str:
        return "ListRoots()"

    capabilities: Sequence[Capability] = (("roots",),)
    method = "roots/list"

    def request(self) -> types.InputRequest:
        """Return the request on the wire."""
        return types.ListRootsRequest()

    def read(self, raw: Raw) -> list[types.Root]:
        """Decode the client's answer.

        Raises:
            InvalidParams: the answer is malformed.
        """
        return decode_answer(raw, types.ListRootsResult).roots


Question = Elicit[Any] | ElicitUrl | Sample | ListRoots


class RunEnded(BaseException):
    """Raised by a question to end the run of a blocking handler; the handler runs again with the answer."""


class InputRequired:
    """The questions that a handler returns; the handler runs again with the answers in `ctx.inputs`.

    Example:
        if "city" not in ctx.inputs:
            return InputRequired({"city": Elicit("Which city?", City)}, state={"tries": 1})

    Raises:
        DefinitionError: there are neither questions nor a state, so the next run would be the same.
    """

    def __init__(self, questions: Mapping[str, Question] | None = None, state: object = None) -> None:
        if not questions and state is None:
            raise DefinitionError('InputRequired needs questions, such as {"city": Elicit(...)}, or a state')
        self.questions = dict(questions or {})
        self.state = state

    def __repr__(self) -> str:
        # The state is left out, because it may hold secrets.
        return f"InputRequired({self.questions!r})"

    @property
    def capabilities(self) -> list[Capability]:
        """The capabilities that the client must declare for the questions."""
        return [path for question in self.questions.values() for path in question.capabilities]


def decode_answer(raw: Raw, kind: type[T]) -> T:
    """Decode the answer of a client.

    Raises:
        InvalidParams: the answer is malformed.
    """
    try:
        return types.decode(raw, kind)
    except ValidationError as error:
        raise InvalidParams(f"The answer is malformed: {error}") from None


def _conversation(messages: Any) -> list[types.SamplingMessage]:
    if isinstance(messages, str):
        return [types.SamplingMessage("user", types.TextContent(messages))]
    given = [messages] if isinstance(messages, types.SamplingMessage | Mapping) else messages
    conversation = [wire_object(_with_block(one), types.SamplingMessage, "A sampling message") for one in given]
    _check_tool_results(conversation)
    return conversation


def _with_block(message: Any) -> Any:
    """Return a message; the plain text of a dict's `content` becomes a text block."""
    if isinstance(message, dict) and isinstance(message.get("content"), str):
        return {**message, "content": {"type": "text", "text": message["content"]}}
    return message


def _check_tool_results(conversation: list[types.SamplingMessage]) -> None:
    """Check two MUSTs of 2025-11-25.

    A message with tool results holds nothing else, and it answers every tool use of the message before it.
    """
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
    """Return the error with its entries as on the wire; the author gives `ElicitUrl` objects, structs or dicts.

    Raises:
        DefinitionError: there are no entries, or one lacks its message or an absolute URL.
    """
    if not error.elicitations:
        raise DefinitionError("UrlElicitationRequired needs an ElicitUrl for each page that the user must visit")
    entries = [
        _url_params(entry, f"Entry {number} of UrlElicitationRequired")
        for number, entry in enumerate(error.elicitations, 1)
    ]
    return UrlElicitationRequired([to_builtins(entry) for entry in entries], error.message)


def _url_params(entry: Any, what: str) -> types.ElicitRequestParams:
    if isinstance(entry, ElicitUrl):
        entry = entry.request().params
    if not isinstance(entry, dict | types.ElicitRequestParams):
        kind = type(entry).__name__
        raise DefinitionError(f"{what} must be an ElicitUrl, or a dict with message and url, not {kind}")
    params = wire_object(entry, types.ElicitRequestParams, what)
    if params.mode not in (None, "url"):
        raise DefinitionError(f"{what} has the mode {params.mode!r}; a page has the mode 'url'")
    if params.url is None or not re.match(_ABSOLUTE_URL, params.url):
        raise DefinitionError(f"{what} needs an absolute url, not {params.url!r}")
    return replace(params, mode="url", elicitation_id=params.elicitation_id or params.url)


class Page(Struct, frozen=True):
    """A page that the user must visit, and the message that says why."""

    message: str
    url: str


def pages(error: UrlElicitationRequired) -> list[Page]:
    """Return the pages of an error; malformed entries are left out."""
    found: list[Page] = []
    for entry in error.elicitations:
        with suppress(MsgspecError):
            found.append(convert(entry, Page, from_attributes=True))
    return found
