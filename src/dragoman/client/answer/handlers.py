"""Handlers: maps each method that a server may request to the handler that answers it, in both eras.

In the handshake era a server sends requests. In the stateless era it returns them in an `input_required` result. In
both eras, `Handlers.answer` takes a method and parameters, and returns a result or raises an RpcError. A client
declares the capability of each of its handlers, and the capabilities that its author adds. A request for a method
without a handler is answered with MethodNotFound.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import msgspec
from msgspec import Raw

from dragoman import types
from dragoman.client.answer.callbacks import (
    MAX_CONCURRENT,
    AnsweredBy,
    Handler,
    HandlerSlots,
    as_function,
    call_handler,
)
from dragoman.client.answer.elicitation import Elicitation, ElicitationHandler
from dragoman.client.answer.roots import Roots
from dragoman.client.answer.sampling import Sampling, SamplingHandler
from dragoman.config import is_async
from dragoman.errors import InvalidParams, MethodNotFound

HANDLER_OPTIONS = ("on_sampling", "on_elicitation", "on_request", "capabilities")
RequestHandlers = Mapping[str, AnsweredBy[types.Json, object]]
"""Handlers of methods beyond the specification's, by method."""
MAX_QUOTED_CHARACTERS = 100
"""The longest part of a method's name that an error quotes."""


class Handlers:
    """The handlers of one client.

    Example:
        handlers = Handlers(on_sampling=complete, on_elicitation=ask, roots=Roots(["."]))
        result = handlers.answer("roots/list", b"{}")

    `on_sampling` is a `Sampling`, or the function of one; `on_elicitation` is an `Elicitation`, or the function of one.
    Both may be set later, and None removes them. `on_request` maps further methods to functions. `served` has the
    methods of extensions, each with its function and the decoder of its parameters. `capabilities` are declared in
    addition. `server` is the name of the server in questions to the user: the name given here, else the name that the
    server gives itself.

    Raises:
        TypeError: a handler cannot be called, or `capabilities` is not a mapping.
        ValueError: a capability is unknown or invalid.
    """

    def __init__(
        self,
        *,
        on_sampling: Sampling | SamplingHandler | None = None,
        on_elicitation: Elicitation | ElicitationHandler | None = None,
        roots: Roots | None = None,
        on_request: RequestHandlers | None = None,
        capabilities: types.ClientCapabilities | Mapping[str, Any] | None = None,
        served: Mapping[str, tuple[Handler, Callable[[bytes | Raw], Any]]] | None = None,
        server: str | None = None,
    ) -> None:
        self.on_sampling = on_sampling
        self.on_elicitation = on_elicitation
        self.on_request = on_request
        self.roots = roots
        self._slots = HandlerSlots(MAX_CONCURRENT)  # for the handlers of `on_request` and of extensions
        self._declared = _declared(capabilities)
        self._served = {} if served is None else served
        self.elicitation_mistake: str | None = None
        """The mistake of the elicitation handler that cancelled a question, until an error of a call names it."""
        self.server = server
        self._has_given_name = server is not None

    def use_server_name(self, info: types.Implementation | None) -> None:
        """Use the name that the server gives itself, if no name was given."""
        if not self._has_given_name:
            self.server = None if info is None else info.name

    @property
    def on_sampling(self) -> Sampling | SamplingHandler | None:
        """The handler that asks the model."""
        return self._on_sampling

    @on_sampling.setter
    def on_sampling(self, given: Sampling | SamplingHandler | None) -> None:
        self._sampling = given if given is None or isinstance(given, Sampling) else Sampling(given)
        self._on_sampling = given

    @property
    def on_elicitation(self) -> Elicitation | ElicitationHandler | None:
        """The handler that asks the user."""
        return self._on_elicitation

    @on_elicitation.setter
    def on_elicitation(self, given: Elicitation | ElicitationHandler | None) -> None:
        self._elicitation = given if given is None or isinstance(given, Elicitation) else Elicitation(given)
        self._on_elicitation = given

    @property
    def on_request(self) -> RequestHandlers | None:
        """The handlers of further methods."""
        return self._on_request

    @on_request.setter
    def on_request(self, given: RequestHandlers | None) -> None:
        if given is not None and not isinstance(given, Mapping):
            raise TypeError(f"on_request must be functions by the names of methods, not {given!r}")
        self._requests = {name: as_function(one, f"on_request[{name!r}]") for name, one in (given or {}).items()}
        self._on_request = given

    def capabilities(self) -> types.ClientCapabilities:
        """Return the capabilities to declare: those of the handlers and roots, and those that the author gave."""
        if isinstance(self._declared, types.ClientCapabilities):
            return self._declared
        found = types.ClientCapabilities(
            sampling=self._sampling.capability() if self._sampling else None,
            elicitation=self._elicitation.capability() if self._elicitation else None,
            roots=types.RootsCapability(list_changed=True) if self._has_roots else None,
        )
        return msgspec.structs.replace(found, **self._declared)

    @property
    def _has_roots(self) -> bool:
        return self.roots is not None and self.roots.were_given

    def answer(self, method: str, params: bytes | Raw) -> Any:
        """Return the result of a request or, if a handler has to run, a function to await for the result.

        The function raises InvalidParams when the parameters are malformed or use a capability that was not declared,
        an RpcError of code -1 when a sampling request is rejected, an RpcError that the handler raised, and an
        InternalError when the handler failed in another way; the cause is then logged on `dragoman.client`.

        Raises:
            MethodNotFound: the method is unknown, or has no handler.
        """
        if method == "sampling/createMessage" and self._sampling is not None:
            return partial(_sample, self._sampling, params, self.server)
        if method == "elicitation/create" and self._elicitation is not None:
            return partial(self._elicit, self._elicitation, params)
        if method == "roots/list" and self.roots is not None and self.roots.were_given:
            return types.ListRootsResult(self.roots.as_wire())
        if method == "ping":
            return types.Result()
        if method in self._requests:
            return partial(self._call, self._requests[method], decode_object, params)
        if method in self._served:
            return partial(self._serve, *self._served[method], params)
        raise MethodNotFound(f"This client does not serve {method[:MAX_QUOTED_CHARACTERS]}")

    async def _elicit(self, elicitation: Elicitation, params: bytes | Raw) -> types.ElicitResult:
        def report(mistake: str) -> None:
            self.elicitation_mistake = mistake

        return await elicitation.answer(elicitation.read(params, self.server), report)

    async def _call(self, function: Handler, decode: Callable[[bytes | Raw], Any], params: bytes | Raw) -> Any:
        decoded = decode(params)
        async with self._slots.acquire() as slot:
            result = await slot.call(function, decoded)
        return {} if result is None else result

    async def _serve(self, function: Handler, decode: Callable[[bytes | Raw], Any], params: bytes | Raw) -> Any:
        """Call the function of an extension; an async one takes no slot, because it may wait for another request."""
        if not is_async(function):
            return await self._call(function, decode, params)
        result = await call_handler(function, decode(params))
        return {} if result is None else result


