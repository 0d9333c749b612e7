"""The mismatch between a view and the definition that it reshapes, in words."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from dragoman.errors import DefinitionError


class ViewFinding(Struct, frozen=True):
    """A part of a view that does not match the definition that it reshapes.

    Example:
        for finding in catalog.findings:
            print(finding)  # The view of 'search' does not match: the tool has no argument 'q'; it has query, sort
    """

    subject: str
    """The name or URI of the definition in the upstream, or the key of the view."""
    problem: str

    def __str__(self) -> str:
        return f"The view of {self.subject!r} does not match: {self.problem}"


class Unsupported(Exception):
    """A schema has a keyword that a view cannot reshape exactly; it becomes a finding."""


def raise_findings(findings: Iterable[ViewFinding]) -> None:
    """Raise an error for findings, if there are any.

    Raises:
        DefinitionError: there are findings; the message lists all.
    """
    texts = [str(finding) for finding in findings]
    if texts:
        raise DefinitionError("\n".join(texts))
