"""A config as text and as TOML, of one file or of several, and where in them a key stands."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, cast

from midspan.config._places import Keys, Places
from midspan.config._syntax import syntax_in_words
from midspan.errors import ConfigError

_PLACE = re.compile(r"\s*\(at (?:line (?P<line>\d+), column (?P<column>\d+)|end of document)\)$")
_DEEPEST = 100
"""Levels of tables and lists that nobody needs, and that whatever reads them survives."""
_BARE = re.compile(r"[A-Za-z0-9_-]+")


@dataclass(frozen=True, kw_only=True)
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
        """Return an error that names this file, the key and where it stands; of a missing one, what is around it."""
        place = self._places.nearest(keys)
        return ConfigError(
            problem,
            file=self.path,
            key=dotted(keys) or None,
            line=place and place.line,
            column=place and place.column,
        )

    @cached_property
    def _places(self) -> Places:
        return Places(self.text)


@dataclass(frozen=True, kw_only=True, slots=True)
class ConfigSource:
    """A config that was read: a file and those that it includes; without one, empty.

    Attributes:
        files: the file, and then those that it includes, in order.
        data: the TOML of all of them as one.
        origins: for the keys that not the first file holds: which one does, and by which keys.
        patterns: includes with a glob in them, whose folder may get further files.
    """

    files: tuple[ConfigFile, ...] = ()
    data: dict[str, Any] = field(default_factory=dict[str, Any], repr=False)
    origins: Mapping[Keys, tuple[ConfigFile, Keys]] = field(
        default_factory=dict[Keys, tuple[ConfigFile, Keys]], repr=False
    )
    patterns: tuple[Path, ...] = ()

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
        """Return an error that names the file, the key and where it stands; of a missing one, what is around it."""
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
        # Line ends as they are: what TOML does not take for one must not become one.
        text = path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise _not_utf8(path, error) from error
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
        last = text.removesuffix("\n").count("\n") + 1
        return ConfigError(f"{syntax_in_words(problem, '')} (at the end of the file)", file=path, line=last)
    line, column = int(place["line"]), int(place["column"])
    rest = "\n".join(text.split("\n")[line - 1 :])[column - 1 :]
    return ConfigError(syntax_in_words(problem, rest), file=path, line=line, column=column)


def _not_utf8(path: Path, error: UnicodeDecodeError) -> ConfigError:
    before = error.object[: error.start].decode("utf-8", "replace")
    line, column = before.count("\n") + 1, len(before.rpartition("\n")[2]) + 1
    return ConfigError("is not UTF-8 text; save it as UTF-8", file=path, line=line, column=column)
