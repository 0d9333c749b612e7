"""Elicitation: the server asks the user to fill in a form, or to visit a page.

A request is decoded and its schema compiled before the handler is called. The handler's return value accepts the
request only if it is unambiguous: the content must fit the form, and a page needs an explicit yes. Every other value
cancels the request: the server learns that the user made no choice, and the client logs the reason.
"""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Callable, Mapping
from contextlib import suppress
from copy import deepcopy
from typing import Any, ClassVar, Literal, Protocol

import msgspec
from msgspec import Raw, Struct

from dragoman import types
from dragoman.client.answer.callbacks import (
    LOGGER,
    AnsweredBy,
    HandlerSlot,
    HandlerSlots,
    as_function,
    function_name,
)
from dragoman.errors import Cancelled, InsecureUrl, InvalidParams, ValidationError
from dragoman.protocol import jsonrpc
from dragoman.protocol.urls import host_of, is_http_url
from dragoman.runtime.portal import INTERRUPTS
from dragoman.schema.compile import MASK, compile_schema, raise_violations
from dragoman.schema.peer_schemas import PeerSchema
from dragoman.schema.walk import mapping

MAX_VIOLATIONS = 20

_ANY_FORM: types.Json = {"type": "object", "properties": {}}
_FormContent = dict[str, bool | int | float | str | list[str]]


class Accept(Struct, frozen=True):
    """The user accepts; without content, a form is accepted with its defaults.

    Example:
        return Accept({"city": "Oslo"})
    """

    content: Filled | None = None


class Decline(Struct, frozen=True):
    """The user says no.

    Example:
        return Decline()
    """


class Cancel(Struct, frozen=True):
    """The user makes no choice.

    Example:
        return Cancel()
    """


class DumpsModel(Protocol):
    """A pydantic model, or an object with the same `model_dump`."""

    def model_dump(self, *, mode: str, by_alias: bool) -> dict[str, Any]:
        """Return the content of the form."""


class HasFields(Protocol):
    """A dataclass."""

    __dataclass_fields__: ClassVar[dict[str, Any]]


Filled = Mapping[str, Any] | Struct | HasFields | DumpsModel
"""The content of a form, by the names of its fields."""


class ElicitationRequest:
    """A server's request to the user: to fill in a form (`mode` "form"), or to visit a page (`mode` "url").

    Example:
        def on_elicitation(request: ElicitationRequest):
            if request.mode == "url":
                return input(f"{request.server!r} wants you to visit {request.url!r}. Do you? ") == "yes"
            return {"city": input(repr(request.message))}

    `schema` is the JSON Schema of the form: an object whose fields are simple values. `server` is the name of the
    server that asks; show it to the user. Show the whole `url` of a page, and open it only when the user agrees.

    Raises:
        ValidationError: the schema is not a JSON Schema, or the url is not an http or https URL.
    """

    def __init__(
        self,
        message: str,
        schema: types.Json | None = None,
        *,
        mode: Literal["form", "url"] = "form",
        url: str | None = None,
        elicitation_id: str | None = None,
        server: str | None = None,
    ) -> None:
        self.message = message
        self.schema = deepcopy(_ANY_FORM if schema is None else schema)
        self.mode = mode
        self.url = url
        self.elicitation_id = elicitation_id
        self.server = server
        self.host = _host(url) if mode == "url" else None
        """The host of the page to visit, to show to the user separately."""
        try:
            # Values are masked: violations are logged, and logs must not hold the user's input.
            self._validator = PeerSchema(self.schema, compile_schema(self.schema, formats=True, mask=MASK))
        except ValueError as error:
            raise ValidationError(f"The requestedSchema is not valid: {error}", "$.requestedSchema") from None

    @property
    def defaults(self) -> types.Json:
        """The defaults of the form's fields."""
        return {
            name: deepcopy(field["default"])
            for name, field in mapping(self.schema, "properties").items()
            if isinstance(field, dict) and field.get("default") is not None
        }

    def apply_defaults(self, content: Mapping[str, Any]) -> types.Json:
        """Return the content, with the defaults of fields that it lacks.

        Example:
            request.apply_defaults({"city": "Oslo"})
        """
        return {**self.defaults, **content}

    def validate(self, content: Mapping[str, Any]) -> None:
        """Validate content against the form.

        Example:
            request.validate({"city": "Oslo"})

        Raises:
            ValidationError: the content does not fit the form; the message lists up to 20 violations.
        """
        filled = dict(content)
        try:
            msgspec.convert(filled, _FormContent)
            jsonrpc.encode(filled)  # text from a terminal may hold lone surrogates
        except msgspec.ValidationError as error:
            raise ValidationError(f"A form has text, numbers, yes or no, and lists of texts: {error}") from None
        found = self._validator.violations(filled, MAX_VIOLATIONS)
        if found is None:
            raise ValidationError("The schema of the form is too complex to check the answer")
        raise_violations(found)

    def __repr__(self) -> str:
        return f"<ElicitationRequest {self.mode} {self.message!r}>"


