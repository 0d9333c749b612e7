"""How far a call is: a bar on a terminal, lines elsewhere."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from dragoman.cli.terminal import Terminal
from dragoman.runtime.terminal import is_terminal, printable_line

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID


class ProgressView:
    """Shows the progress of one call; a question in between takes the bar away for as long as it lasts."""

    def __init__(self, terminal: Terminal, name: str) -> None:
        self._terminal = terminal
        self._name = name
        self._bar: Progress | None = None
        self._task: TaskID

    def report(self, progress: float, total: float | None = None, message: str | None = None) -> None:
        """Show how far it is."""
        said = printable_line(" ".join((message or "").split()))
        if not is_terminal(sys.stderr):
            far = f"{progress:g}" if total is None else f"{progress:g}/{total:g}"
            self._terminal.tell(f"progress: {far} {said}".rstrip())
            return
        if self._terminal.is_asking:
            return
        shown: dict[str, Any] = {"completed": progress, "total": total, "description": said or self._name}
        if self._bar is None:
            self._bar, self._task = self._open(shown)
        else:
            self._bar.update(self._task, **shown)

    def _open(self, shown: dict[str, Any]) -> tuple[Progress, TaskID]:
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

        columns: list[Any] = [TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn()]
        bar = Progress(*columns, TimeElapsedColumn(), console=self._terminal.aside, transient=True)
        task = bar.add_task(**shown)
        bar.start()
        return bar, task

    def close(self) -> None:
        """Take the bar away."""
        bar, self._bar = self._bar, None
        if bar is not None:
            bar.stop()
