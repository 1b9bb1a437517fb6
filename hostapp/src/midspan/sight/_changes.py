"""What differs between two payloads, path by path."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Any, Final, cast

_BARE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class Absent:
    """Stands for a value that is not there."""

    def __repr__(self) -> str:
        return "ABSENT"


ABSENT: Final = Absent()


@dataclass(frozen=True, kw_only=True, slots=True)
class Change:
    """One value that differs.

    Attributes:
        path: where, as `$.arguments.text`.
        before: the value before; `ABSENT` when it was added.
        after: the value after; `ABSENT` when it was taken out.
    """

    path: str
    before: Any
    after: Any

    def as_json(self) -> dict[str, Any]:
        """Return it for programs: `before` or `after` is left out where there was, or is, nothing."""
        values = {"before": self.before, "after": self.after}
        return {"path": self.path, **{key: value for key, value in values.items() if value is not ABSENT}}


def changes(before: object, after: object, path: str = "$") -> Iterator[Change]:
    """Yield what differs, the smallest values that do."""
    if isinstance(before, dict) and isinstance(after, dict):
        yield from _of_objects(cast("dict[str, Any]", before), cast("dict[str, Any]", after), path)
    elif isinstance(before, list) and isinstance(after, list):
        yield from _of_lists(cast("list[Any]", before), cast("list[Any]", after), path)
    elif _text(cast("object", before)) != _text(after):
        yield Change(path=path, before=before, after=after)


def _of_objects(before: dict[str, Any], after: dict[str, Any], path: str) -> Iterator[Change]:
    for key in dict.fromkeys((*before, *after)):
        step = f".{key}" if _BARE.fullmatch(key) else f"[{json.dumps(key)}]"
        if key not in before or key not in after:
            yield Change(path=path + step, before=before.get(key, ABSENT), after=after.get(key, ABSENT))
        else:
            yield from changes(before[key], after[key], path + step)


def _of_lists(before: list[Any], after: list[Any], path: str) -> Iterator[Change]:
    matcher = SequenceMatcher(None, [_text(one) for one in before], [_text(one) for one in after], autojunk=False)
    for _, start, end, new_start, new_end in matcher.get_opcodes():
        paired = min(end - start, new_end - new_start)
        for offset in range(paired):
            yield from changes(before[start + offset], after[new_start + offset], f"{path}[{start + offset}]")
        for index in range(start + paired, end):
            yield Change(path=f"{path}[{index}]", before=before[index], after=ABSENT)
        for index in range(new_start + paired, new_end):
            yield Change(path=f"{path}[{index}]", before=ABSENT, after=after[index])


def _text(value: object) -> str:
    return json.dumps(value, sort_keys=True)
