"""Which tools a model may call by itself, which a person must approve of, and which it may not call at all."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from fnmatch import fnmatchcase
from typing import Any, Literal

from dragoman import types
from dragoman.client.calling import call

Verdict = Literal["allow", "ask", "deny"]
Rule = str | Callable[..., Any]


class Policy:
    """Rules about tool calls; the strictest that fits decides.

    Example:
        Policy(deny=["*delete*"], ask=["shell__*"], allow=["*"])

    A rule is a pattern for the tool's name, or for `server__tool`; or a function of the tool and its arguments, plain
    or async, that tells whether it fits. What no rule fits is decided by `default`. With `annotations`, a tool of a
    trusted server is allowed when it says that it only reads, and asked about when it says that it destroys.
    """

    def __init__(
        self,
        *,
        allow: Iterable[Rule] = (),
        ask: Iterable[Rule] = (),
        deny: Iterable[Rule] = (),
        default: Verdict = "allow",
        annotations: bool = False,
    ) -> None:
        if default not in ("allow", "ask", "deny"):
            raise ValueError(f'default must be "allow", "ask" or "deny", not {default!r}')
        self._rules: list[tuple[Verdict, list[Rule]]] = [
            ("deny", list(deny)),
            ("ask", list(ask)),
            ("allow", list(allow)),
        ]
        self._default = default
        self._annotations = annotations

    async def judge(self, names: Iterable[str], tool: Any, arguments: types.Json, *, trusted: bool) -> Verdict:
        """Return what is to be done about a call; `names` are those that the tool goes by."""
        known = list(names)
        for verdict, rules in self._rules:
            for rule in rules:
                if await _fits(rule, known, tool, arguments):
                    return verdict
        hints: types.ToolAnnotations = tool.annotations
        if self._annotations and trusted:
            if hints.read_only_hint:
                return "allow"
            if hints.destructive_hint:
                return "ask"
        return self._default


async def _fits(rule: Rule, names: list[str], tool: Any, arguments: types.Json) -> bool:
    if isinstance(rule, str):
        return any(fnmatchcase(name, rule) for name in names)
    return bool(await call(rule, tool, arguments))
