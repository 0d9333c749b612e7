"""How a client serves its server: the model, the user and the roots, in both eras.

In the handshake era a server sends requests; in the stateless era it returns them as input that is required. Either way
a question comes here by its method and parameters, and leaves as a result or an RpcError. What there is a handler for
is declared, and so is what the author says besides. What there is no handler for is not served.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import msgspec
from msgspec import Raw

from dragoman import types
from dragoman.client.answer.calling import AnsweredBy, Handler, Places, handler
from dragoman.client.answer.elicitation import Elicitation, ElicitationHandler
from dragoman.client.answer.roots import Roots
from dragoman.client.answer.sampling import Sampling, SamplingHandler
from dragoman.errors import InvalidParams, MethodNotFound

HANDLER_OPTIONS = ("on_sampling", "on_elicitation", "on_request", "capabilities")
RequestHandlers = Mapping[str, AnsweredBy[types.Json, object]]
"""What answers further methods, by their names."""
MAX_CONCURRENT = 8
"""How many requests of further methods are worked on at a time; the others wait."""
MOST_QUOTED = 100
"""Characters of a method's name that a refusal repeats."""


class Handlers:
    """What a client answers its server with.

    Example:
        handlers = Handlers(on_sampling=complete, on_elicitation=ask, roots=Roots(["."]))
        result = handlers.answer("roots/list", b"{}")

    `on_sampling` is a `Sampling`, or what one can be made of; `on_elicitation` likewise an `Elicitation`. Both may be
    set later, and None takes them away. `on_request` maps further methods to functions; `served` has those of
    extensions, each with what reads its parameters. `capabilities` are declared besides. `server` is the name under
    which the server is shown to the user: the one that was given here, which no server can change, else the one that
    the server gives itself.

    Raises:
        TypeError: a handler is nothing that can be called, or what is declared is no mapping.
        ValueError: there is no such capability.
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
        self._places = Places(MAX_CONCURRENT)
        self._declared = _declared(capabilities)
        self._served = served or {}
        self.server = server
        self._has_given_name = server is not None

    def meet(self, info: types.Implementation | None) -> None:
        """Take in who the server says it is."""
        if not self._has_given_name:
            self.server = None if info is None else info.name

    @property
    def on_sampling(self) -> Sampling | SamplingHandler | None:
        """Who asks the model."""
        return self._on_sampling

    @on_sampling.setter
    def on_sampling(self, given: Sampling | SamplingHandler | None) -> None:
        self._sampling = given if given is None or isinstance(given, Sampling) else Sampling(given)
        self._on_sampling = given

    @property
    def on_elicitation(self) -> Elicitation | ElicitationHandler | None:
        """Who asks the user."""
        return self._on_elicitation

    @on_elicitation.setter
    def on_elicitation(self, given: Elicitation | ElicitationHandler | None) -> None:
        self._elicitation = given if given is None or isinstance(given, Elicitation) else Elicitation(given)
        self._on_elicitation = given

    @property
    def on_request(self) -> RequestHandlers | None:
        """Who answers further methods."""
        return self._on_request

    @on_request.setter
    def on_request(self, given: RequestHandlers | None) -> None:
        if given is not None and not isinstance(given, Mapping):
            raise TypeError(f"on_request must be functions by the names of methods, not {given!r}")
        self._requests = {method: handler(one, f"on_request[{method!r}]") for method, one in (given or {}).items()}
        self._on_request = given

    def capabilities(self) -> types.ClientCapabilities:
        """Return what is declared to a server: what there is a handler for, roots if any were ever given, and what the
        author declares."""
        if isinstance(self._declared, types.ClientCapabilities):
            found = self._declared
        else:
            found = types.ClientCapabilities(
                sampling=self._sampling.capability() if self._sampling else None,
                elicitation=self._elicitation.capability() if self._elicitation else None,
                roots=types.RootsCapability(list_changed=True)
                if self.roots is not None and self.roots.were_given
                else None,
            )
            found = msgspec.structs.replace(found, **self._declared)
        return found

    def answer(self, method: str, params: bytes | Raw) -> Any:
        """Return the result of what a server asks, or where a handler works it out, a function that is awaited for it.

        The function raises InvalidParams when the parameters do not fit or ask for what was not declared, an RpcError
        of code -1 when a sampling request is rejected, another one that the handler raised for the server, and an
        InternalError when a handler failed; the cause is then logged on `dragoman.client`.

        Raises:
            MethodNotFound: there is no such method, or no handler for it.
        """
        if method == "sampling/createMessage" and self._sampling is not None:
            return partial(_sampled, self._sampling, params, self.server)
        if method == "elicitation/create" and self._elicitation is not None:
            return partial(_elicited, self._elicitation, params, self.server)
        if method == "roots/list" and self.roots is not None and self.roots.were_given:
            return types.ListRootsResult(self.roots.as_wire())
        if method == "ping":
            return types.Result()
        if method in self._requests:
            return partial(self._answered, self._requests[method], _object, params)
        if method in self._served:
            return partial(self._answered, *self._served[method], params)
        raise MethodNotFound(f"This client does not serve {method[:MOST_QUOTED]}")

    async def _answered(self, function: Handler, read: Callable[[bytes | Raw], Any], params: bytes | Raw) -> Any:
        given = read(params)
        async with self._places.one() as place:
            result = await place.call(function, given)
        return {} if result is None else result


def _declared(given: Any) -> types.ClientCapabilities | dict[str, Any]:
    """Return capabilities as they are declared: all of them, or those that are added and, as None, hidden."""
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


def _object(params: bytes | Raw) -> types.Json:
    try:
        return msgspec.json.decode(params, type=types.Json)
    except (msgspec.DecodeError, RecursionError) as error:
        raise InvalidParams(f"The parameters must be an object: {error}") from None


async def _sampled(sampling: Sampling, params: bytes | Raw, server: str | None) -> types.CreateMessageResult:
    return await sampling.answer(sampling.read(params, server))


async def _elicited(elicitation: Elicitation, params: bytes | Raw, server: str | None) -> types.ElicitResult:
    return await elicitation.answer(elicitation.read(params, server))
