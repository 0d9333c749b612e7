"""What `dragoman doctor` finds, step by step."""

from __future__ import annotations

from msgspec import Struct, structs

from dragoman.cli.terminal import Terminal


class Finding(Struct, frozen=True, omit_defaults=True):
    """One step: what was looked at, whether it is well, and what to do if it is not."""

    step: str
    ok: bool
    detail: str
    remedy: str | None = None
    remark: bool = False
    """Whether it is well enough, and could be better."""
    server: str | None = None


class Findings:
    """The steps so far, each shown as soon as it is known."""

    def __init__(self, terminal: Terminal) -> None:
        self._terminal = terminal
        self.server: str | None = None
        self._is_own = True
        self.all: list[Finding] = []

    @property
    def are_well(self) -> bool:
        """Whether nothing is wrong."""
        return all(finding.ok for finding in self.all)

    @property
    def has_remarks(self) -> bool:
        """Whether something could be better."""
        return any(finding.remark for finding in self.all)

    def begin(self, server: str, *, is_own: bool) -> None:
        """Look at a server from now on; `is_own` says whether the user can change it."""
        self.server = server
        self._is_own = is_own
        if not self._terminal.settings.json:
            self._terminal.write(_in_one_line(server), "bold")

    def well(self, step: str, detail: str) -> None:
        """Note that a step is as it should be."""
        self._add(Finding(step, ok=True, detail=detail, server=self.server))

    def wrong(self, step: str, detail: str, remedy: str | None = None) -> None:
        """Note that a step is not as it should be."""
        self._add(Finding(step, ok=False, detail=detail, remedy=remedy, server=self.server))

    def remark(self, step: str, detail: str, remedy: str | None = None) -> None:
        """Note what could be better, and keeps nobody from using the server."""
        self._add(Finding(step, ok=True, detail=detail, remedy=remedy, remark=True, server=self.server))

    def amiss(self, step: str, detail: str, remedy: str | None = None) -> None:
        """Note a shortcoming that the server's author can mend: it is wrong in a server of the user's own alone."""
        (self.wrong if self._is_own else self.remark)(step, detail, remedy)

    def _add(self, finding: Finding) -> None:
        lines = {"step": _in_one_line(finding.step), "detail": _in_one_line(finding.detail)}
        finding = structs.replace(finding, **lines)
        self.all.append(finding)
        if self._terminal.settings.json:
            return
        mark, style = ("!" if finding.remark else "✓", None) if finding.ok else ("✗", "red")
        self._terminal.write(f"{mark} {finding.step}: {finding.detail}", style)
        if finding.remedy:
            self._terminal.write(f"    → {_in_one_line(finding.remedy)}", "yellow")


def _in_one_line(text: str) -> str:
    return " ".join(text.split())
