"""TerminalElicitation: asks the user at the terminal to fill a form field by field, or to consent to a URL.

Without a terminal an elicitation is declined.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

from dragoman.cli.command import quoted
from dragoman.cli.terminal import YES, Terminal, TerminalDialog
from dragoman.client.answer.elicitation import Accept, Cancel, Decline, ElicitationRequest
from dragoman.errors import Cancelled, ValidationError
from dragoman.runtime.offload import offload
from dragoman.runtime.terminal import printable_line, printable_url, url_warnings
from dragoman.types import Json

MAX_TRIES = 5
_TRUE = YES | {"true"}
_NO = frozenset({"n", "no", "false"})


class _DeclinedError(Exception):
    """The user ended the dialog without an answer."""


class TerminalElicitation:
    """An elicitation handler that asks at the terminal; `before_asking` is called before each elicitation."""

    def __init__(self, terminal: Terminal, before_asking: Callable[[], None] = lambda: None) -> None:
        self._terminal = terminal
        self._before_asking = before_asking

    async def execute(self, request: ElicitationRequest) -> Any:
        """Ask the user."""
        terminal = self._terminal
        asker = printable_line(request.server or "The server")
        if not terminal.can_ask:
            terminal.report(
                f"{asker} asks (declined, because there is no terminal to answer at):\n{quoted(request.message)}"
            )
            return Decline()
        with suppress(Cancelled):
            async with terminal.dialog() as dialog:
                self._before_asking()
                dialog.write(f"{asker} asks:", "bold")
                try:
                    await _show(dialog, quoted(request.message))
                    return await (_visit(dialog, request) if request.mode == "url" else _fill(dialog, request))
                except _DeclinedError:
                    dialog.write("Declined.")
                    return Decline()
        return Cancel()


async def _show(dialog: TerminalDialog, text: str) -> None:
    if not await dialog.show_pages(text):
        raise _DeclinedError


async def _visit(dialog: TerminalDialog, request: ElicitationRequest) -> Any:
    import webbrowser

    url = request.url or ""
    dialog.write(f"The server wants you to visit {printable_url(f'//{request.host}').removeprefix('//')}:")
    await _show(dialog, f"  {printable_url(url)}")
    for warning in url_warnings(url):
        dialog.write(f"  Beware: {warning}", "yellow")
    if not await dialog.confirm("Open it?"):
        return Decline()
    await offload(webbrowser.open, url)
    return Accept()


async def _fill(dialog: TerminalDialog, request: ElicitationRequest) -> Any:
    fields = request.schema.get("properties")
    required = request.schema.get("required") or ()
    if not fields:
        return Accept() if await dialog.confirm("Do you agree?") else Decline()
    dialog.write("(Enter takes the value in brackets. Ctrl-D declines.)", "dim")
    content: Json = {}
    for name, field in fields.items():
        value = await _field(dialog, name, field if isinstance(field, dict) else {}, is_required=name in required)
        if value is not None:
            content[name] = value
    return Accept(content)


async def _field(dialog: TerminalDialog, name: str, field: Json, *, is_required: bool) -> Any:
    choices = _choices(field)
    described = field.get("description")
    if described:
        dialog.write(quoted(str(described)), "dim")
    for number, (value, title) in enumerate(choices, 1):
        dialog.write(printable_line(f"  {number}) {title}" + (f" ({value})" if title != value else "")))
    question = printable_line(f"{field.get('title') or name}{_hint(field, is_required=is_required)}: ")
    for _ in range(MAX_TRIES):
        line = await dialog.ask(question)
        if line is None:
            raise _DeclinedError
        text = line.strip()
        if not text:
            if field.get("default") is not None or not is_required:
                return field.get("default")
            dialog.write("  An answer is required. Ctrl-D declines.")
            continue
        try:
            return _read(name, text, field, choices)
        except ValidationError as error:
            dialog.write(printable_line(f"  {error}"))
    raise _DeclinedError


def _choices(field: Json) -> list[tuple[str, str]]:
    """Return the values to choose from, with their titles."""
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
    """Convert a typed text to the value of a field.

    Raises:
        ValidationError: the text is not a valid value of the field.
    """
    value = _value(text, field, choices)
    ElicitationRequest("", {"type": "object", "properties": {name: field}}).validate({name: value})
    return value


def _value(text: str, field: Json, choices: list[tuple[str, str]]) -> Any:
    match field.get("type"):
        case "boolean":
            if text.lower() not in _TRUE | _NO:
                raise ValidationError("Answer y or n.")
            return text.lower() in _TRUE
        case "integer" | "number" as kind:
            try:
                return int(text) if kind == "integer" else float(text)
            except ValueError:
                raise ValidationError(f"This is not {'an integer' if kind == 'integer' else 'a number'}.") from None
        case "array":
            return [_chosen(part.strip(), choices) for part in text.split(",") if part.strip()]
    return _chosen(text, choices) if choices else text


def _chosen(text: str, choices: list[tuple[str, str]]) -> str:
    for value, title in choices:
        if text in (value, title):
            return value
    by_number = {str(number): value for number, (value, _) in enumerate(choices, 1)}
    if text in by_number:
        return by_number[text]
    if not choices:
        return text
    raise ValidationError(f"Choose one of {', '.join(value for value, _ in choices)}, or its number.")
