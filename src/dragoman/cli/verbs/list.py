"""`dragoman list [TARGET]`: list the tools, prompts, resources and skills of a server."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import click

from dragoman.cli.command import connecting
from dragoman.cli.completion import complete_target
from dragoman.cli.targets import connected, resolve_target
from dragoman.cli.terminal import Terminal
from dragoman.runtime.terminal import printable_line

if TYPE_CHECKING:
    from dragoman import types

_KINDS = {
    "tools": ("tools", "Tools", "tools"),
    "prompts": ("prompts", "Prompts", "prompts"),
    "resources": ("resources", "Resources", "resources"),
    "resource_templates": ("resources", "Resource templates", "resourceTemplates"),
    "skills": ("skills", "Skills", "skills"),
}
"""The option that chooses each list, its title, and its name in JSON."""


@click.command("list", short_help="Show what a server offers.")
@click.argument("target", required=False, shell_complete=complete_target)
@click.option("--tools", is_flag=True, help="Show the tools.")
@click.option("--prompts", is_flag=True, help="Show the prompts.")
@click.option("--resources", is_flag=True, help="Show the resources and resource templates.")
@click.option("--skills", is_flag=True, help="Show the skills.")
@connecting
async def command(terminal: Terminal, /, target: str | None, **flags: bool) -> None:
    """Show the tools, prompts, resources, resource templates and skills of a server."""
    from dragoman.cli.elicitation import TerminalElicitation

    kinds = [kind for kind, (option, *_) in _KINDS.items() if flags[option] or not any(flags.values())]
    # Some servers list certain tools only for clients that support elicitation, as `dragoman call` does.
    elicitation = TerminalElicitation(terminal)
    async with connected(terminal, await resolve_target(terminal, target), on_elicitation=elicitation) as client:
        found = {kind: [_definition(bound) for bound in await getattr(client, kind)()] for kind in kinds}
        if terminal.settings.json:
            about = {"server": client.server_info, "protocolVersion": client.protocol_version}
            about["instructions"] = client.instructions
            terminal.write_json(about | {_KINDS[kind][2]: items for kind, items in found.items()})
            return
    shown = [kind for kind in kinds if found[kind]]
    for kind in shown:
        terminal.write(_KINDS[kind][1], "bold")
        for item in found[kind]:
            terminal.write_wrapped(printable_line(_line(kind, item)), indent=2)
            for line in _described(kind, item):
                terminal.write_wrapped(printable_line(line), indent=6)
    if not shown:
        terminal.report("The server offers nothing of this kind.")


def _definition(bound: Any) -> Any:
    return getattr(bound, "definition", None) or bound.entry


def _line(kind: str, item: Any) -> str:
    if kind == "skills":
        return f"{item.frontmatter['name']}  {' '.join(item.frontmatter['description'].split())}"
    if kind == "tools":
        head = f"{item.name}({', '.join(tool_arguments(item))}){_hints(item)}"
    elif kind == "prompts":
        head = f"{item.name}({', '.join(_named(item.arguments or ()))})"
    else:
        head = getattr(item, "uri", None) or item.uri_template
        head += f" ({item.mime_type})" if item.mime_type else ""
    about = item.description or item.title or ("" if kind in ("tools", "prompts") else item.name)
    return f"{head}  {' '.join(about.split())}" if about else str(head)


def _described(kind: str, item: Any) -> list[str]:
    """Return a line for each argument of a tool or prompt that has a description."""
    if kind == "tools":
        fields: dict[str, Any] = item.input_schema.get("properties") or {}
        texts = {name: field.get("description") for name, field in fields.items() if isinstance(field, dict)}
    else:
        texts = {one.name: one.description for one in item.arguments or ()} if kind == "prompts" else {}
    return [f"- {name}: {' '.join(text.split())}" for name, text in texts.items() if isinstance(text, str) and text]


def tool_arguments(tool: types.Tool) -> list[str]:
    """Return the arguments of a tool, each as `name: type`, with a question mark if it is optional."""
    from dragoman.schema.inline import inline

    tree = inline(tool.input_schema)
    required = tree.get("required", ())
    return [
        f"{name}{'' if name in required else '?'}: {_type(field)}" for name, field in tree.get("properties", {}).items()
    ]


def _type(field: dict[str, Any]) -> str:
    if "enum" in field:
        return "|".join(str(value) for value in field["enum"][:8]) + ("|…" if len(field["enum"]) > 8 else "")
    if "anyOf" in field:
        return "|".join(dict.fromkeys(_type(branch) for branch in field["anyOf"]))
    kinds = field.get("type", ["any"])
    return "|".join(f"{_type(field['items'])}[]" if kind == "array" and "items" in field else kind for kind in kinds)


def _named(arguments: Iterable[types.PromptArgument]) -> list[str]:
    return [f"{argument.name}{'' if argument.required else '?'}" for argument in arguments]


def _hints(tool: types.Tool) -> str:
    hints = tool.annotations
    if hints is None:
        return ""
    return " [reads only]" if hints.read_only_hint else " [destructive]" if hints.destructive_hint else ""
