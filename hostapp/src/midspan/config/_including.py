"""Reading a config: its file, and the files that it includes."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, cast

from midspan.config._places import Keys
from midspan.config._source import ConfigFile, ConfigSource, read_file
from midspan.config._values import expand
from midspan.errors import ConfigError

INCLUDE: Final = "include"
_NAMED: Final = ("interceptor_servers", "plugins", "servers")
"""Tables of named tables: several files may each bring some."""
_LISTS: Final = ("requires",)
"""Lists that several files add to."""
_GLOB: Final = frozenset("*?[")
_FORM: Final = 'must be a list of files, such as ["team.toml", "conf.d/*.toml"]'


def read_source(path: Path | None) -> ConfigSource:
    """Read a config.

    Tables of names (`[servers.*]`, `[plugins.*]`, `[interceptor_servers.*]`) and `requires` of all files come together;
    each named table, and each other table, stands in one file only, so that no file quietly changes what another says.

    Args:
        path: the file; None for none, which is an empty config.

    Raises:
        ConfigError: a file cannot be read, is not UTF-8, is not TOML; or an include that cannot be followed.
    """
    if path is None:
        return ConfigSource()
    merged = _Merged()
    merged.take(read_file(path), ())
    return merged.source()


class _Merged:
    def __init__(self) -> None:
        self._files: list[ConfigFile] = []
        self._data: dict[str, Any] = {}
        self._origins: dict[Keys, tuple[ConfigFile, Keys]] = {}
        self._patterns: list[Path] = []

    def source(self) -> ConfigSource:
        return ConfigSource(
            files=tuple(self._files), data=self._data, origins=self._origins, patterns=tuple(self._patterns)
        )

    def take(self, file: ConfigFile, chain: tuple[Path, ...]) -> None:
        """Add a file, then those that it includes."""
        self._files.append(file)
        for key, value in file.data.items():
            if key == INCLUDE:
                continue
            if key in _NAMED and isinstance(value, dict) and isinstance(self._data.get(key, {}), dict):
                names = self._data.setdefault(key, {})
                for name, table in cast("dict[str, Any]", value).items():
                    self._claim(file, (key, name))
                    names[name] = table
            elif key in _LISTS and isinstance(value, list) and isinstance(self._data.get(key, []), list):
                listed: list[Any] = self._data.setdefault(key, [])
                for index, element in enumerate(cast("list[Any]", value)):
                    self._origins[(key, len(listed))] = (file, (key, index))
                    listed.append(element)
            else:
                self._claim(file, (key,))
                self._data[key] = value
        seen = (*chain, file.path.resolve())
        for path, index in self._included(file):
            if path.resolve() in seen:
                raise file.error("includes a file that includes this one", INCLUDE, index)
            if any(path.resolve() == known.path.resolve() for known in self._files):
                raise file.error(f"{path} is included already; name it once", INCLUDE, index)
            try:
                included = read_file(path)
            except ConfigError as error:
                # What is wrong inside is told of the file itself; that it is not there, of who names it.
                if path.is_file():
                    raise
                raise file.error(f"{path} {error.problem}", INCLUDE, index) from error
            self.take(included, seen)

    def _claim(self, file: ConfigFile, keys: Keys) -> None:
        if keys in self._origins:
            other = self._origins[keys][0]
            raise file.error(f"stands in {other.path} too; keep one of the two", *keys)
        self._origins[keys] = (file, keys)

    def _included(self, file: ConfigFile) -> Iterator[tuple[Path, int]]:
        listed = file.data.get(INCLUDE, [])
        if not isinstance(listed, list):
            raise file.error(_FORM, INCLUDE)
        for index, text in enumerate(cast("list[Any]", listed)):
            if not isinstance(text, str) or not text:
                raise file.error(_FORM, INCLUDE, index)
            try:
                named = Path(expand(text, os.environ)).expanduser()
            except (ValueError, RuntimeError) as error:
                raise file.error(str(error), INCLUDE, index) from None
            if _GLOB.intersection(str(named.parent)):
                raise file.error("only the last part of a path may have `*`, `?` or `[` in it", INCLUDE, index)
            # Relative to the file, never to the working directory.
            path = file.path.parent.absolute() / named
            if not _GLOB.intersection(path.name):
                yield path, index
                continue
            self._patterns.append(path)
            for found in sorted(path.parent.glob(path.name)):
                yield found, index
