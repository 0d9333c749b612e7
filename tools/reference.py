"""How the reference is read from the source: examples become code, and blocking twins get what their originals say."""

from __future__ import annotations

import re
import textwrap
from typing import Any

import griffe

_EXAMPLE = re.compile(r"^Example:\n((?:(?: {4}.*)?\n)+)", re.MULTILINE)
_TWIN = re.compile(r"(?:blocking(?:_\w+)?|forwarded(?:_self)?)\((\w+)\.(\w+)(?:, .+)?\)")
_PART_FIELD = re.compile(r"""(?:Identity|Part)Field\[['"]?(.+?)['"]?\]\((?:['"]\w+['"], )?['"](.+)['"]\)""")
_OF_SERVER = frozenset(
    [
        "identity",
        "registry",
        "offering",
        "storage",
        "dispatcher",
        "notifier",
        "lifecycle",
        "routes",
    ]
)
_OF_DEFINITIONS = frozenset(
    [
        "start",
        "further_options",
        "official_options",
        "require_options_known",
        "add_options",
        "without_derived_parts",
        "begin",
        "result",
    ]
)
_INTERNAL = {
    **dict.fromkeys(("Server", "Registration"), _OF_SERVER),
    **dict.fromkeys(("Definition", "Tool", "Prompt", "Resource", "ResourceTemplate"), _OF_DEFINITIONS),
}
"""The members of classes that other rooms of the package use, and users do not."""


class Reading(griffe.Extension):
    """What griffe does not see by itself."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Turn what stands below `Example:` into a block of Python."""
        if obj.docstring is not None:
            obj.docstring.value = _EXAMPLE.sub(_block, obj.docstring.value + "\n").rstrip()

    def on_module(self, *, mod: griffe.Module, **_: Any) -> None:
        """Take what a package imports as its public names, of which its `__all__` is made when it runs."""
        if mod.is_init_module:
            mod.exports = [name for name, member in mod.members.items() if member.is_alias and name[0] != "_"]

    def on_package(self, *, pkg: griffe.Module, **_: Any) -> None:
        """Show each `name = blocking(Original.name)` as the method that it is, and leave out internal members."""
        for class_ in _classes(pkg):
            for name in _INTERNAL.get(class_.name, ()):
                class_.members.pop(name, None)
            for name, member in list(class_.members.items()):
                if isinstance(member, griffe.Attribute) and (found := _TWIN.fullmatch(str(member.value))):
                    original = pkg.modules_collection[class_.resolve(found[1])].all_members[found[2]]
                    class_.set_member(name, _twin(name, original, member))
                elif isinstance(member, griffe.Attribute) and (found := _PART_FIELD.fullmatch(str(member.value))):
                    member.annotation, member.value, member.docstring = found[1], None, griffe.Docstring(found[2])


def _block(found: re.Match[str]) -> str:
    return f"For example:\n\n```python\n{textwrap.dedent(found[1]).strip()}\n```\n\n"


def _classes(module: griffe.Module) -> list[griffe.Class]:
    own = [member for member in module.members.values() if isinstance(member, griffe.Class)]
    below = [_classes(member) for member in module.members.values() if isinstance(member, griffe.Module)]
    return own + [class_ for classes in below for class_ in classes]


def _twin(name: str, original: Any, attribute: griffe.Attribute) -> griffe.Function:
    said = original.docstring
    twin = griffe.Function(
        name,
        parameters=original.parameters,
        returns=_blocking_name(original.returns),
        docstring=None if said is None else griffe.Docstring(said.value.replace("await ", "")),
        lineno=attribute.lineno,
        endlineno=attribute.endlineno,
    )
    twin.labels.add("blocking")
    return twin


def _blocking_name(annotation: Any) -> Any:
    """Return an annotation with the names of blocking classes: `Tool` is the blocking twin of `AsyncTool`."""
    return str(annotation).replace("Async", "") if "Async" in str(annotation) else annotation
