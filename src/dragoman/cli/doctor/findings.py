"""Findings: the findings of `dragoman doctor`, one for each step."""

from __future__ import annotations

from msgspec import Struct, structs

from dragoman.cli.terminal import Terminal


class Finding(Struct, frozen=True, omit_defaults=True):
    """The result of one step: whether it passed, and the remedy if not."""

    step: str
    ok: bool
    detail: str
    remedy: str | None = None
    remark: bool = False
    """Whether the step passed with a shortcoming."""
    server: str | None = None


class Findings:
    """The findings so far, each shown as soon as it is added."""

    def __init__(self, terminal: Terminal) -> None:
        self._terminal = terminal
        self.server: str | None = None
        self._is_own = True
        self.all: list[Finding] = []

    @property
    def all_passed(self) -> bool:
        """Whether no step failed."""
        return all(finding.ok for finding in self.all)

    @property
    def has_remarks(self) -> bool:
        """Whether a step passed with a shortcoming."""
        return any(finding.remark for finding in self.all)

    def begin(self, server: str, *, is_own: bool) -> None:
        """Begin the findings of a server; `is_own` says whether the user can change the server."""
        self.server = server
        self._is_own = is_own
        if not self._terminal.settings.json:
            self._terminal.write(_one_line(server), "bold")

    def passed(self, step: str, detail: str) -> None:
        """Add a step that passed."""
        self._add(Finding(step, ok=True, detail=detail, server=self.server))

    def failed(self, step: str, detail: str, remedy: str | None = None) -> None:
        """Add a step that failed."""
        self._add(Finding(step, ok=False, detail=detail, remedy=remedy, server=self.server))

    def remark(self, step: str, detail: str, remedy: str | None = None) -> None:
        """Add a step that passed with a shortcoming."""
        self._add(Finding(step, ok=True, detail=detail, remedy=remedy, remark=True, server=self.server))

    def shortcoming(self, step: str, detail: str, remedy: str | None = None) -> None:
        """Add a shortcoming of the server: a failure if the user can change the server, else a remark."""
        (self.failed if self._is_own else self.remark)(step, detail, remedy)

    def _add(self, finding: Finding) -> None:
        lines = {"step": _one_line(finding.step), "detail": _one_line(finding.detail)}
        finding = structs.replace(finding, **lines)
        self.all.append(finding)
        if self._terminal.settings.json:
            return
        mark, style = ("!" if finding.remark else "✓", None) if finding.ok else ("✗", "red")
        self._terminal.write(f"{mark} {finding.step}: {finding.detail}", style)
        if finding.remedy:
            self._terminal.write(f"    → {_one_line(finding.remedy)}", "yellow")


def _one_line(text: str) -> str:
    return " ".join(text.split())
