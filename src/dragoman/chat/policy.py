"""The policy of a chat: which tool calls are allowed, which need approval, and which are denied."""

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
"""A pattern for names, or a function of a tool and its arguments that returns whether the rule applies."""
_logger = logging.getLogger("dragoman.chat")


class Policy:
    """Rules for tool calls; the strictest rule that applies decides.

    Example:
        Policy(deny=["*delete*"], ask=["shell__*"], allow=["*"])

    A rule is a pattern for the tool's name, or for `server__tool`; or a function of the tool and its arguments, plain
    or async, that returns whether the rule applies. `default` decides calls to which no rule applies. Without it, they
    are denied if `allow` is given, even if it is empty, and allowed otherwise. With `annotations`, a tool of a trusted
    server is allowed if its annotations say read-only, and needs approval if they say destructive; rules precede
    annotations, and annotations precede the default. A rule that fails, or does not return True or False, denies the
    call.

    Raises:
        TypeError: a rule is neither a pattern nor a function.
        ValueError: `default` is not "allow", "ask" or "deny".
    """

    def __init__(
        self,
        *,
        allow: Rule | Iterable[Rule] | None = None,
        ask: Rule | Iterable[Rule] = (),
        deny: Rule | Iterable[Rule] = (),
        default: Verdict | None = None,
        annotations: bool = False,
    ) -> None:
        if default not in (None, "allow", "ask", "deny"):
            raise ValueError(f'default must be "allow", "ask" or "deny", not {default!r}')
        self._rules: list[tuple[Verdict, list[Rule]]] = [
            ("deny", _rules(deny)),
            ("ask", _rules(ask)),
            ("allow", _rules(() if allow is None else allow)),
        ]
        self._default: Verdict = default or ("allow" if allow is None else "deny")
        self._annotations = annotations

    def __repr__(self) -> str:
        rules = [f"{verdict} {len(rules)}" for verdict, rules in self._rules if rules]
        return f"<Policy: {', '.join([*rules, f'else {self._default}'])}>"

    async def judge(
        self, names: Iterable[str], tool: AsyncBoundTool, arguments: types.Json, *, trusted: bool
    ) -> Verdict:
        """Return the verdict on a call; `names` are the names of the tool."""
        known = list(names)
        for verdict, rules in self._rules:
            for rule in rules:
                try:
                    applies = await _applies(rule, known, tool, arguments)
                except Exception:
                    _logger.exception("A rule of the policy failed; the call of %s is denied", known[0])
                    return "deny"
                if applies:
                    return verdict
        return self._by_annotations(tool.annotations) if self._annotations and trusted else self._default

    def _by_annotations(self, hints: types.ToolAnnotations) -> Verdict:
        if hints.read_only_hint:
            return "allow"
        return "ask" if hints.destructive_hint else self._default


def _rules(source: Rule | Iterable[Rule]) -> list[Rule]:
    rules = [source] if isinstance(source, str) or callable(source) else list(source)
    for rule in rules:
        if not isinstance(rule, str) and not callable(rule):
            raise TypeError(
                f"A rule is a pattern such as 'shell__*' or a function of a tool and arguments, not {rule!r}"
            )
    return rules


async def _applies(rule: Rule, names: list[str], tool: AsyncBoundTool, arguments: types.Json) -> bool:
    if isinstance(rule, str):
        return matches([rule], *names)
    applies = await call_handler(rule, tool, copy.deepcopy(arguments))
    if not isinstance(applies, bool):
        raise TypeError(f"A rule must return True or False, not {type(applies).__name__}")
    return applies
