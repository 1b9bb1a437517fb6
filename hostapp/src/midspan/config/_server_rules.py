"""What the values of a server table must be, once their variables are replaced. No message shows a value."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from midspan._web import URLFault, name_start, url_fault
from midspan.config._values import NAME as VARIABLE
from midspan.config._values import absolute

Rule = Callable[[str], object]
"""Raises a `ValueError` of one line when a value cannot be used."""

_VARIABLE: Final = rf"\$\{{{VARIABLE}(:-([^$}}]|\$\$)*)?\}}"
_ABSOLUTE: Final = r"(/|~|\$\{|[A-Za-z]:[\\/])"
TEXT_PATTERN: Final = rf"^([^$\x00]|\$\$|{_VARIABLE})*$"
"""What a text looks like, as far as a JSON Schema can tell, like the next ones: it knows no variable's value."""
PROGRAM_PATTERN: Final = rf"^([^$\x00]|\$\$|{_VARIABLE})+$"
SECRET_PATTERN: Final = rf"^(\$file:)?([^$\x00]|\$\$|{_VARIABLE})*$"
FIELD_PATTERN: Final = rf"^(\$file:)?([^$\x00\r\n]|\$\$|{_VARIABLE})*$"
FOLDER_PATTERN: Final = rf"^{_ABSOLUTE}"
URL_PATTERN: Final = r"^([Hh][Tt][Tt][Pp][Ss]?(://[^\s#/?]|\$\{)|\$\{)"
VARIABLE_NAME_PATTERN: Final = r"^[^=\x00]+$"
FIELD_NAME_PATTERN: Final = r"^[!#$%&'*+.^_`|~0-9A-Za-z-]+$"

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


def variable_names(names: Iterable[str]) -> None:
    """Refuse names that no environment can have."""
    for name in names:
        if not name:
            raise ValueError("has a variable with an empty name")
        if "=" in name or "\0" in name:
            # What stands behind is likely a value.
            raise ValueError(f"has a variable whose name is no name, at {name_start(name)!r}: no `=` and no NUL there")
