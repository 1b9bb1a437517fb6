"""Walk a payload's text, and change it.

The walk keeps a stack of its own, because payloads may be nested as deeply as Python's. What it changes it copies, from
the changed string up to the payload; all else is shared with the payload as it was.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Any, Final, cast

from midspan_sdk._protected_names import CURSORS, PROGRESS_TOKEN, REQUEST_STATE, TARGETS, is_reserved_meta
from midspan_sdk.payload._json_text import Repeated, read_json, replace_strings
from midspan_sdk.payload._media import media_key, outside_data_uris
from midspan_sdk.payload._parts import EDITABLE_PARTS, IN_JSON, PROTECTED_PARTS, ROOT, Part, Place, Text
from midspan_sdk.payload._spans import replace_spans

_JSON_DEPTH: Final = 8
"""How many times text may be JSON with text in it; deeper, it is text."""

_TOP: Final[dict[str, Part]] = {
    **dict.fromkeys(TARGETS, "target"),
    **dict.fromkeys(CURSORS, "cursor"),
    PROGRESS_TOKEN: "meta",
}

Visit = Callable[[Text], str | None]
Container = dict[str, Any] | list[Any] | Repeated
_CONTAINERS: Final = (dict, list, Repeated)


def edit_text(payload: dict[str, Any], editor: Visit) -> dict[str, Any] | None:
    """Show every editable text of a payload to an editor, and return the payload with what it changed.

    Texts come in document order, a key before what is under it. A text that is a JSON object or array is not shown;
    the texts in it are, and it is written anew, with only the changed strings replaced. A text with base64 `data:` URIs
    is shown in the pieces around them. Two keys that become one get a number, so that no value is lost.

    Args:
        payload: request params, a result, or `{"error": {...}}`. It is not changed.
        editor: returns the new text, or None to leave it.

    Returns:
        The new payload, which shares what did not change with the old one; None when nothing changed.
    """
    walk = _Walk(editor, EDITABLE_PARTS)
    return cast("dict[str, Any] | None", walk.over(payload, _Frame(payload, ROOT, "value", top=True)))


def find_text(payload: dict[str, Any], parts: Collection[Part] | None = None) -> list[Text]:
    """Return the texts of a payload in document order, protected ones included.

    Args:
        payload: request params, a result, or `{"error": {...}}`.
        parts: only texts of these parts, for example `PROTECTED_PARTS`; None for all.
    """
    found: list[Text] = []
    wanted = frozenset(parts) if parts is not None else EDITABLE_PARTS | PROTECTED_PARTS
    walk = _Walk(cast("Visit", found.append), wanted)
    walk.over(payload, _Frame(payload, ROOT, "value", top=True))
    return found


class _Frame:
    """A container that the walk is in."""

    __slots__ = (
        "changes",
        "container",
        "counts",
        "items",
        "media",
        "meta",
        "part",
        "place",
        "renames",
        "step",
        "taken",
        "top",
    )

    def __init__(
        self, container: Container, place: Place, part: Part, *, step: Any = None, top: bool = False, meta: bool = False
    ) -> None:
        self.container = container
        self.place = place
        self.part: Part = part
        self.step = step
        self.top = top
        self.meta = meta
        self.media: str | None = None
        self.items: Iterator[tuple[Any, Any]]
        if isinstance(container, list):
            self.items = enumerate(container)
        else:
            self.items = iter(_members(container))
            if isinstance(container, dict):
                self.media = media_key(container)
        self.changes: dict[Any, Any] | None = None
        self.renames: dict[str, str] | None = None
        self.taken: set[str]
        self.counts: dict[str, int]

    def part_of(self, key: str) -> Part:
        """Return what part the member under a key is."""
        if self.top:
            return _TOP.get(key, self.part)
        if self.meta and is_reserved_meta(key):
            return "meta"
        return self.part

    def change(self, step: Any, value: Any) -> None:
        """Note another value for a member or item."""
        if self.changes is None:
            self.changes = {}
        self.changes[step] = value

    def free_name(self, key: str, wanted: str) -> str:
        """Return the name to give to a key: the wanted one, numbered when another member has it."""
        if self.renames is None:
            self.renames = {}
            self.taken = {name for name, _ in _members(self.container)}
            self.counts = {}
        name = wanted
        while name in self.taken:
            self.counts[wanted] = count = self.counts.get(wanted, 1) + 1
            name = f"{wanted} ({count})"
        self.taken.add(name)
        self.renames[key] = name
        return name

    def finished(self) -> Any:
        """Return the container with its changes; the very same one when there are none."""
        if self.changes is None and self.renames is None:
            return self.container
        changes, renames = self.changes or {}, self.renames or {}
        if isinstance(self.container, dict):
            return {renames.get(key, key): changes.get(key, value) for key, value in self.container.items()}
        items = cast("list[Any]", self.container).copy()
        for index, value in changes.items():
            items[index] = value
        return items


def _members(container: Container) -> Iterable[tuple[Any, Any]]:
    if isinstance(container, dict):
        return container.items()
    return container.members if isinstance(container, Repeated) else ()


class _Walk:
    def __init__(self, visit: Visit, parts: frozenset[Part]) -> None:
        self._visit = visit
        self._parts = parts

    def over(self, container: Container, frame: _Frame, depth: int = 0, strings: dict[int, str] | None = None) -> Any:
        """Walk a container.

        Args:
            container: what to walk.
            frame: its frame.
            depth: how many texts it is in.
            strings: for JSON in a text: takes the changed strings by their position; nothing else is changed then.

        Returns:
            The changed container, or None when nothing changed; always None for JSON in a text.
        """
        visit, parts = self._visit, self._parts
        stack: list[_Frame] = []
        position = -1
        while True:
            part, place, media = frame.part, frame.place, frame.media
            special = frame.top or frame.meta
            for step, child in frame.items:
                name: Any = step
                if isinstance(step, str):
                    position += 1
                    if special:
                        if step == REQUEST_STATE and frame.top:
                            continue
                        part = frame.part_of(step)
                    key_part: Part = "key" if part == "value" or frame.top else part
                    if key_part in parts:
                        new = visit(Text(step, key_part, place))
                        if new is not None and new != step and key_part == "key":
                            name = frame.free_name(step, new)
                            if strings is not None:
                                strings[position] = name
                if isinstance(child, str):
                    position += 1
                    if part not in parts or not child or (media is not None and step == media):
                        continue
                    new = self._text(child, part, place, name, depth)
                    if new is None:
                        continue
                    if strings is not None:
                        strings[position] = new
                    else:
                        frame.change(step, new)
                elif isinstance(child, _CONTAINERS) and child:
                    stack.append(frame)
                    meta = step == "_meta" and depth == 0
                    frame = _Frame(cast("Container", child), Place(place, name), part, step=step, meta=meta)
                    break
            else:
                if strings is None:
                    done = frame.finished()
                    if not stack:
                        return done if done is not frame.container else None
                    if done is not frame.container:
                        stack[-1].change(frame.step, done)
                elif not stack:
                    return None
                frame = stack.pop()

    def _text(self, value: str, part: Part, place: Place, step: Any, depth: int) -> str | None:
        if depth < _JSON_DEPTH and (parsed := read_json(value)) is not None:
            changed: dict[int, str] = {}
            inside = Place(Place(place, step), IN_JSON)
            self.over(parsed, _Frame(parsed, inside, part), depth + 1, changed)
            return replace_strings(value, changed) if changed else None
        if ";base64," not in value and ";BASE64," not in value:
            new = self._visit(Text(value, part, place, step))
            return new if new != value else None
        replacements: list[tuple[int, int, str]] = []
        for start, end in outside_data_uris(value):
            piece = value[start:end]
            new = self._visit(Text(piece, part, place, step))
            if new is not None and new != piece:
                replacements.append((start, end, new))
        return replace_spans(value, replacements) if replacements else None
