"""How a server may be shown: arguments, queries, headers and variables may hold secrets."""

from __future__ import annotations

import re

from midspan._web import shown_url
from midspan.config import RemoteServer, StdioServer

_URL = re.compile(r"https?://[^\s'\"<>]+")


def shown(server: StdioServer | RemoteServer) -> str:
    """Return the URL without credentials and query, or the program without its arguments."""
    return shown_url(server.url) if isinstance(server, RemoteServer) else server.command[0]


def without_queries(text: str) -> str:
    """Return a text of somebody else's with every URL in it as it may be shown."""
    return _URL.sub(lambda found: shown_url(found[0]), text)