ElicitationHandler = AnsweredBy[
    ElicitationRequest, Filled | Accept | Decline | Cancel | types.ElicitResult | bool | None
]
"""A function that asks the user: returns the content of the form, or whether the user accepts."""


class Elicitation:
    """A handler of elicitations with its options; without options, give the client the function itself.

    Example:
        client = Client(target, on_elicitation=Elicitation(ask, handles_url=False, timeout=600))

    `ask(request)` is a function, plain or async, or an object that can be called or has an `execute` method. It returns
    the content of the form, as a mapping, dataclass, Struct or pydantic model, or an `Accept`, `Decline` or `Cancel`.
    True accepts a form with its defaults, or agrees to visit a page; False declines; None cancels. `ask` may return a
    future that another task or thread completes. `handles_url` says whether the handler can show pages to visit; by
    default it is the handler's own attribute of that name, else True. After `timeout` seconds, including the wait for
    its turn, the request is cancelled. One request is shown at a time, in the order in which they arrive, and on a
    terminal the plain handlers of all clients take turns. With a `max_concurrent` of more than 1, that many requests
    are shown at a time.

    Raises:
        TypeError: the handler cannot be called, or `max_concurrent` is not an integer.
        ValueError: `max_concurrent` is less than 1.
    """

    def __init__(
        self,
        ask: ElicitationHandler,
        *,
        handles_url: bool | None = None,
        timeout: float | None = None,
        max_concurrent: int = 1,
    ) -> None:
        self._slots = HandlerSlots(max_concurrent)
        self._takes_turns = max_concurrent == 1
        self._ask = as_function(ask, "on_elicitation")
        self.handles_url = bool(getattr(ask, "handles_url", True) if handles_url is None else handles_url)
        self.timeout = timeout

    def __repr__(self) -> str:
        return f"<Elicitation by {function_name(self._ask)}{'' if self.handles_url else ', without pages'}>"

    def capability(self) -> types.ElicitationCapability:
        """Return the capability to declare."""
        return types.ElicitationCapability(form={}, url={} if self.handles_url else None)

    def read(self, params: bytes | Raw, server: str | None = None) -> ElicitationRequest:
        """Return the request that has these parameters.

        Raises:
            InvalidParams: the parameters are malformed, or use a mode that this handler does not support.
        """
        try:
            asked = types.decode(params, types.ElicitRequestParams)
            mode = asked.mode or "form"
            if mode == "url" and not self.handles_url:
                # MUST (2025-11-25): -32602 for a mode that was not declared.
                raise InvalidParams("This client does not handle elicitations of mode url")
            if mode == "form" and asked.requested_schema is None:
                raise InvalidParams("An elicitation of mode form needs a requestedSchema")
            return ElicitationRequest(
                asked.message,
                asked.requested_schema if mode == "form" else None,
                mode=mode,
                url=asked.url,
                elicitation_id=asked.elicitation_id,
                server=server,
            )
        except ValidationError as error:
            raise InvalidParams(f"The elicitation is malformed: {error}") from None

    async def answer(
        self, request: ElicitationRequest, report: Callable[[str], None] | None = None
    ) -> types.ElicitResult:
        """Return the user's answer; a handler that fails or takes too long cancels the request.

        `report` is called with the mistake of a handler that raised an exception, or whose answer does not fit.
        """

        def warn(mistake: str) -> None:
            _warn(mistake)
            if report is not None:
                report(mistake)

        interrupts = INTERRUPTS.count
        try:
            async with asyncio.timeout(self.timeout) as clock, self._slots.acquire() as slot:
                INTERRUPTS.require_none_since(interrupts)
                return result_of(request, await self._call(slot, request), warn)
        except Cancelled as error:
            LOGGER.warning("An elicitation was cancelled: %s", error)
            return types.ElicitResult("cancel")
        except Exception as error:
            if clock.expired():
                warn(f"no answer within {self.timeout:g} seconds")
            else:
                LOGGER.exception("An elicitation was cancelled: its handler failed")
                if report is not None:
                    report(f"the handler raised {type(error).__name__}")  # its text may not be meant for others
            return types.ElicitResult("cancel")

    async def _call(self, slot: HandlerSlot, request: ElicitationRequest) -> Any:
        if not self._takes_turns:
            return await slot.call(self._ask, request)
        from dragoman.client.answer.terminal_questions import ask_person

        return await ask_person(slot.call, self._ask, request)


