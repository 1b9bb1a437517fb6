"""A config as text and as TOML, of one file or of several, and where in them a key stands."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from midspan.errors import ConfigError

_PLACE = re.compile(r"\s*\(at (?:line (?P<line>\d+), column (?P<column>\d+)|end of document)\)$")
_DEEPEST = 100
"""Levels of tables and lists that nobody needs, and that whatever reads them survives."""
_BARE = re.compile(r"[A-Za-z0-9_-]+")


Keys = tuple[str | int, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class ConfigFile:
    """One file as it was read.

    Attributes:
        path: where it is.
        text: its text.
        data: its TOML.
    """

    path: Path
    text: str = field(default="", repr=False)
    data: dict[str, Any] = field(default_factory=dict[str, Any], repr=False)

    def error(self, problem: str, *keys: str | int) -> ConfigError:
        """Return an error that names this file, the key and, where it can be told, the line."""
        names = [key for key in keys if isinstance(key, str)]
        line = next((n for end in range(len(names), 0, -1) if (n := line_of(self.text, names[:end]))), None)
        return ConfigError(problem, file=self.path, key=dotted(keys) or None, line=line)


@dataclass(frozen=True, kw_only=True, slots=True)
class ConfigSource:
    """A config that was read: a file and those that it includes; without one, empty.

    Attributes:
        files: the file, and then those that it includes, in order.
        data: the TOML of all of them as one.
        origins: for the keys that not the first file holds: which one does, and by which keys.
    """

    files: tuple[ConfigFile, ...] = ()
    data: dict[str, Any] = field(default_factory=dict[str, Any], repr=False)
    origins: Mapping[Keys, tuple[ConfigFile, Keys]] = field(
        default_factory=dict[Keys, tuple[ConfigFile, Keys]], repr=False
    )

    @classmethod
    def of(cls, path: Path) -> ConfigSource:
        """Return the source of what was read from a file of another form, for errors."""
        return cls(files=(ConfigFile(path=path),))

    @property
    def path(self) -> Path | None:
        """The first file, or None when there is none."""
        return self.files[0].path if self.files else None

    def place(self, *keys: str | int) -> tuple[ConfigFile | None, Keys]:
        """Return the file in which keys stand, or would, and the keys as they are there."""
        for end in range(len(keys), 0, -1):
            if (origin := self.origins.get(keys[:end])) is not None:
                file, own = origin
                return file, (*own, *keys[end:])
        return (self.files[0] if self.files else None), keys

    def error(self, problem: str, *keys: str | int) -> ConfigError:
        """Return an error that names the file, the key and, where it can be told, the line."""
        file, own = self.place(*keys)
        return ConfigError(problem, key=dotted(own) or None) if file is None else file.error(problem, *own)


def dotted(keys: Keys) -> str:
    """Write keys as TOML writes them: `plugins.pii.config.entities[0]`."""
    text = ""
    for key in keys:
        if isinstance(key, int):
            text += f"[{key}]"
        else:
            bare = key if _BARE.fullmatch(key) else f'"{key}"'
            text += f".{bare}" if text else bare
    return text


def read_file(path: Path) -> ConfigFile:
    """Read one file.

    Raises:
        ConfigError: it cannot be read, is not UTF-8, or is not TOML.
    """
    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise ConfigError("is not UTF-8 text", file=path) from error
    except OSError as error:
        raise ConfigError(f"cannot be read: {error.strerror or error}", file=path) from error
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise _syntax_error(path, text, str(error)) from error
    except RecursionError as error:
        raise ConfigError("is nested too deeply", file=path) from error
    if _is_deep(data):
        raise ConfigError(f"is nested too deeply, beyond {_DEEPEST} levels", file=path)
    return ConfigFile(path=path, text=text, data=data)


def _is_deep(data: dict[str, Any]) -> bool:
    level: list[object] = [data]
    for _ in range(_DEEPEST):
        level = [inner for outer in level for inner in _within(outer) if isinstance(inner, dict | list)]
        if not level:
            return False
    return True


def _within(value: object) -> Iterable[object]:
    return cast("dict[str, object]", value).values() if isinstance(value, dict) else cast("list[object]", value)


def _syntax_error(path: Path, text: str, message: str) -> ConfigError:
    place = _PLACE.search(message)
    if place is None:
        return ConfigError(message, file=path)
    problem = message[: place.start()]
    if place["line"] is None:
        return ConfigError(f"{problem} (at the end of the file)", file=path, line=max(1, len(text.splitlines())))
    return ConfigError(problem, file=path, line=int(place["line"]), column=int(place["column"]))


def line_of(text: str, keys: list[str]) -> int | None:
    """Return the line on which a key, its table's header or the first thing beneath it stands; None when not certain.

    tomllib does not tell lines. Headers and the left sides of assignments are read with it one by one, so that quoting
    and dotted keys are as in TOML. A key found twice (inside a multi-line text, say) is not certain.
    """
    table: list[str] = []
    found: list[int] = []
    beneath: list[int] = []
    for number, line in enumerate(text.splitlines(), start=1):
        stripped = line.strip()
        if stripped.startswith("["):
            header = _path_in(stripped)
            if header is None:
                continue
            table = header
            place = table
        else:
            left, equals, _ = stripped.partition("=")
            assigned = _path_in(f"{left}= 0") if equals and not stripped.startswith("#") else None
            if assigned is None:
                continue
            place = table + assigned
        if place == keys:
            found.append(number)
        elif place[: len(keys)] == keys:
            beneath.append(number)
    if not found:
        return beneath[0] if beneath else None
    return found[0] if len(found) == 1 else None


def _path_in(line: str) -> list[str] | None:
    try:
        value: Any = tomllib.loads(line)
    except (tomllib.TOMLDecodeError, RecursionError):
        return None
    path: list[str] = []
    while isinstance(value, dict | list) and len(cast("dict[str, Any] | list[Any]", value)) == 1:
        if isinstance(value, list):
            value = cast("list[Any]", value)[0]
            continue
        key, value = next(iter(cast("dict[str, Any]", value).items()))
        path.append(key)
    return path or None
