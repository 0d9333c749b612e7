"""`derived_tool`: a tool made of another one and a view; `confirm` asks the user whether a call may run."""

from __future__ import annotations

from inspect import isawaitable
from typing import Any

import msgspec
from msgspec import UNSET

from dragoman import types
from dragoman.errors import DefinitionError, ToolError
from dragoman.protocol.headers import HeaderPlan
from dragoman.runtime.callables import resolved
from dragoman.server.define.definition import P, R
from dragoman.server.define.tools import TOOL_NAME, Tool, ToolOptions
from dragoman.server.request.call import Call
from dragoman.server.request.context import Context
from dragoman.views.findings import raise_findings
from dragoman.views.view import View
from dragoman.views.viewed_tool import ViewedTool

_CONFIRMATION: types.Json = {"type": "object", "properties": {}}


def derived_tool(tool: Tool[P, R], view: View) -> Tool[P, R]:
    """Return a second tool that runs a tool under a view; its other options are those of the tool.

    Example:
        server.add_tool(derived_tool(search, View(name="search_news", arguments={"topic": Argument(fixed="news")})))

    Raises:
        DefinitionError: the view hides the tool, or does not match it.
    """
    viewed = ViewedTool(tool.definition, [view])
    raise_findings(viewed.findings)
    if viewed.is_hidden:
        raise DefinitionError(f"The view of {tool.name!r} hides it: leave out hidden to derive a tool")
    return DerivedTool(tool, viewed)


class DerivedTool(Tool[P, R]):
    """A tool that runs another one under a view."""

    def __init__(self, origin: Tool[P, R], viewed: ViewedTool) -> None:
        self.__dict__.update(vars(origin))
        for option in (*ToolOptions.__annotations__, *self.further_options):
            if hasattr(origin, option):  # a class of the author may set it
                setattr(self, option, getattr(origin, option))
        self._origin = origin
        self._viewed = viewed
        self.definition: types.Tool = viewed.shown
        self.name, self.title, self.description = viewed.shown.name, viewed.shown.title, viewed.shown.description
        self.annotations, self.meta = viewed.shown.annotations, viewed.shown.meta
        if not TOOL_NAME.fullmatch(self.name):
            raise DefinitionError(f"The name {self.name!r} is not allowed: use letters, digits, `_`, `-` and `.`")
        self.mirrored = HeaderPlan.of(self.definition.input_schema)

    def begin(self, call: Call) -> Any:
        """Return the coroutine that runs the tool with the arguments of a client."""
        return self._run(call, call.request.params)

    async def _run(self, call: Call, params: types.CallToolRequestParams) -> Any:
        context = Context(call)
        sent = b"{}" if params.arguments is UNSET else params.arguments
        arguments = await self._viewed.arguments(sent, context)
        if (question := self._viewed.question(sent)) is not None:
            await confirm(context, question)
        value = await resolved(self._begun(call, msgspec.structs.replace(params, arguments=arguments)))
        result = self._origin.result(call, value)
        while isawaitable(result):  # it reads files
            result = self._origin.result(call, await result)
        return await self._viewed.result(result, context) if isinstance(result, types.CallToolResult) else result

    def _begun(self, call: Call, params: types.CallToolRequestParams) -> Any:
        """Call the original tool; it reads its arguments from the request before it returns."""
        request = call.request
        call.request = msgspec.structs.replace(request, params=params)
        try:
            return self._origin.begin(call)
        finally:
            call.request = request

    def result(self, call: Call, value: object) -> object:  # noqa: ARG002
        """Return the value, which is a result already."""
        return value


async def confirm(context: Context, question: str) -> None:
    """Ask the user whether a call may run.

    Raises:
        ToolError: the user did not accept.
        MissingCapability: the client cannot ask the user.
    """
    answer = await context.elicit(question, _CONFIRMATION)
    if answer.action != "accept":
        raise ToolError(f"The user did not confirm the call: {answer.action}")
