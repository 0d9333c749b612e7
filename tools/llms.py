"""Write the documentation for coding agents beside the built pages: `make docs`.

    build/docs/llms.txt         what Dragoman is, and a list of all pages with one sentence about each
    build/docs/llms-full.txt    all pages except the reference, one after another
    build/docs/server.md, ...   every page as Markdown, beside its HTML

In the Markdown, included files and the reference are written out. Links are relative, because the address of the site
is not known when it is built.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import yaml  # type: ignore[import-untyped]

ROOT = Path(__file__).resolve().parent.parent
PAGES = ROOT / "docs"
SUMMARY = "A Python SDK for the Model Context Protocol (MCP): servers, clients, and chats in which a model uses them."
START = """- Install it with `pip install dragoman`. It needs Python 3.11 or later.
- `dragoman skill --path` prints the folder of a skill that explains how to write, try and test a server.
- `llms-full.txt` has all pages below except the reference.
- To read one page, take its address and end it with `.md` instead of `.html`."""
_INCLUDE = re.compile(r'^--8<-- "(?P<path>[^":]+)(?::(?P<line>\d+))?"$', re.MULTILINE)
_FRONT_MATTER = re.compile(r"\A---\n.*?^---\n+", re.MULTILINE | re.DOTALL)
_REFERENCE = re.compile(r"^::: (?P<name>[\w.]+)\n(?:    .*\n)*", re.MULTILINE)
_CODE = re.compile(r"^( *)```.*?^\1```$", re.MULTILINE | re.DOTALL)
_NO_PROSE = ("#", "|", "!", ":::", "===", "<", "- ")
_LINK = re.compile(r"!?\[(?P<text>[^\]]*)\]\([^)]*\)")


def sections() -> dict[str, dict[str, Path]]:
    """Return the pages of the navigation as {section: {title: path below docs}}."""
    navigation = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))["nav"]
    return {title: dict(_pages(title, entry)) for part in navigation for title, entry in part.items()}


def _pages(title: str, entry: Any) -> Iterator[tuple[str, Path]]:
    if isinstance(entry, str):
        yield title, Path(entry)
        return
    for part in entry:
        for name, below in part.items():
            yield from _pages(name, below)


def markdown(page: Path) -> str:
    """Return a page as Markdown, with included files; the reference still names its objects by `:::`."""
    text = (PAGES / page).read_text(encoding="utf-8")
    return _INCLUDE.sub(_included, _FRONT_MATTER.sub("", text)).strip() + "\n"


def _included(include: re.Match[str]) -> str:
    lines = (ROOT / include["path"]).read_text(encoding="utf-8").rstrip("\n").splitlines()
    return "\n".join(lines[int(include["line"] or 1) - 1 :])


def description(text: str) -> str:
    """Return the first sentence of a page, without links; nothing if the page has no sentence."""
    paragraphs = _CODE.sub("", text).split("\n\n")
    prose = next((part for part in paragraphs if part.strip() and not part.startswith(_NO_PROSE)), "")
    words = _LINK.sub(lambda link: link["text"], " ".join(prose.split()))
    return words.partition(". ")[0].rstrip(".:")


def index() -> str:
    """Return the text of llms.txt."""
    parts = [f"# Dragoman\n\n> {SUMMARY}\n\n{START}"]
    for section, pages in sections().items():
        lines = [f"- [{title}]({page}): {description(markdown(page))}".rstrip(": ") for title, page in pages.items()]
        parts.append(f"## {section}\n\n" + "\n".join(lines))
    return "\n\n".join(parts) + "\n"


def full() -> str:
    """Return the text of llms-full.txt."""
    pages = [page for section, pages in sections().items() if section != "Reference" for page in pages.values()]
    return f"# Dragoman\n\n> {SUMMARY}\n\n" + "\n\n".join(f"<!-- {page} -->\n\n{markdown(page)}" for page in pages)


def with_reference(text: str) -> str:
    """Write out what a page of the reference names by `:::`."""
    return _REFERENCE.sub(lambda named: "\n\n".join(_described(named["name"], _object(named["name"]), 2)) + "\n", text)


@cache
def _package() -> Any:
    import griffe  # only the environment that builds the documentation has it
    from reference import Reading

    return griffe.load("dragoman", search_paths=[ROOT / "src"], extensions=griffe.Extensions(Reading()))


def _object(name: str) -> Any:
    return _target(_package()[name.removeprefix("dragoman.")])


def _described(name: str, shown: Any, level: int) -> Iterator[str]:
    yield f"{'#' * level} {name}"
    if not shown.is_module and not shown.is_attribute and (signature := shown.signature()):
        yield f"```text\n{signature}\n```"
    if shown.docstring:
        yield shown.docstring.value.strip()
    if shown.is_attribute or shown.is_function:
        return
    for member in shown.members.values() if shown.is_module else shown.all_members.values():
        target = _target(member)
        if target and not target.name.startswith("_") and (target.docstring or target.is_class):
            yield from _described(target.name, target, level + 1)


def _target(member: Any) -> Any:
    """Return what a name stands for, or None if it is of another package or griffe cannot find it."""
    from griffe import AliasResolutionError

    try:
        return member.final_target if member.is_alias else member
    except AliasResolutionError:
        return None


def main() -> None:
    """Write the files into the folder of the built pages, `build/docs` unless an argument names another."""
    site = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "build" / "docs"
    for pages in sections().values():
        for page in pages.values():
            target = site / page
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(with_reference(markdown(page)), encoding="utf-8")
    (site / "llms.txt").write_text(index(), encoding="utf-8")
    (site / "llms-full.txt").write_text(full(), encoding="utf-8")


if __name__ == "__main__":
    main()
