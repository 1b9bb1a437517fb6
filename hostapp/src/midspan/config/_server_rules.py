"""What the values of a server table must be, once their variables are replaced. No message shows a value."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Final

from midspan._web import HOP_BY_HOP, URLFault, url_fault
from midspan.config._values import absolute

Rule = Callable[[str], object]
"""Raises a `ValueError` of one line when a value cannot be used."""

_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_MADE_BY_CLIENT: Final = frozenset({"content-length", "host"})
_URL_FAULTS: Final = {
    URLFault.NO_URL: "is no URL; give that of the server, like https://example.com/mcp",
    URLFault.NO_SERVER: "must be the URL of the server, http or https, like https://example.com/mcp",
    URLFault.CREDENTIALS: 'has credentials in it; send them as a header: headers = { Authorization = "..." }',
    URLFault.FRAGMENT: "has a fragment, which is never sent to a server; leave it out",
}


def program(text: str) -> None:
    """Refuse what cannot be started."""
    if not text:
        raise ValueError("must be a program, by its name or path")
    argument(text)


def argument(text: str) -> None:
    """Refuse what no argument and no environment variable can hold."""
    if "\0" in text:
        raise ValueError("must not have a NUL character in it")


def folder(text: str) -> None:
    """Refuse a folder that depends on the working directory."""
    absolute(text)


def endpoint(text: str) -> None:
    """Refuse a URL that cannot be relayed to."""
    if fault := url_fault(text):
        raise ValueError(_URL_FAULTS[fault])


def field_value(text: str) -> None:
    """Refuse what would end a header field."""
    if any(character in text for character in "\r\n\0"):
        raise ValueError("must not have a line break or NUL character in it")


def variable_names(names: Iterable[str]) -> None:
    """Refuse names that no environment can have."""
    for name in names:
        if not name:
            raise ValueError("has a variable with an empty name")
        if "=" in name or "\0" in name:
            # What stands behind is likely a value.
            raise ValueError(f"has a variable whose name is no name, at {_start(name)!r}: no `=` and no NUL there")


def field_names(names: Iterable[str]) -> None:
    """Refuse names that no header field can have, that two have, and those of fields that are not the operator's."""
    seen: dict[str, str] = {}
    for name in names:
        lower = name.lower()
        if not name:
            raise ValueError("has a header with an empty name")
        if not _TOKEN.fullmatch(name):
            raise ValueError(
                f"has a header whose name is no name, at {_start(name)!r}: letters, digits and hyphens, such as "
                '"X-Api-Key"'
            )
        if lower in HOP_BY_HOP or lower in _MADE_BY_CLIENT:
            raise ValueError(f"has the header {name!r}, which the connection makes itself; leave it out")
        if lower in seen:
            raise ValueError(f"has one header twice, as {seen[lower]!r} and as {name!r}; case makes no difference")
        seen[lower] = name


def _start(name: str) -> str:
    found = re.match(r"[\w-]*", name, re.ASCII)
    return found[0] if found else ""
