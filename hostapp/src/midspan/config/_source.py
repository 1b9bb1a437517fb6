"""A config file as text and as TOML, and where in it a key stands."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, cast

from midspan.config._places import Places
from midspan.config._values import NAME
from midspan.errors import ConfigError

_PLACE = re.compile(r"\s*\(at (?:line (?P<line>\d+), column (?P<column>\d+)|end of document)\)$")
_VARIABLE = re.compile(rf"\$\{{(?P<name>{NAME})(?::-[^}}]*)?\}}", re.ASCII)
_EXPANDED = "servers"
"""The table whose texts have variables; they are replaced when a server is used."""
_BARE = re.compile(r"[A-Za-z0-9_-]+")


@dataclass(frozen=True, kw_only=True)
class ConfigSource:
    """A config file that was read; without one, empty.

    Attributes:
        path: the file, or None when there is none.
        text: its text.
        data: its TOML.
    """

    path: Path | None = None
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


def dotted(keys: tuple[str | int, ...]) -> str:
    """Write keys as TOML writes them: `plugins.pii.config.entities[0]`."""
    text = ""
    for key in keys:
        if isinstance(key, int):
            text += f"[{key}]"
        else:
            bare = key if _BARE.fullmatch(key) else f'"{key}"'
            text += f".{bare}" if text else bare
    return text


def read_source(path: Path | None) -> ConfigSource:
    """Read a config file.

    Args:
        path: the file; None for none, which is an empty config.

    Raises:
        ConfigError: it cannot be read, is not UTF-8, is not TOML, or holds `${NAME}` where variables are not
            replaced yet: outside of the server tables.
    """
    if path is None:
        return ConfigSource()
    try:
        # Line ends as they are: what TOML does not take for one must not become one.
        text = path.read_bytes().decode("utf-8-sig")
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
    source = ConfigSource(path=path, text=text, data=data)
    _refuse_variables(source)
    return source


def _refuse_variables(source: ConfigSource) -> None:
    try:
        for keys, value in _strings({key: value for key, value in source.data.items() if key != _EXPANDED}):
            if found := _VARIABLE.search(value):
                # Taken literally, it would be a wrong password that nobody notices.
                raise source.error(f"${{{found['name']}}} is not replaced yet; write the value itself", *keys)
    except RecursionError as error:
        raise ConfigError("is nested too deeply", file=source.path) from error


def _syntax_error(path: Path, text: str, message: str) -> ConfigError:
    place = _PLACE.search(message)
    if place is None:
        return ConfigError(message, file=path)
    problem = message[: place.start()]
    if place["line"] is None:
        return ConfigError(
            f"{problem} (at the end of the file)", file=path, line=text.removesuffix("\n").count("\n") + 1
        )
    return ConfigError(problem, file=path, line=int(place["line"]), column=int(place["column"]))


def _strings(data: object, keys: tuple[str | int, ...] = ()) -> Iterator[tuple[tuple[str | int, ...], str]]:
    if isinstance(data, str):
        yield keys, data
    elif isinstance(data, Mapping):
        for key, value in cast("Mapping[str, Any]", data).items():
            yield from _strings(value, (*keys, key))
    elif isinstance(data, list):
        for index, value in enumerate(cast("list[Any]", data)):
            yield from _strings(value, (*keys, index))
