"""Variables and files in the texts of a plugin's own config, and of the host's settings.

Unlike in a server's table a lone `$` is text here: regular expressions end with one. And `file://` begins a URI, which
guards compare with.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, cast

from midspan.config._places import Keys
from midspan.config._source import ConfigSource
from midspan.config._values import FILE, NAME, expand, secret

_BRACED = re.compile(rf"\$\$\{{|\$\{{(?P<inside>(?:(?P<name>{NAME})(?::-(?P<default>[^}}]*))?\}})?)", re.ASCII)
_FORM: Final = "must have {NAME} or {NAME:-default} behind `$`; write `$${` for the characters `${` themselves"
_SHOWN_AS: Final = "***"
_SHORTEST: Final = 4
"""Characters of what is taken for a secret in a message; a shorter value is in too many words."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Filled:
    """A table with its variables replaced.

    Attributes:
        table: the table.
        values: what was put in from elsewhere; may be secrets.
    """

    table: dict[str, Any] = field(repr=False)
    values: frozenset[str] = field(repr=False)

    def without_values(self, text: str) -> str:
        """Return a message in which no value from elsewhere stands."""
        for value in sorted(self.values, key=len, reverse=True):
            if len(value) >= _SHORTEST:
                text = text.replace(value, _SHOWN_AS)
        return text


def filled(
    table: Mapping[str, Any], environ: Mapping[str, str], source: ConfigSource, *place: str, files: bool = True
) -> Filled:
    """Replace the variables in all texts of a table, whatever they stand in; not in keys.

    Args:
        table: the table. `${NAME}` stands for the variable, `${NAME:-default}` for the default when it is not set or
            empty, `$${` for `${`. A text that begins with `file:` and an absolute path (or `~`) stands for the content
            of that file, without the line break at its end; a text that itself begins so is written `$file:`.
        environ: the variables.
        source: where the table stands, for errors.
        place: the keys of the table there.
        files: whether `file:` is read.

    Raises:
        ConfigError: a variable is not set, or a file cannot be read; names the key and shows no value.
    """
    values: set[str] = set()

    def fill(value: object, keys: Keys) -> object:
        if isinstance(value, str):
            try:
                return _text(value, environ, values, files=files)
            except ValueError as error:
                raise source.error(str(error), *place, *keys) from None
        if isinstance(value, Mapping):
            return {key: fill(each, (*keys, key)) for key, each in cast("Mapping[str, Any]", value).items()}
        if isinstance(value, list):
            return [fill(each, (*keys, index)) for index, each in enumerate(cast("list[Any]", value))]
        return value

    return Filled(table=cast("dict[str, Any]", fill(table, ())), values=frozenset(values))


def _text(text: str, environ: Mapping[str, str], values: set[str], *, files: bool) -> str:
    if files and text.startswith(FILE) and not text.startswith("file://"):
        values.add(content := secret(text, environ))
        return content
    if files and text.startswith(f"${FILE}"):
        text = text.removeprefix("$")

    def value(found: re.Match[str]) -> str:
        if found[0] == "$${":
            return "${"
        if not found["inside"]:
            raise ValueError(_FORM)
        name, default = found["name"], found["default"]
        if default is not None and not environ.get(name):
            return default
        values.add(held := expand(f"${{{name}}}", environ))
        return held

    return _BRACED.sub(value, text)
