"""Questions of a server to the user, answered in the terminal: forms field by field, pages by consent.

Where nobody can answer, a question is declined.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dragoman.cli.terminal import Terminal
from dragoman.client.elicitation import Accept, Decline, ElicitationRequest
from dragoman.errors import ValidationError
from dragoman.runtime.offload import offload
from dragoman.types import Json

MOST_TRIES = 5
_YES = frozenset({"y", "yes", "true"})
_NO = frozenset({"n", "no", "false"})


class _GivenUpError(Exception):
    """The user does not answer."""


class Questions:
    """A handler of elicitations."""

    def __init__(self, terminal: Terminal, clear: Callable[[], None]) -> None:
        self._terminal = terminal
        self._clear = clear
        self.server: str | None = None
        """Who asks, as far as the question does not say it."""

    async def execute(self, request: ElicitationRequest) -> Any:
        """Ask the user."""
        terminal = self._terminal
        self._clear()
        asker = request.server or self.server or "The server"
        if not terminal.can_ask:
            terminal.tell(f"{asker} asks: {request.message} (declined, for there is no terminal to answer at)")
            return Decline()
        terminal.tell(f"{asker} asks: {request.message}", "bold")
        try:
            return await (self._visit(request) if request.mode == "url" else self._fill(request))
        except _GivenUpError:
            terminal.tell("Declined.")
            return Decline()

    async def _visit(self, request: ElicitationRequest) -> Any:
        import webbrowser

        self._terminal.tell(f"It wants you to visit {request.host}:\n  {request.url}")
        if not await self._yes_or_no("Open it?"):
            return Decline()
        await offload(webbrowser.open, request.url or "")
        return Accept()

    async def _fill(self, request: ElicitationRequest) -> Any:
        fields = request.schema.get("properties")
        required = request.schema.get("required") or ()
        if not fields:
            return Accept() if await self._yes_or_no("Do you agree?") else Decline()
        self._terminal.tell("(Enter takes what is in brackets; Ctrl-D declines.)", "dim")
        content: Json = {}
        for name, field in fields.items():
            value = await self._field(name, field if isinstance(field, dict) else {}, is_required=name in required)
            if value is not None:
                content[name] = value
        return Accept(content)

    async def _field(self, name: str, field: Json, *, is_required: bool) -> Any:
        choices = _choices(field)
        described = field.get("description")
        if described:
            self._terminal.tell(f"  {described}", "dim")
        for number, (value, title) in enumerate(choices, 1):
            self._terminal.tell(f"  {number}) {title}" + (f" ({value})" if title != value else ""))
        question = f"{field.get('title') or name}{_hint(field, is_required=is_required)}: "
        for _ in range(MOST_TRIES):
            text = await self._answer(question)
            if not text:
                if field.get("default") is not None or not is_required:
                    return field.get("default")
                self._terminal.tell("  An answer is needed here; Ctrl-D declines.")
                continue
            try:
                return _read(name, text, field, choices)
            except ValidationError as error:
                self._terminal.tell(f"  {error}")
        raise _GivenUpError

    async def _answer(self, question: str) -> str:
        line = await self._terminal.ask(question)
        if line is None:
            raise _GivenUpError
        return line.strip()

    async def _yes_or_no(self, question: str) -> bool:
        return (await self._answer(f"{question} [y/N] ")).lower() in _YES


def _choices(field: Json) -> list[tuple[str, str]]:
    """Return the values that may be chosen, with their titles."""
    items = field.get("items")
    source = items if field.get("type") == "array" and isinstance(items, dict) else field
    titled = source.get("oneOf") or source.get("anyOf") or ()
    found = [
        (one["const"], one.get("title") or one["const"]) for one in titled if isinstance(one, dict) and "const" in one
    ]
    values = source.get("enum") or ()
    names = source.get("enumNames") or values
    return found or list(zip(values, names, strict=False))


def _hint(field: Json, *, is_required: bool) -> str:
    default = field.get("default")
    if default is None:
        return "" if is_required else " (optional)"
    if isinstance(default, bool):
        return " [Y/n]" if default else " [y/N]"
    return f" [{', '.join(map(str, default)) if isinstance(default, list) else default}]"


def _read(name: str, text: str, field: Json, choices: list[tuple[str, str]]) -> Any:
    """Return the value that a text means for a field.

    Raises:
        ValidationError: it means none that fits.
    """
    value = _value(text, field, choices)
    ElicitationRequest("", {"type": "object", "properties": {name: field}}).validate({name: value})
    return value


def _value(text: str, field: Json, choices: list[tuple[str, str]]) -> Any:
    match field.get("type"):
        case "boolean":
            if text.lower() not in _YES | _NO:
                raise ValidationError("Answer y or n.")
            return text.lower() in _YES
        case "integer" | "number" as kind:
            try:
                return int(text) if kind == "integer" else float(text)
            except ValueError:
                raise ValidationError(f"This is no {kind}.") from None
        case "array":
            return [_chosen(part.strip(), choices) for part in text.split(",") if part.strip()]
    return _chosen(text, choices) if choices else text


def _chosen(text: str, choices: list[tuple[str, str]]) -> str:
    for value, title in choices:
        if text in (value, title):
            return value
    if text.isdecimal() and 0 < int(text) <= len(choices):
        return choices[int(text) - 1][0]
    if not choices:
        return text
    raise ValidationError(f"Choose one of {', '.join(value for value, _ in choices)}, or its number.")
