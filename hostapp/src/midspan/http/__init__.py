"""The HTTP side of the gateway: an ASGI application that relays to a server which speaks streamable HTTP.

Sessions, resumption, status codes and headers pass by themselves; bodies and single events are judged. Importing this
module imports an HTTP client and none of the MCP SDK. `run_server` imports the HTTP server when it is used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from midspan._lazy import lazily
from midspan.http._agreement import (
    HEADER_MISMATCH,
    METHOD_HEADER,
    NAME_HEADER,
    PARAM_PREFIX,
    TARGETS,
    DisagreementError,
    check,
    decode,
    encode,
    rendered,
    same,
)
from midspan.http._budget import Budget, Reservation
from midspan.http._catalogs import Catalogs
from midspan.http._client import JSON_TYPE, Client, id_in
from midspan.http._conversations import (
    HANDSHAKE_VERSIONS,
    SESSION_HEADER,
    VERSION_HEADER,
    Conversations,
    is_stateless,
    principal_of,
)
from midspan.http._errors import ClientGoneError, HTTPRelayError, RefusedError, UpstreamError
from midspan.http._front import Endpoint, Front
from midspan.http._guard import Guard, is_loopback
from midspan.http._headers import Headers, is_identity, media_type, value, values
from midspan.http._health import Health, HealthState
from midspan.http._idle import IdleMap
from midspan.http._judged import REQUEST_CANCELLED
from midspan.http._refusing import RefusingEndpoint
from midspan.http._relay import HTTPRelay
from midspan.http._response_check import REDIRECTS, shown_url
from midspan.http._sse import Event, EventSplitter, OversizedEvent
from midspan.http._upstream import Upstream, UpstreamResponse

if TYPE_CHECKING:
    from midspan.http._serving import is_public, listen, run_server, url_of

__all__ = [
    "HANDSHAKE_VERSIONS",
    "HEADER_MISMATCH",
    "JSON_TYPE",
    "METHOD_HEADER",
    "NAME_HEADER",
    "PARAM_PREFIX",
    "REDIRECTS",
    "REQUEST_CANCELLED",
    "SESSION_HEADER",
    "TARGETS",
    "VERSION_HEADER",
    "Budget",
    "Catalogs",
    "Client",
    "ClientGoneError",
    "Conversations",
    "DisagreementError",
    "Endpoint",
    "Event",
    "EventSplitter",
    "Front",
    "Guard",
    "HTTPRelay",
    "HTTPRelayError",
    "Headers",
    "Health",
    "HealthState",
    "IdleMap",
    "OversizedEvent",
    "RefusedError",
    "RefusingEndpoint",
    "Reservation",
    "Upstream",
    "UpstreamError",
    "UpstreamResponse",
    "check",
    "decode",
    "encode",
    "id_in",
    "is_identity",
    "is_loopback",
    "is_public",
    "is_stateless",
    "listen",
    "media_type",
    "principal_of",
    "rendered",
    "run_server",
    "same",
    "shown_url",
    "url_of",
    "value",
    "values",
]

_HEAVY = {
    "is_public": "_serving",
    "listen": "_serving",
    "run_server": "_serving",
    "url_of": "_serving",
}

__getattr__ = lazily(__name__, _HEAVY)
