"""`ViewedTool`: a tool of an upstream as clients see it under its views, and the way of a call there and back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Raw

from dragoman import types
from dragoman.schema.walk import shortened
from dragoman.views.findings import Unsupported, ViewFinding
from dragoman.views.output_schema import shown_output_schema
from dragoman.views.results import reshaped_result
from dragoman.views.tool_arguments import ToolArguments
from dragoman.views.view import View

_MAX_SHOWN_ARGUMENTS = 1000


class ViewedTool:
    """A tool under its views, each of which reshapes the tool of the one before.

    Example:
        tool = ViewedTool(upstream, [View(name="find", arguments={"q": Argument(name="query")})])
        tool.shown.name  # "find"
        arguments = await tool.arguments(raw, ctx)
        result = await tool.result(await call(tool.upstream.name, arguments), ctx)
    """

    def __init__(self, upstream: types.Tool, views: Sequence[View]) -> None:
        self.upstream = upstream
        """The tool as its upstream lists it."""
        self.shown = upstream
        """The tool as clients see it; not to be shown if there are findings."""
        self.findings: list[ViewFinding] = []
        """What does not match between the views and the tool."""
        self.is_hidden = any(view.hidden for view in views)
        self._steps: list[_Step] = []
        for view in () if self.is_hidden else views:
            if not self.findings:
                self._add(view)

    def __repr__(self) -> str:
        return f"<ViewedTool {self.upstream.name!r} as {self.shown.name!r}>"

    def _add(self, view: View) -> None:
        try:
            step = _Step(self.shown, view)
        except Unsupported as error:
            problems = [str(error)]
        except RecursionError:
            problems = ["its input schema is nested too deeply"]
        else:
            problems = [] if step.arguments is None else step.arguments.findings
            self._steps.append(step)
            self.shown = step.shown
        self.findings += [ViewFinding(self.upstream.name, problem) for problem in problems]

    async def arguments(self, arguments: Raw | bytes | Mapping[str, object], context: object) -> Raw:
        """Return the arguments that the upstream receives for those of a client; `context` is that of the request.

        Raises:
            ToolError: the client sends an argument that it may not send, or a value that does not fit.
            ValidationError: a computed value does not fit the schema of the tool.
        """
        raw = Raw(msgspec.json.encode(arguments)) if isinstance(arguments, Mapping) else Raw(arguments)
        for step in reversed(self._steps):
            if step.arguments is not None:
                raw = await step.arguments.inner(raw, context)
        return raw

    async def result(self, result: types.CallToolResult, context: object) -> types.CallToolResult:
        """Return the result that clients receive for that of the upstream.

        Raises:
            ToolError: the result does not have what a view picks.
        """
        for step in self._steps:
            schema = step.inner.output_schema
            result = await reshaped_result(self.shown.name, step.view, result, context, schema)
        return result

    @property
    def reshapes_results(self) -> bool:
        """Whether results are to be decoded and passed to `result`."""
        return any(step.view.pick or step.view.result for step in self._steps)

    def question(self, arguments: Raw | bytes) -> str | None:
        """Return what to ask the user before a call; None if the call needs no confirmation.

        `arguments` are those of the client.
        """
        confirm = next((step.view.confirm for step in reversed(self._steps) if step.view.confirm), False)
        if isinstance(confirm, str):
            return confirm
        shown = shortened(bytes(arguments).decode(errors="replace"), _MAX_SHOWN_ARGUMENTS)
        return f"Call the tool {self.shown.name!r} with {shown}?" if confirm else None


class _Step:
    """One view of a tool, with the tool before and after it."""

    def __init__(self, inner: types.Tool, view: View) -> None:
        self.inner = inner
        self.view = view
        name = view.name or inner.name
        self.arguments = ToolArguments(name, inner.input_schema, view.arguments) if view.arguments else None
        hints: Any = msgspec.to_builtins(inner.annotations) if inner.annotations is not None else {}
        hints |= view.hints
        self.shown = msgspec.structs.replace(
            inner,
            name=name,
            title=view.title or inner.title,
            description=view.description or inner.description,
            input_schema=inner.input_schema if self.arguments is None else self.arguments.schema,
            output_schema=shown_output_schema(view, inner.output_schema),
            annotations=msgspec.convert(hints, types.ToolAnnotations) if hints else inner.annotations,
            meta=inner.meta if view.meta is None else {**(inner.meta or {}), **view.meta},
        )
