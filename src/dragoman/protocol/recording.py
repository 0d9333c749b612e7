"""`Recording`: the answers, the steps and the author's state that a handler finds when it runs again.

A handler that asks a question may run several times for one request. Each run gets the recording of the runs before it.
In the stateless era `requestState` carries the recording from round to round (`rounds`). The code that runs a call
apart from its request keeps the recording itself.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Raw, Struct, field

_NULL = Raw(b"null")


class RecordedAnswer(Struct, array_like=True):
    """The answer to a question, and the digest of the question; a recorded answer is valid for that digest only."""

    fingerprint: str | None
    """None: the answer is valid for any question with its key."""
    value: Raw


class Recording(Struct, array_like=True):
    """What the runs of one handler recorded; JSON and msgspec encode and decode it without loss.

    Example:
        outcome = await extension.run_detached(server, call)
        if isinstance(outcome, InputRequiredResult):
            call.recording.answer({"elicit-1": Raw(b'{"action": "cancel"}')})
    """

    answers: dict[str, RecordedAnswer] = field(default_factory=dict)
    asked: dict[str, str] = field(default_factory=dict)
    """The digest of each question of the last run that had no answer, by key."""
    steps: dict[str, Raw] = field(default_factory=dict)
    """The encoded values of the steps that ran, by name."""
    state: Raw = _NULL
    """The state that the handler returned with `InputRequired`."""
    trace: str = ""
    """The `traceparent` of the first run; empty if the run was not recorded."""
    seconds: float = 0.0
    """The time that the runs took, if the handler has a time limit."""

    @property
    def inputs(self) -> dict[str, Raw]:
        """The answers, by key, as the client sent them."""
        return {key: answer.value for key, answer in self.answers.items()}

    @property
    def unanswered(self) -> set[str]:
        """The keys of the questions that wait for an answer."""
        return {key for key in self.asked if key not in self.answers}

    def answer(self, responses: Mapping[str, Raw]) -> None:
        """Record answers of the client; an answer to no waiting question is ignored."""
        waiting = self.unanswered
        for key, value in responses.items():
            if key in waiting:
                self.answers[key] = RecordedAnswer(self.asked[key], value)

    def copy(self) -> Recording:
        """Return a recording that does not change with this one."""
        return Recording(dict(self.answers), dict(self.asked), dict(self.steps), self.state, self.trace, self.seconds)
