"""Where in a payload a text stands, and what may be done to it there."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, Literal

Part = Literal["value", "key", "target", "meta", "cursor"]
"""What a text is part of: any string `value`, an object `key`, the operation's `target`, reserved `meta` data, a
`cursor`."""

EDITABLE_PARTS: Final[frozenset[Part]] = frozenset({"value", "key"})
"""The parts whose text a mutator may change."""
PROTECTED_PARTS: Final[frozenset[Part]] = frozenset({"target", "meta", "cursor"})
"""The parts whose text a mutator must leave alone: other parties act on them as they are."""

IN_JSON: Final = object()
"""The step from a text into the JSON that it is."""

_STEP_LENGTH = 80
_PLAIN_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")


class Place:
    """A container's place, linked to that of the container it is in."""

    __slots__ = ("parent", "step")

    def __init__(self, parent: Place | None, step: object) -> None:
        self.parent = parent
        self.step = step


ROOT: Final = Place(None, "$")


class Text:
    """A text in a payload.

    Attributes:
        value: the text.
        part: what it is part of.
    """

    __slots__ = ("_place", "_step", "part", "value")

    def __init__(self, value: str, part: Part, place: Place, step: object = None) -> None:
        self.value = value
        self.part: Part = part
        self._place = place
        self._step = step

    @property
    def editable(self) -> bool:
        """Whether a mutator may change it."""
        return self.part in EDITABLE_PARTS

    @property
    def path(self) -> str:
        """Its JSON path, for people: `$.content[0].text`.

        JSON inside a text goes after a bar: `$.content[0].text | $.token`. A key has the path of its object. In
        `edit_text` a path names edited keys as they were edited. Long keys are cut.
        """
        steps = [] if self._step is None else [_step(self._step)]
        steps += (_step(place.step) for place in _upwards(self._place))
        return "".join(reversed(steps))

    @property
    def name(self) -> str | None:
        """The object key under which it stands, as edited; items of an array share the array's. None at the top."""
        if isinstance(self._step, str):
            return self._step
        for place in _upwards(self._place):
            if isinstance(place.step, str) and place.parent is not None:
                return place.step
        return None

    def __repr__(self) -> str:
        return f"<Text {self.part} at {self.path}>"


def _upwards(place: Place | None) -> Iterator[Place]:
    while place is not None:
        yield place
        place = place.parent


def _step(step: object) -> str:
    if isinstance(step, int):
        return f"[{step}]"
    if step is IN_JSON:
        return " | $"
    name = str(step)
    if name == "$":
        return name
    if len(name) > _STEP_LENGTH:
        name = f"{name[:_STEP_LENGTH]}…"
    if _PLAIN_NAME.fullmatch(name):
        return f".{name}"
    quoted = name.encode("unicode_escape").decode().replace("'", "\\'")
    return f"['{quoted}']"
