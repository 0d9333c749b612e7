"""Which tools a model may call by itself, which a person must approve of, and which it may not call at all."""

from __future__ import annotations

import copy
import logging
from collections.abc import Awaitable, Callable, Iterable
from typing import Literal

from dragoman import types
from dragoman.client.answer.callbacks import call_handler
from dragoman.client.bound import AsyncBoundTool
from dragoman.schema.naming import matches

Verdict = Literal["allow", "ask", "deny"]
Rule = str | Callable[[AsyncBoundTool, types.Json], bool | Awaitable[bool]]
"""A pattern for names, or a function of a tool and its arguments."""
_logger = logging.getLogger("dragoman.chat")


class Policy:
    """Rules about tool calls; the strictest that fits decides.

    Example:
        Policy(deny=["*delete*"], ask=["shell__*"], allow=["*"])

    A rule is a pattern for the tool's name, or for `server__tool`; or a function of the tool and its arguments, plain
    or async, that tells whether it fits. What no rule fits is decided by `default`. With `annotations`, a tool of a
    trusted server is allowed when it says that it only reads, and asked about when it says that it destroys. A rule
    that fails denies the call.

    Raises:
        TypeError: a rule is neither a pattern nor a function.
        ValueError: `default` is no verdict.
    """

    def __init__(
        self,
        *,
        allow: Rule | Iterable[Rule] = (),
        ask: Rule | Iterable[Rule] = (),
        deny: Rule | Iterable[Rule] = (),
        default: Verdict = "allow",
        annotations: bool = False,
    ) -> None:
        if default not in ("allow", "ask", "deny"):
            raise ValueError(f'default must be "allow", "ask" or "deny", not {default!r}')
        self._rules: list[tuple[Verdict, list[Rule]]] = [
            ("deny", _rules(deny)),
            ("ask", _rules(ask)),
            ("allow", _rules(allow)),
        ]
        self._default = default
        self._annotations = annotations

    def __repr__(self) -> str:
        rules = [f"{verdict} {len(rules)}" for verdict, rules in self._rules if rules]
        return f"<Policy: {', '.join([*rules, f'else {self._default}'])}>"

    async def judge(
        self, names: Iterable[str], tool: AsyncBoundTool, arguments: types.Json, *, trusted: bool
    ) -> Verdict:
        """Return what is to be done about a call; `names` are those that the tool goes by."""
        known = list(names)
        for verdict, rules in self._rules:
            for rule in rules:
                try:
                    fits = await _fits(rule, known, tool, arguments)
                except Exception:
                    _logger.exception("A rule about tool calls failed, which denies the call of %s", known[0])
                    return "deny"
                if fits:
                    return verdict
        return self._by_annotations(tool.annotations) if self._annotations and trusted else self._default

    def _by_annotations(self, hints: types.ToolAnnotations) -> Verdict:
        if hints.read_only_hint:
            return "allow"
        return "ask" if hints.destructive_hint else self._default


def _rules(given: Rule | Iterable[Rule]) -> list[Rule]:
    rules = [given] if isinstance(given, str) or callable(given) else list(given)
    for rule in rules:
        if not isinstance(rule, str) and not callable(rule):
            raise TypeError(
                f"A rule is a pattern such as 'shell__*' or a function of a tool and arguments, not {rule!r}"
            )
    return rules


async def _fits(rule: Rule, names: list[str], tool: AsyncBoundTool, arguments: types.Json) -> bool:
    if isinstance(rule, str):
        return matches([rule], *names)
    return bool(await call_handler(rule, tool, copy.deepcopy(arguments)))
