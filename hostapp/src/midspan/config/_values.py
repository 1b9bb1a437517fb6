"""Values that stand elsewhere: `${NAME}` in the environment, `file:` in a file of its own.

No message says what a value is, or what stands in the config in its place: either may be a secret.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

NAME: Final = r"[A-Za-z_][A-Za-z0-9_]*"
"""What the name of a variable looks like; others cannot be referred to."""
FILE: Final = "file:"
"""What a value begins with that is read from a file."""
_DOLLAR = re.compile(rf"\$(?:(?P<dollar>\$)|\{{(?P<name>{NAME})(?::-(?P<default>(?:[^$}}]|\$\$)*))?\}})?", re.ASCII)
_FORM = "must have {NAME} or {NAME:-default} behind a `$`; write `$$` for the character itself"
_LONGEST = 64 * 1024
"""Bytes of the longest value that a file may hold: a header field beyond it is accepted by hardly any server."""


def expand(text: str, environ: Mapping[str, str]) -> str:
    """Replace the variables of a text, once: what a variable holds is not looked at again.

    Args:
        text: `${NAME}` stands for the variable; `${NAME:-default}` for the default, when the variable is not set or
            empty; `$$` for one `$`.
        environ: the variables.

    Raises:
        ValueError: a variable is not set and has no default, or a `$` that is neither form; the message is one line
            that names the variable and shows no value.
    """

    def value(found: re.Match[str]) -> str:
        if found["dollar"]:
            return "$"
        name, default = _name(found), found["default"]
        if default is not None:
            return environ.get(name) or default.replace("$$", "$")
        if name not in environ:
            raise ValueError(
                f"needs the environment variable {name}, which is not set; set it, or write ${{{name}:-default}}"
            )
        return environ[name]

    return _DOLLAR.sub(value, text)


def variables(text: str) -> list[str]:
    """Return the names of the variables in a text.

    Raises:
        ValueError: a `$` that is neither a variable nor `$$`; the message is one line.
    """
    return [_name(found) for found in _DOLLAR.finditer(text) if not found["dollar"]]


def secret(text: str, environ: Mapping[str, str]) -> str:
    """Return what a value that may be a secret stands for.

    Args:
        text: `file:` and the absolute path of a file (or one that begins with `~`) stands for the content of that
            file, without the line break at its end. Anything else is a text. A text that itself begins with `file:` is
            written with a `$` before it. Variables are replaced, in the path as well; not in what the file holds.
        environ: the variables.

    Raises:
        ValueError: a variable is not set, or the file cannot be read; the message is one line.
    """
    kind, rest = split_secret(text)
    value = expand(rest, environ)
    return _content(absolute(value)) if kind == "file" else value


def split_secret(text: str) -> tuple[str, str]:
    """Tell `file`, with the path, from `text`, with the text; variables are not replaced yet."""
    if text.startswith(FILE):
        return "file", text.removeprefix(FILE)
    return "text", text.removeprefix("$") if text.startswith(f"${FILE}") else text


def absolute(path: str) -> Path:
    """Return the path, with the user's home in the place of `~`.

    Raises:
        ValueError: it is not absolute, and would thus be looked up in whatever the working directory is.
    """
    try:
        found = Path(path).expanduser()
    except RuntimeError:
        raise ValueError("the path begins with `~`, and whose home that is cannot be told; write it out") from None
    if "\0" in path or not found.is_absolute():
        raise ValueError("the path must be absolute, or begin with `~`")
    return found


def _name(found: re.Match[str]) -> str:
    if found["name"] is None:
        raise ValueError(_FORM)
    return found["name"]


def _content(path: Path) -> str:
    try:
        with path.open("rb") as file:
            content = file.read(_LONGEST + 1)
    except OSError as error:
        raise ValueError(f"the file that it names cannot be read: {error.strerror or type(error).__name__}") from None
    if len(content) > _LONGEST:
        raise ValueError("the file that it names is longer than 64 KiB")
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError:
        raise ValueError("the file that it names is not UTF-8 text") from None
    return text.removesuffix("\n").removesuffix("\r") if text.endswith("\n") else text
