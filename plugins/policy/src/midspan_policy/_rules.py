"""Rules, and which of them decides."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal

from midspan_policy._fold import fold
from midspan_policy._glob import Glob

Effect = Literal["allow", "deny"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Rule:
    """One rule of a policy.

    Attributes:
        id: how verdicts name it: `deny[0]`, `allow[2]`, `default`, `unnamed`, `overlong`.
        effect: what becomes of a tool that it decides on.
        pattern: the glob as the operator wrote it, or None when the rule has none.
        order: its place among the rules of its effect; the first that matches decides.
        glob: what it matches names with; a deny matches folded names, an allow the names as they are.
    """

    id: str
    effect: Effect
    pattern: str | None = None
    order: int = 0
    glob: Glob | None = field(default=None, repr=False, compare=False)


UNNAMED: Final = Rule(id="unnamed", effect="deny")
"""Decides on what has no name, or one that is no string."""

OVERLONG: Final = Rule(id="overlong", effect="deny")
"""Decides on names of more than `MAX_NAME` characters."""

MAX_NAME: Final = 1024
"""MCP recommends at most 128 characters; the bound keeps hostile names from costing time."""


class Policy:
    """Allow and deny rules, compiled; deny wins.

    Args:
        allow: globs of tool names, matched to the letter.
        deny: globs of tool names; a look-alike of a denied name is denied too (see `fold`).
        default: what becomes of a tool that no rule matches.
    """

    __slots__ = ("_allow", "_default", "_deny", "allow", "deny")

    def __init__(self, *, allow: Sequence[str], deny: Sequence[str], default: Effect) -> None:
        self.allow = tuple(
            Rule(id=f"allow[{order}]", effect="allow", pattern=pattern, order=order, glob=Glob.of(pattern))
            for order, pattern in enumerate(allow)
        )
        self.deny = tuple(
            Rule(id=f"deny[{order}]", effect="deny", pattern=pattern, order=order, glob=Glob.of(pattern).folded())
            for order, pattern in enumerate(deny)
        )
        self._allow = _Index(self.allow)
        self._deny = _Index(self.deny)
        self._default = Rule(id="default", effect=default)

    def decide(self, name: object) -> Rule:
        """Return the rule that decides on a tool: the first deny that matches, else the first allow, else the default.

        Args:
            name: the tool's name as it stands in the message. Anything but a string, and a string of more
                than `MAX_NAME` characters, is denied.
        """
        if not isinstance(name, str):
            return UNNAMED
        if len(name) > MAX_NAME:
            return OVERLONG
        return self._denied(name) or self._allow.first(name) or self._default

    def _denied(self, name: str) -> Rule | None:
        if not self.deny:
            return None
        folded = fold(name)
        stripped = folded.strip(" ")
        return self._deny.first(folded) or (self._deny.first(stripped) if stripped != folded else None)


class _Index:
    """Rules of one effect: those without wildcard by name, so that long lists cost one look-up."""

    __slots__ = ("_by_name", "_wild")

    def __init__(self, rules: Iterable[Rule]) -> None:
        self._by_name: dict[str, Rule] = {}
        wild: list[tuple[int, Glob, Rule]] = []
        for rule in rules:
            assert rule.glob is not None
            literal = rule.glob.literal
            if literal is None:
                wild.append((rule.order, rule.glob, rule))
            else:
                self._by_name.setdefault(literal, rule)
        self._wild = tuple(wild)

    def first(self, name: str) -> Rule | None:
        exact = self._by_name.get(name)
        for order, glob, rule in self._wild:
            if exact is not None and order > exact.order:
                break
            if glob.matches(name):
                return rule
        return exact
