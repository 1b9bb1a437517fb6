"""Where in a TOML text each key and each array element stands.

tomllib tells values only. What is scanned here is a text that tomllib has accepted: it is read for places, not
checked a second time.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field

Keys = tuple[str | int, ...]
"""The way to a value: names of keys, and indexes of array elements and of arrays of tables, counted from 0."""

_BLANK = re.compile(r"[ \t]*")
_FILLER = re.compile(r"(?:[ \t\r\n]++|#[^\n]*+)*+")
_BASIC = r'"(?:[^"\\\n]++|\\.)*+"'
_LITERAL = r"'[^'\n]*+'"
_KEY = re.compile(rf"[A-Za-z0-9_-]++|{_BASIC}|{_LITERAL}")
# A multi-line text may end with one or two quotes of its own before the three that close it.
_SCALAR = re.compile(
    rf"""
    "{{3}} (?: [^"\\]++ | \\. | "(?!"") )*+ "{{3,5}}
    | '{{3}} (?: [^']++ | '(?!'') )*+ '{{3,5}}
    | {_BASIC}
    | {_LITERAL}
    | [^\[\]{{}}"',\#\n] [^,\]}}\#\n]*+    # a date may have a space in it
    """,
    re.DOTALL | re.VERBOSE,
)


@dataclass(frozen=True, slots=True)
class Place:
    """A place in a text.

    Attributes:
        line: counted from 1.
        column: in that line, counted from 1, in characters; a tab is one, a byte order mark is none.
    """

    line: int
    column: int


class Places(Mapping[Keys, Place]):
    """The places of a TOML text: of every key, the first character of its first mention; of every element, its own.

    Args:
        text: TOML that tomllib accepts; a byte order mark in front is passed over. Of another text, the places up to
            what cannot be understood.
    """

    def __init__(self, text: str) -> None:
        self._text = text
        self._offsets = layout_of(text).keys

    def __getitem__(self, keys: Keys) -> Place:
        """Return the place of a key that the text has."""
        offset = self._offsets[keys]
        line_start = self._text.rfind("\n", 0, offset) + 1
        if line_start == 0 and self._text.startswith("\ufeff"):
            line_start = 1
        return Place(line=self._text.count("\n", 0, offset) + 1, column=offset - line_start + 1)

    def __iter__(self) -> Iterator[Keys]:
        """Iterate over all ways, in the order of the text."""
        return iter(self._offsets)

    def __len__(self) -> int:
        """Return how many keys and elements there are."""
        return len(self._offsets)

    def nearest(self, keys: Keys) -> Place | None:
        """Return the place of a key; of a missing one, that of the nearest table or array around it that is there."""
        for end in range(len(keys), 0, -1):
            if (place := self.get(keys[:end])) is not None:
                return place
        return None


@dataclass(frozen=True, kw_only=True, slots=True)
class Layout:
    """How a text is laid out. All numbers are offsets into it.

    Attributes:
        keys: of every key its first mention, of every array element itself.
        values: of every key that is assigned, its value.
        headers: of every `[table]`, what is behind the bracket that closes its header.
        dotted: of every table that a dotted key makes: where that key begins, where the part of it that is the
            table's name ends, and whether it is within braces.
    """

    keys: dict[Keys, int] = field(default_factory=dict[Keys, int])
    values: dict[Keys, int] = field(default_factory=dict[Keys, int])
    headers: dict[Keys, int] = field(default_factory=dict[Keys, int])
    dotted: dict[Keys, tuple[int, int, bool]] = field(default_factory=dict[Keys, tuple[int, int, bool]])


def layout_of(text: str) -> Layout:
    """Return how a text is laid out that tomllib accepts; of another one, up to what cannot be understood."""
    scanner = _Scanner(text)
    # An error is about to be told: better without a place than not at all.
    with suppress(_NotUnderstoodError, RecursionError):
        scanner.document()
    return scanner.layout


class _NotUnderstoodError(Exception):
    pass


class _Scanner:
    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self.layout = Layout()
        self._tables: dict[Keys, int] = {}
        """How many tables an array of tables has so far."""

    def document(self) -> None:
        if self._text.startswith("\ufeff"):
            self._at = 1
        table: Keys = ()
        while self._skip(_FILLER) < len(self._text):
            if self._text.startswith("[", self._at):
                table = self._header()
            else:
                self._assignment(table)

    def _header(self) -> Keys:
        brackets = 2 if self._text.startswith("[[", self._at) else 1
        self._at += brackets
        table: Keys = ()
        keys = self._key()
        for number, (offset, _, name) in enumerate(keys, start=1):
            table = (*table, name)
            self.layout.keys.setdefault(table, offset)
            if brackets == 2 and number == len(keys):
                index = self._tables.get(table, 0)
                self._tables[table] = index + 1
                table = (*table, index)
                self.layout.keys[table] = offset
            elif table in self._tables:
                table = (*table, self._tables[table] - 1)
        self._take("]" * brackets)
        self.layout.headers[table] = self._at
        return table

    def _assignment(self, table: Keys, *, in_braces: bool = False) -> None:
        parts = self._key()
        for number, (offset, end, name) in enumerate(parts, start=1):
            table = (*table, name)
            self.layout.keys.setdefault(table, offset)
            if number < len(parts):
                self.layout.dotted.setdefault(table, (parts[0][0], end, in_braces))
        self._take("=")
        self._skip(_BLANK)
        self.layout.values[table] = self._at
        self._value(table)

    def _key(self) -> list[tuple[int, int, str]]:
        """Read a dotted key: where each of its parts begins and ends, and its name."""
        parts: list[tuple[int, int, str]] = []
        while True:
            self._skip(_BLANK)
            offset = self._at
            name = _name(self._match(_KEY))
            parts.append((offset, self._at, name))
            self._skip(_BLANK)
            if not self._text.startswith(".", self._at):
                return parts
            self._at += 1

    def _value(self, keys: Keys) -> None:
        if self._text.startswith("[", self._at):
            self._array(keys)
        elif self._text.startswith("{", self._at):
            self._inline_table(keys)
        else:
            self._match(_SCALAR)

    def _array(self, keys: Keys) -> None:
        self._at += 1
        index = 0
        while not self._closed("]"):
            element = (*keys, index)
            self.layout.keys[element] = self._at
            self._value(element)
            self._comma()
            index += 1

    def _inline_table(self, keys: Keys) -> None:
        # Line breaks, comments and a last comma are TOML 1.1; whether they are accepted is for tomllib to say.
        self._at += 1
        while not self._closed("}"):
            self._assignment(keys, in_braces=True)
            self._comma()

    def _closed(self, bracket: str) -> bool:
        self._skip(_FILLER)
        if not self._text.startswith(bracket, self._at):
            return False
        self._at += 1
        return True

    def _comma(self) -> None:
        self._skip(_FILLER)
        if self._text.startswith(",", self._at):
            self._at += 1

    def _skip(self, pattern: re.Pattern[str]) -> int:
        found = pattern.match(self._text, self._at)
        assert found is not None
        self._at = found.end()
        return self._at

    def _take(self, expected: str) -> None:
        if not self._text.startswith(expected, self._at):
            raise _NotUnderstoodError
        self._at += len(expected)

    def _match(self, pattern: re.Pattern[str]) -> str:
        found = pattern.match(self._text, self._at)
        if found is None:
            raise _NotUnderstoodError
        self._at = found.end()
        return found[0]


def _name(written: str) -> str:
    if written[0] == "'":
        return written[1:-1]
    if written[0] == '"':
        # tomllib knows which escapes there are.
        (name,) = tomllib.loads(f"{written} = 0")
        return name
    return written
