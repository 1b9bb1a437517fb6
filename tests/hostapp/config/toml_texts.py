"""TOML texts of every layout, whose writer knows where it put each key and each element."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from datetime import date, datetime, time
from random import Random
from typing import Any, cast

from hypothesis import strategies as st

Keys = tuple[str | int, ...]

_KEYS = st.one_of(
    st.sampled_from(
        ["a", "b", "plugins", "enabled", "-", "1", "", "a.b", "ü", "[x]", "x = 1", "#", '"', "'", "\\", "\t"]
    ),
    st.text(st.characters(exclude_categories=("Cs", "Cc")), max_size=4),
)
_TEXTS = st.one_of(
    st.sampled_from(
        [
            "",
            "[x]\na = 1\n",
            '"""',
            "'''",
            '"',
            "''",
            "\\",
            "${A}",
            "# no comment",
            "}, ]",
            "x\n[[y]]\n",
            'x"',
            "x''",
            '\n"',
        ]
    ),
    st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\r"), max_size=8),
)
_SCALARS = st.one_of(
    _TEXTS,
    st.booleans(),
    st.integers(-(2**40), 2**40),
    st.floats(allow_nan=False),
    st.just(datetime(1979, 5, 27, 7, 32)),
    st.just(date(1979, 5, 27)),
    st.just(time(7, 32)),
)
_VALUES: st.SearchStrategy[Any] = st.recursive(
    _SCALARS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(_KEYS, inner, max_size=3),
        st.lists(st.dictionaries(_KEYS, inner, max_size=3), min_size=1, max_size=3),
    ),
    max_leaves=8,
)
DOCUMENTS: st.SearchStrategy[dict[str, Any]] = st.dictionaries(_KEYS, _VALUES, max_size=4)
"""Data that TOML can write."""
CHANCES: st.SearchStrategy[Random] = st.integers(0, 2**32).map(Random)
"""What a `Writer` draws layouts from."""


