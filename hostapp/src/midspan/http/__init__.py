"""The HTTP side of the gateway: an ASGI application that relays to a server which speaks streamable HTTP.

Sessions, resumption, status codes and headers pass by themselves; bodies and single events are judged. Importing this
module imports an HTTP client and none of the MCP SDK. `run_server` imports the HTTP server when it is used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from midspan._lazy import lazily
from midspan.http._conversations import Conversations
from midspan.http._front import Endpoint, Front
from midspan.http._guard import Guard, is_loopback
from midspan.http._relay import HTTPRelay
from midspan.http._upstream import Upstream

if TYPE_CHECKING:
    from midspan.http._serving import is_public, listen, run_server, url_of

__all__ = [
    "Conversations",
    "Endpoint",
    "Front",
    "Guard",
    "HTTPRelay",
    "Upstream",
    "is_loopback",
    "is_public",
    "listen",
    "run_server",
    "url_of",
]

_HEAVY = {
    "is_public": "_serving",
    "listen": "_serving",
    "run_server": "_serving",
    "url_of": "_serving",
}

__getattr__ = lazily(__name__, _HEAVY)