def _warn(mistake: str) -> None:
    LOGGER.warning("An elicitation was cancelled: %s", mistake)


def result_of(request: ElicitationRequest, answer: Any, report: Callable[[str], None] = _warn) -> types.ElicitResult:
    """Return the result for a handler's return value; a value that does not fit cancels, and is reported."""
    if answer is None or answer is Cancel or isinstance(answer, Cancel):
        return types.ElicitResult("cancel")
    if answer is False or answer is Decline or isinstance(answer, Decline):
        return types.ElicitResult("decline")
    if isinstance(answer, types.ElicitResult):
        if answer.action != "accept":
            return types.ElicitResult(answer.action)
        answer = Accept(answer.content)
    try:
        return types.ElicitResult("accept", _accepted(request, answer))
    except ValidationError as error:
        report(str(error))
        return types.ElicitResult("cancel")


def _accepted(request: ElicitationRequest, answer: Any) -> types.Json | None:
    is_plain_yes = answer is True or answer is Accept or isinstance(answer, Accept)
    if request.mode == "url":
        if not is_plain_yes:
            raise ValidationError(
                f"the handler returned {type(answer).__name__} for a page to visit;"
                " return True or Accept() when the user agrees"
            )
        return None
    filled = answer.content if isinstance(answer, Accept) else None if is_plain_yes else answer
    content = request.apply_defaults({} if filled is None else _content(filled))
    try:
        request.validate(content)
    except ValidationError as error:
        raise ValidationError(f"the answer does not fit the form: {error}", error.path) from None
    return content


def _content(filled: Any) -> types.Json:
    """Return the content as JSON; fields that are None were not filled in."""
    dump = getattr(filled, "model_dump", None)
    is_record = dataclasses.is_dataclass(filled) and not isinstance(filled, type)
    if callable(dump) and not isinstance(filled, type):
        filled = dump(mode="json", by_alias=True)
    elif not (is_record or isinstance(filled, Mapping | Struct)):
        raise ValidationError(
            f"the handler returned {type(filled).__name__}; return a mapping, dataclass, Struct or model with the"
            " answers, True, False or None, or Accept, Decline or Cancel"
        )
    try:
        plain = msgspec.to_builtins(dict(filled) if isinstance(filled, Mapping) else filled, str_keys=True)
    except TypeError as error:
        remedy = "; await the coroutine" if "coroutine" in str(error) else ""
        raise ValidationError(f"the answer cannot be JSON: {error}{remedy}") from None
    if not isinstance(plain, dict):
        raise ValidationError("the answer must be an object with the fields of the form")
    return {name: value for name, value in plain.items() if value is not None}


def _host(url: str | None) -> str:
    with suppress(InsecureUrl):
        if url is not None and is_http_url(url):
            return host_of(url)
    raise ValidationError(f"The page to visit must have an http or https url, not {url!r}", "$.url")
