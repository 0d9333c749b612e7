"""What the pages need to stand alone: a link out of the documentation to a file of the repository becomes its text."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

_LINK = re.compile(r"\[([^\]]+)\]\((?!https?:|#)([^)#\s]+)(?:#[^)]*)?\)")


def on_page_markdown(markdown: str, *, page: Any, config: Any, **_: Any) -> str:
    """Leave the text of links that lead to something which is no page; what leads nowhere is left to be found wrong."""
    folder, pages = Path(page.file.abs_src_path).parent, Path(config.docs_dir)

    def kept(found: re.Match[str]) -> str:
        target = (folder / found[2]).resolve()
        return f"`{found[1]}`" if target.exists() and not target.is_relative_to(pages) else found[0]

    return _LINK.sub(kept, markdown)