class Writer:
    """Writes data as TOML, in a layout of chance.

    Attributes:
        text: what was written.
        offsets: where in it each key was mentioned first, and where each element is.
    """

    def __init__(self, data: Mapping[str, Any], chance: Random) -> None:
        self.text = chance.choice(["", "\ufeff"])
        self.offsets: dict[Keys, int] = {}
        self._chance = chance
        self._line_end = chance.choice(["\n", "\r\n"])
        self._table(data, (), of_array=False)
        if chance.random() < 0.3:
            self.text = self.text.removesuffix(self._line_end)

    def _write(self, text: str) -> None:
        self.text += text

    def _mark(self, keys: Keys) -> None:
        self.offsets.setdefault(keys, len(self.text))

    def _blank(self) -> None:
        self._write(self._chance.choice(["", "", " ", "\t", "  "]))

    def _end_line(self) -> None:
        self._blank()
        self._write(self._chance.choice(["", "", "# a comment", "#[x]", "# ''' = \"\"\" { ["]) + self._line_end)
        while self._chance.random() < 0.2:
            self._write(self._chance.choice(["", " # [a]\ta = 1", "\t"]) + self._line_end)

    def _filler(self) -> None:
        """What may stand between the elements of an array."""
        self._blank()
        while self._chance.random() < 0.2:
            self._write(self._chance.choice(["", "# ]", '# "', "#, 1"]) + self._line_end)
            self._blank()

    def _table(self, data: Mapping[str, Any], keys: Keys, *, of_array: bool) -> None:
        beneath = {key: value for key, value in data.items() if self._may_have_header(value)}
        here = {key: value for key, value in data.items() if key not in beneath}
        # A table may come after what is beneath it, but an element of an array of tables may not.
        first = bool(beneath) and bool(keys) and not of_array and self._chance.random() < 0.3
        if first:
            self._tables(beneath, keys)
        if keys and (here or not beneath or of_array or self._chance.random() < 0.5):
            self._header(keys, of_array=of_array)
        for key, value in here.items():
            self._assignment(keys, (key,), value)
            self._end_line()
        if not first:
            self._tables(beneath, keys)

    def _may_have_header(self, value: object) -> bool:
        if isinstance(value, list):
            elements = cast("list[object]", value)
            fit = bool(elements) and all(isinstance(element, dict) for element in elements)
        else:
            fit = isinstance(value, dict)
        return fit and self._chance.random() < 0.6

    def _tables(self, tables: Mapping[str, Any], keys: Keys) -> None:
        for key, value in tables.items():
            if isinstance(value, list):
                for index, element in enumerate(cast("list[dict[str, Any]]", value)):
                    self._table(element, (*keys, key, index), of_array=True)
            else:
                self._table(value, (*keys, key), of_array=False)

    def _header(self, keys: Keys, *, of_array: bool) -> None:
        self._blank()
        self._write("[[" if of_array else "[")
        names = [number for number, key in enumerate(keys) if isinstance(key, str)]
        for number in names:
            self._separated(first=number == 0)
            self._mark(keys[: number + 1])
            if of_array and number == names[-1]:
                self._mark(keys)
            self._key(str(keys[number]))
        self._blank()
        self._write("]]" if of_array else "]")
        self._end_line()

    def _separated(self, *, first: bool) -> None:
        if not first:
            self._blank()
            self._write(".")
        self._blank()

    def _assignment(self, table: Keys, names: tuple[str, ...], value: Any) -> None:
        """Write `names = value`, or, of a table, what is in it with dotted keys."""
        if isinstance(value, dict) and value and self._chance.random() < 0.5:
            entries = list(cast("dict[str, Any]", value).items())
            for number, (key, inner) in enumerate(entries):
                self._assignment(table, (*names, key), inner)
                if number < len(entries) - 1:
                    self._end_line()
            return
        for number, name in enumerate(names):
            self._separated(first=number == 0)
            self._mark((*table, *names[: number + 1]))
            self._key(name)
        self._blank()
        self._write("=")
        self._blank()
        self._value((*table, *names), value)

    def _value(self, keys: Keys, value: Any) -> None:
        if isinstance(value, dict):
            self._write("{")
            for number, (key, inner) in enumerate(cast("dict[str, Any]", value).items()):
                if number:
                    self._write(",")
                self._blank()
                self._mark((*keys, key))
                self._key(key)
                self._blank()
                self._write("=")
                self._blank()
                self._value((*keys, key), inner)
            self._blank()
            self._write("}")
        elif isinstance(value, list):
            self._write("[")
            elements = cast("list[Any]", value)
            for index, inner in enumerate(elements):
                self._filler()
                self._mark((*keys, index))
                self._value((*keys, index), inner)
                self._filler()
                if index < len(elements) - 1 or self._chance.random() < 0.5:
                    self._write(",")
            self._filler()
            self._write("]")
        elif isinstance(value, str):
            self._write(self._text(value))
        elif isinstance(value, bool):
            self._write(str(value).lower())
        elif isinstance(value, datetime):
            self._write(value.isoformat(sep=self._chance.choice(["T", " "])))
        elif isinstance(value, date | time):
            self._write(value.isoformat())
        else:
            self._write(repr(value))

    def _key(self, name: str) -> None:
        forms = [_basic(name)]
        if re.fullmatch(r"[A-Za-z0-9_-]+", name):
            forms += [name] * 3
        if _is_literal(name) and "'" not in name:
            forms.append(f"'{name}'")
        self._write(self._chance.choice(forms))

    def _text(self, text: str) -> str:
        quoted = _basic(text)
        several = _escaped(text).replace(r"\n", self._line_end)
        forms = [quoted, f'"""{self._line_end}{several}"""']
        if not text.startswith(" "):
            forms.append(f'"""\\{self._line_end}  {quoted[1:-1]}"""')
        if _is_literal(text) and "'" not in text:
            forms.append(f"'{text}'")
        if _is_literal(text.replace("\n", "")) and "'''" not in text and not text.endswith("'''"):
            forms.append(f"'''{self._line_end}{text.replace(chr(10), self._line_end)}'''")
        if '"' in text and '"""' not in text and "\\" not in text and _is_literal(text.replace("\n", "")):
            # Quotes that are not escaped, up to two of them right before the end.
            forms.append(f'"""{self._line_end}{text.replace(chr(10), self._line_end)}"""')
        return self._chance.choice(forms)


def _escaped(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)[1:-1].replace("\x7f", r"\u007F")


def _basic(text: str) -> str:
    return f'"{_escaped(text)}"'


def _is_literal(text: str) -> bool:
    return all(character == "\t" or character.isprintable() for character in text)
