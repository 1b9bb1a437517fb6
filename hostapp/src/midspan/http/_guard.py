"""Who may talk to an HTTP gateway: Host and Origin, against DNS rebinding.

A page in a browser can make any name point to this machine, so the name in `Host` has to be one that is meant, and a
request that a page sent has to come from a page that is meant.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

from midspan.http._headers import Headers, values

LOOPBACK_NAMES: Final = frozenset({"localhost", "127.0.0.1", "::1"})


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a request is not served.

    Attributes:
        status: the HTTP status.
        reason: one line for the client.
    """

    status: int
    reason: str


class Guard:
    """Checks the `Host` and `Origin` of every request.

    Args:
        hosts: names that `Host` may have beside the loopback ones, without a port; any port is accepted.
        origins: origins (`https://app.example`) that may send requests beside those of an accepted host.
        any_address: accept every IP address as host. Rebinding needs a name, so this is safe where the gateway listens
            on an address that is not loopback and may not know it.
    """

    def __init__(self, *, hosts: Iterable[str] = (), origins: Iterable[str] = (), any_address: bool = False) -> None:
        self._hosts = LOOPBACK_NAMES.union(_host_of(host) or host.lower() for host in hosts)
        self._origins = frozenset(origin.rstrip("/").lower() for origin in origins)
        self._any_address = any_address
        self._seen: dict[tuple[bytes, ...], Refusal | None] = {}

    def check(self, headers: Headers) -> Refusal | None:
        """Return why a request with these headers is refused, or None."""
        hosts, origins = values(headers, b"host"), values(headers, b"origin")
        key = (*hosts, b"", *origins)
        if key not in self._seen:
            if len(self._seen) > 256:  # names are a handful; whoever makes them up gets no memory
                self._seen.clear()
            self._seen[key] = self._check(hosts, origins)
        return self._seen[key]

    def _check(self, hosts: list[bytes], origins: list[bytes]) -> Refusal | None:
        if len(hosts) != 1 or not self._accepts_host(_host_of(hosts[0].decode("latin-1"))):
            return Refusal(421, "this Host is not served; add it with --allow-host if it is meant")
        if len(origins) > 1 or (origins and not self._accepts_origin(origins[0].decode("latin-1").lower())):
            return Refusal(403, "this Origin may not send requests; add it with --allow-origin if it is meant")
        return None

    def _accepts_host(self, host: str | None) -> bool:
        if host is None:
            return False
        return host in self._hosts or (self._any_address and _is_address(host))

    def _accepts_origin(self, origin: str) -> bool:
        if origin in self._origins:
            return True
        scheme, separator, rest = origin.partition("://")
        return bool(separator) and scheme in ("http", "https") and self._accepts_host(_host_of(rest))


def is_loopback(host: str) -> bool:
    """Tell whether a name or address is this machine's loopback."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def _host_of(authority: str) -> str | None:
    """Return the name or address of `host[:port]`, in lower case, without brackets; None when it is neither."""
    try:
        split = urlsplit(f"//{authority}")
        port = split.port
    except ValueError:
        return None
    plain = split.hostname
    if plain is None or split.username is not None or split.path or split.query or split.fragment:
        return None
    # What was left out by the parser (white space, control characters) must not be taken for part of nothing.
    rebuilt = f"[{plain}]" if ":" in plain else plain
    return plain if authority.lower() in (rebuilt, f"{rebuilt}:", f"{rebuilt}:{port}") else None


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True
