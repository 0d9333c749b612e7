"""The contract of an extension of a server: the class that authors of extensions subclass.

The rows of an extension say what it adds to the wire, and its methods say what the server does for that. Every method
has a default, so an author overrides only what is needed.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from types import UnionType
from typing import TYPE_CHECKING, Any, ClassVar

from msgspec import Struct

from dragoman import types
from dragoman.protocol.extensions import ExtensionRow
from dragoman.protocol.methods import Method
from dragoman.protocol.subscriptions import SubscriptionField
from dragoman.server.define.definition import Definition
from dragoman.server.define.tools import Tool, add_options

if TYPE_CHECKING:
    from dragoman.server.request.context import Context
    from dragoman.server.server import Server

Outcome = types.Result | types.Json
"""A result of `dragoman.types`, a subclass of `Result`, or a dict."""
CallNext = Callable[[], Awaitable[Outcome]]
ExtensionHandler = Callable[["Context", Any], Awaitable[Outcome]]
Wanted = bool | list[str]


class ServerExtension:
    """An extension of the protocol, as a server has it.

    Example:
        class Prices(ServerExtension):
            rows = (ExtensionRow(id="com.example/prices", methods=(GET_PRICE,)),)

            def handlers(self):
                return {"prices/get": self.get}

            async def get(self, ctx: Context, params: GetPriceParams) -> Price: ...

        server = Server("shop", extensions=[Prices()])

    `rows` has one row, or several that are generations of the same extension. `tool_options` maps the names of further
    options of tools to their types: `@server.tool(...)`, `Tool.define` and the attributes of Tool classes take them.
    """

    rows: tuple[ExtensionRow, ...] = ()
    tool_options: ClassVar[Mapping[str, type | UnionType]] = {}

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        # A tool may be defined before it is registered with a server, so all tools take the options.
        add_options(cls.tool_options)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {', '.join(dict.fromkeys(row.id for row in self.rows))}>"

    def settings(self) -> types.Json | None:
        """Return the settings to declare under the id of the extension: by default those of its row.

        None declares nothing, so that nothing of the extension is offered. The server calls this again after each
        registration, and by `server.renew()`. A row whose `capability` is another path is declared there, with the
        settings of that row.
        """
        return next((dict(row.settings) for row in self.rows if not row.capability), {})

    def bind(self, server: Server) -> None:
        """Receive the server, once, before any other call; the extension may register tools and resources."""

    def handlers(self) -> Mapping[str, ExtensionHandler]:
        """Return an `async def (ctx, params)` for each request that the rows let a client send.

        `params` have the type that the row says. A handler runs like every other, with the same middleware and errors.
        A notification that the rows let a client send may have a handler too, whose result is dropped.
        """
        return {}

    def define_tool(self, tool: Tool[..., Any], options: Mapping[str, Any]) -> None:
        """Receive a tool that is being registered with some of `tool_options`.

        Raises:
            DefinitionError: the options make no sense for this tool; it is not registered.
        """

    def entry(self, definition: Definition[..., Any]) -> Struct | None:  # noqa: ARG002
        """Return the fields that are added to the entry of a list, as the row's Struct has them; None adds nothing.

        This is called for the lists in the row's `entries`, in versions in which the row exists. Lists are cached until
        the next registration or `server.renew()`.
        """
        return None

    async def around_call(self, ctx: Context, call_next: CallNext) -> Outcome:  # noqa: ARG002
        """Return the result of `tools/call`; `call_next` runs the tool.

        `ctx.params` are the parameters, with those that the row adds. A result with a `result_type` of the row is sent
        only to a client that declared the extension.

        Raises:
            MissingCapability: the client must have declared something.
        """
        return await call_next()

    async def honour(self, ctx: Context, field: str, wanted: Wanted) -> Wanted | None:  # noqa: ARG002
        """Return the part of a subscription field that the server honours; None honours nothing of it."""
        return wanted


__all__ = ["ExtensionRow", "Method", "ServerExtension", "SubscriptionField"]