def _declared(given: Any) -> types.ClientCapabilities | dict[str, Any]:
    """Return the author's capabilities: a complete object, or a dict of those to add, and to hide by None."""
    if given is None or isinstance(given, types.ClientCapabilities):
        return given or {}
    if not isinstance(given, Mapping):
        raise TypeError(f"capabilities must be a mapping or a types.ClientCapabilities, not {given!r}")
    unknown = [name for name in given if name not in types.ClientCapabilities.__struct_fields__]
    if unknown:
        known = ", ".join(types.ClientCapabilities.__struct_fields__)
        raise ValueError(f"There is no capability {unknown[0]!r}; there are {known}, and others go into experimental")
    shown = {name: {} if value is True else value for name, value in given.items() if value not in (False, None)}
    try:
        read = msgspec.convert(shown, types.ClientCapabilities)
    except msgspec.ValidationError as error:
        raise ValueError(f"capabilities do not fit: {error}") from None
    return {name: getattr(read, name) for name in given}


def decode_object(params: bytes | Raw) -> types.Json:
    """Decode the parameters of a request.

    Raises:
        InvalidParams: the parameters are not an object.
    """
    try:
        return msgspec.json.decode(params, type=types.Json)
    except (msgspec.DecodeError, RecursionError) as error:
        raise InvalidParams(f"The parameters must be an object: {error}") from None


async def _sample(sampling: Sampling, params: bytes | Raw, server: str | None) -> types.CreateMessageResult:
    return await sampling.answer(sampling.read(params, server))
