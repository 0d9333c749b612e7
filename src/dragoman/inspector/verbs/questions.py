"""The verbs of questions: those that wait, their answers, and the settings that answer without asking."""

from __future__ import annotations

import re
from typing import Any

from dragoman import types
from dragoman.errors import InspectorError
from dragoman.inspector.questions import Answer, AnswerRule
from dragoman.inspector.verbs.contract import PageVerbs


class QuestionVerbs(PageVerbs):
    """The verbs of questions."""

    async def list_(self) -> dict[str, Any]:
        """Return the questions that wait."""
        return {"questions": self._inspector.questions.all()}

    async def answer(self, question: str, answer: Answer) -> dict[str, Any]:
        """Answer a question."""
        await self._inspector.questions.answer(question, answer)
        return {}

    async def settings(
        self,
        server: str,
        approvals: bool | None = None,  # noqa: FBT001
        roots: list[types.Root] | None = None,
        script: list[AnswerRule] | None = None,
    ) -> dict[str, Any]:
        """Change whether calls are approved, the roots, and the scripted answers of a server."""
        for rule in script or ():
            try:
                re.compile(rule.match)
            except re.error as error:
                raise InspectorError(f"{rule.match!r} is no regular expression: {error}") from None
        found = self._inspector.server(server)
        found.change(approvals=approvals, roots=roots, script=script)
        return {"server": found.facts()}
