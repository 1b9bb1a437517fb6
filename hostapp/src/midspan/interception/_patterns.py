"""What matching a pattern may cost, before it is matched.

Patterns of a tool's schema are the server's, texts may be too, and Python's `re` can take for ever on such a pair: it
backtracks, holds the event loop while it does, and cannot be interrupted. So the cost is estimated from the pattern's
form and the text's length, on the safe side.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final, NamedTuple

_MOST_STEPS: Final = 1_000_000
_MANY: Final = 10
"""A repetition that may go on longer than this counts as one without an end."""
_SHORT: Final = 12
"""Texts so short are harmless even to a repetition of repetitions."""
_TOKEN = re.compile(
    r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|(?P<open>\()(?:\?(?:P?<\w+>|[a-zA-Z-]*:|<?[=!]|>))?|(?P<close>\))|(?P<or>\|)"
    r"|(?P<many>[*+]|\{(?P<low>\d*)(?P<comma>,)?(?P<high>\d*)\})|(?P<maybe>\?)|.",
    re.DOTALL,
)


class _Form(NamedTuple):
    """What counts in a pattern.

    Attributes:
        loops: how many repetitions without an end it has; one more when it may match anywhere.
        options: how many things may be there or not.
        nested: whether something that can match in several ways is repeated.
    """

    loops: int
    options: int
    nested: bool


def is_affordable(pattern: str, length: int) -> bool:
    """Tell whether matching the pattern against any text of this length ends soon."""
    form = _form_of(pattern)
    if form.nested:
        return length <= _SHORT
    return (length + 1) ** form.loops * 2.0 ** min(form.options, 100) <= _MOST_STEPS


@lru_cache(maxsize=256)
def _form_of(pattern: str) -> _Form:
    loops = 0 if pattern.startswith(("^", "\\A")) else 1
    options = 0
    nested = False
    varied = [False]  # of each open group: whether what is in it so far can match in several ways
    closed = False  # whether what stands right before is a group that can
    for token in _TOKEN.finditer(pattern):
        after_varied, closed = closed, False
        if token["open"]:
            varied.append(False)
        elif token["close"]:
            closed = varied.pop() if len(varied) > 1 else varied[0]
            varied[-1] |= closed
        elif token["or"] or token["maybe"]:
            varied[-1] = True
            options += 1
        elif token["many"]:
            if _is_long(token):
                loops += 1
                nested |= after_varied
            elif after_varied:
                options += _MANY
            if token["many"] in "*+" or token["comma"]:
                varied[-1] = True
    return _Form(loops, options, nested)


def _is_long(token: re.Match[str]) -> bool:
    if token["many"] in "*+":
        return True
    if token["comma"] and not token["high"]:
        return True
    bound = token["high"] if token["comma"] else token["low"]
    return len(bound) > 3 or int(bound or 0) > _MANY
