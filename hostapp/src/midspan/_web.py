"""What the config and the HTTP side both hold about URLs and header fields. Needs the standard library only."""

from __future__ import annotations

import re
from collections.abc import Iterable
from enum import Enum, auto
from typing import Final
from urllib.parse import urlsplit

HOP_BY_HOP: Final = frozenset(
    {
        "connection",
        "keep-alive",
        "proxy-authenticate",
        "proxy-authorization",
        "proxy-connection",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    }
)
"""Fields of one connection (RFC 9110, section 7.6.1), in lower case; those that `Connection` names belong to it too."""


_TOKEN: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_MADE_BY_CLIENT: Final = frozenset({"content-length", "host"})


class URLFault(Enum):
    """Why a URL cannot be that of a server to relay to."""

    NO_URL = auto()
    NO_SERVER = auto()
    CREDENTIALS = auto()
    FRAGMENT = auto()


def url_fault(url: str) -> URLFault | None:
    """Say what is wrong with the URL of a server; None when it can be relayed to."""
    # urlsplit drops line breaks and tabs without a word; what is sent later would have them.
    if any(character.isspace() or not character.isprintable() for character in url):
        return URLFault.NO_URL
    try:
        split = urlsplit(url)
        port = split.port
    except ValueError:
        return URLFault.NO_URL
    if split.scheme not in ("http", "https") or not split.hostname or port == 0:
        return URLFault.NO_SERVER
    if split.username is not None or split.password is not None:
        return URLFault.CREDENTIALS
    return URLFault.FRAGMENT if split.fragment else None


def shown_url(url: str) -> str:
    """Return a URL as it may be shown: without credentials, query and fragment."""
    try:
        split = urlsplit(url)
    except ValueError:
        return url.rpartition("@")[2].partition("?")[0].partition("#")[0]
    return split._replace(netloc=split.netloc.rpartition("@")[2], query="", fragment="").geturl()


def field_value(text: str) -> None:
    """Refuse what would end a header field."""
    if any(character in text for character in "\r\n\0"):
        raise ValueError("must not have a line break or NUL character in it")


def field_names(names: Iterable[str]) -> None:
    """Refuse names that no header field can have, that two have, and those of fields that are not the operator's."""
    seen: dict[str, str] = {}
    for name in names:
        lower = name.lower()
        if not name:
            raise ValueError("has a header with an empty name")
        if not _TOKEN.fullmatch(name):
            raise ValueError(
                f"has a header whose name is no name, at {name_start(name)!r}: letters, digits and hyphens, such as "
                '"X-Api-Key"'
            )
        if lower in HOP_BY_HOP or lower in _MADE_BY_CLIENT:
            raise ValueError(f"has the header {name!r}, which the connection makes itself; leave it out")
        if lower in seen:
            raise ValueError(f"has one header twice, as {seen[lower]!r} and as {name!r}; case makes no difference")
        seen[lower] = name


def name_start(name: str) -> str:
    """Return the part of a name that is one; what stands behind may be a secret."""
    found = re.match(r"[\w-]*", name, re.ASCII)
    return found[0] if found else ""
