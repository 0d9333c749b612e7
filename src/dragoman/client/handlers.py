"""How a client serves its server: the model, the user and the roots, in both eras.

In the handshake era a server sends requests; in the stateless era it returns them as input that is required. Either way
a question comes here by its method and parameters, and leaves as a result or an RpcError. Only what there is a handler
for is declared, and what is not declared is not served.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from msgspec import Raw

from dragoman import types
from dragoman.client.elicitation import Elicitation
from dragoman.client.roots import Roots
from dragoman.client.sampling import Sampling
from dragoman.errors import MethodNotFound

MOST_QUOTED = 100
"""Characters of a method's name that a refusal repeats."""


class Handlers:
    """What a client answers its server with.

    Example:
        handlers = Handlers(on_sampling=complete, on_elicitation=ask, roots=Roots(["."]))
        result = handlers.answer("roots/list", b"{}")

    `on_sampling` is a `Sampling`, or what one can be made of; `on_elicitation` likewise an `Elicitation`. Both may be
    set later, and None takes them away. `server` is the name under which the server is shown to the user: the one that
    was given here, which no server can change, else the one that the server gives itself.

    Raises:
        TypeError: a handler is nothing that can be called.
    """

    def __init__(
        self,
        *,
        on_sampling: Any = None,
        on_elicitation: Any = None,
        roots: Roots | None = None,
        server: str | None = None,
    ) -> None:
        self.on_sampling = on_sampling
        self.on_elicitation = on_elicitation
        self.roots = roots
        self.server = server
        self._has_given_name = server is not None

    def meet(self, info: types.Implementation | None) -> None:
        """Take in who the server says it is."""
        if not self._has_given_name:
            self.server = None if info is None else info.name

    @property
    def on_sampling(self) -> Any:
        """Who asks the model."""
        return self._on_sampling

    @on_sampling.setter
    def on_sampling(self, given: Any) -> None:
        self._sampling = given if given is None or isinstance(given, Sampling) else Sampling(given)
        self._on_sampling = given

    @property
    def on_elicitation(self) -> Any:
        """Who asks the user."""
        return self._on_elicitation

    @on_elicitation.setter
    def on_elicitation(self, given: Any) -> None:
        self._elicitation = given if given is None or isinstance(given, Elicitation) else Elicitation(given)
        self._on_elicitation = given

    def capabilities(self) -> types.ClientCapabilities:
        """Return what is declared to a server: what there is a handler for, and roots if any were ever given."""
        return types.ClientCapabilities(
            sampling=self._sampling.capability() if self._sampling else None,
            elicitation=self._elicitation.capability() if self._elicitation else None,
            roots=types.RootsCapability(list_changed=True)
            if self.roots is not None and self.roots.were_given
            else None,
        )

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
        raise MethodNotFound(f"This client does not serve {method[:MOST_QUOTED]}")


async def _sampled(sampling: Sampling, params: bytes | Raw, server: str | None) -> types.CreateMessageResult:
    return await sampling.answer(sampling.read(params, server))


async def _elicited(elicitation: Elicitation, params: bytes | Raw, server: str | None) -> types.ElicitResult:
    return await elicitation.answer(elicitation.read(params, server))
