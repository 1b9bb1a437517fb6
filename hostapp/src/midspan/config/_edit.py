"""Switching plugins on and off in a config file, and nothing else in it.

A few characters are put into the text at a known place. A library that reads the text into a tree and writes it anew
would put a key behind the comment that belongs to the next table, and end its line as on another system.
"""

from __future__ import annotations

import codecs
import copy
import json
import re
import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import Any, cast

from midspan._replacing import content_of, replace_file
from midspan.config._places import Keys, Layout, layout_of
from midspan.config._source import ConfigFile, dotted, read_file
from midspan.errors import ConfigError

_KEY = "enabled"
_BOOLEAN = re.compile("true|false")
_REST_OF_LINE = re.compile(r"[^\n]*")
_INDENTED_KEY = re.compile(r"\n([ \t]*)[^\s#\[]")
_INDENT = re.compile(r"[ \t]*")


def set_enabled(path: Path, names: Iterable[str], *, enabled: bool) -> list[str]:
    """Write `enabled` into plugin tables of one config file; all of them, or none.

    Comments, order, line ends and the file's mode stay as they are. A table that is missing is added at the end; a
    file that is missing is created, for its owner alone. A symbolic link stays one: what it names is changed. The new
    file takes the place of the old one at once, after it was read again and says the same but for these keys.

    Args:
        path: the file.
        names: names of plugin tables.
        enabled: what they are to say.

    Returns:
        The names whose table did not say so before. Without any, the file is not touched.

    Raises:
        ConfigError: the file cannot be read or written, or is written in a way that cannot be changed safely; it is
            as it was then.
    """
    target = path.resolve()
    try:
        before = content_of(target)
    except OSError as error:
        raise ConfigError(f"cannot be read: {error.strerror or error}", file=path) from error
    file = ConfigFile(path=path) if before is None else read_file(path)
    wanted = copy.deepcopy(file.data)
    text = file.text
    changed: list[str] = []
    for name in names:
        table = _table(file, wanted, name)
        said = table.get(_KEY)
        if said is enabled:
            continue
        if not isinstance(said, bool | None):
            raise file.error("must be true or false", "plugins", name, _KEY)
        text = _with_key(text, ("plugins", name), "true" if enabled else "false")
        table[_KEY] = enabled
        changed.append(name)
    if not changed:
        return []
    if not _says(text, wanted):
        written = f"`{_KEY} = {str(enabled).lower()}`"
        keys = ", ".join(f"[{dotted(('plugins', name))}]" for name in changed)
        raise ConfigError(f"cannot be changed safely; write {written} into {keys} yourself", file=path)
    mark = codecs.BOM_UTF8 if before is not None and before.startswith(codecs.BOM_UTF8) else b""
    try:
        replace_file(target, before, mark + text.encode())
    except OSError as error:
        raise ConfigError(f"cannot be changed: {error.strerror or error}", file=path) from error
    return changed


def _table(file: ConfigFile, data: dict[str, Any], name: str) -> dict[str, Any]:
    """Return a plugin's table within the data, made if it is not there."""
    place = data
    keys = ("plugins", name)
    for end, key in enumerate(keys, start=1):
        inner = place.setdefault(key, {})
        if not isinstance(inner, dict):
            raise file.error("must be a table", *keys[:end])
        place = cast("dict[str, Any]", inner)
    return place


def _with_key(text: str, table: Keys, value: str) -> str:
    """Return the text with the key in a table, wherever and in whatever form the table stands."""
    layout = layout_of(text)
    written = f"{_KEY} = {value}"
    if (old := layout.values.get((*table, _KEY))) is not None:
        return text[:old] + _BOOLEAN.sub(value, text[old:], count=1)
    if (header := layout.headers.get(table)) is not None:
        return _beneath(text, header, written)
    if (brace := layout.values.get(table)) is not None:
        return _in_braces(text, brace, written)
    if table in layout.dotted:
        return _before(text, layout, table, f".{written}")
    around, name = table[:-1], str(table[-1])
    if (brace := layout.values.get(around)) is not None:
        return _in_braces(text, brace, f"{dotted((name,))} = {{ {written} }}")
    if around in layout.dotted and around not in layout.headers:
        return _before(text, layout, around, f".{dotted((name,))}.{written}")
    return _at_end(text, [f"[{dotted(table)}]", written])


def _line_end(text: str) -> str:
    first = text.find("\n")
    return "\r\n" if first > 0 and text[first - 1] == "\r" else "\n"


def _beneath(text: str, header: int, written: str) -> str:
    """Put a line beneath a header, indented as the keys there are."""
    found = _REST_OF_LINE.match(text, header)
    assert found is not None
    end = found.end()
    following = _INDENTED_KEY.match(text, end)
    if following is not None:
        indent = following[1]
    else:
        start = _INDENT.match(text, text.rfind("\n", 0, header) + 1)
        indent = start[0] if start is not None else ""
    if end == len(text):
        return f"{text}{_line_end(text)}{indent}{written}"
    return f"{text[: end + 1]}{indent}{written}{_line_end(text)}{text[end + 1 :]}"


def _in_braces(text: str, brace: int, written: str) -> str:
    rest = text[brace + 1 :]
    comma = "" if rest.lstrip(" \t").startswith("}") else ","
    blank = "" if rest.startswith((" ", "\t")) else " "
    return f"{text[: brace + 1]} {written}{comma}{blank}{rest}"


def _before(text: str, layout: Layout, table: Keys, written: str) -> str:
    """Put a dotted key before the first one of its table, written as it is written there."""
    start, end, in_braces = layout.dotted[table]
    if in_braces:
        return f"{text[:start]}{text[start:end]}{written}, {text[start:]}"
    indent = text[text.rfind("\n", 0, start) + 1 : start]
    return f"{text[:start]}{text[start:end]}{written}{_line_end(text)}{indent}{text[start:]}"


def _at_end(text: str, lines: list[str]) -> str:
    line_end = _line_end(text)
    added = line_end.join(lines)
    if not text:
        return f"{added}{line_end}"
    if not text.endswith("\n"):
        return f"{text}{line_end * 2}{added}"
    return f"{text}{line_end}{added}{line_end}"


def _says(text: str, wanted: dict[str, Any]) -> bool:
    try:
        return _comparable(tomllib.loads(text)) == _comparable(wanted)
    except (tomllib.TOMLDecodeError, RecursionError):
        return False


def _comparable(data: dict[str, Any]) -> str:
    # Not the data itself: a NaN equals nothing, and 1 equals 1.0 and true.
    return json.dumps(data, sort_keys=True, default=repr)
