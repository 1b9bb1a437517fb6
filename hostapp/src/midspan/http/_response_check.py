"""Responses that would lead a client past the gateway, or into a wall."""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import urlsplit

from midspan.http._client import Client
from midspan.http._errors import UpstreamError
from midspan.http._headers import value, values
from midspan.http._upstream import UpstreamResponse

REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})
_METADATA: Final = re.compile(rb'resource_metadata\s*=\s*"?([^",\s]+)', re.IGNORECASE)


def check_response(client: Client, response: UpstreamResponse) -> None:
    """Refuse a response that cannot be passed on as it is.

    A redirect names the server's own URL: whoever follows it talks past the gateway. An OAuth challenge names the
    server's own URL too, and a conforming client compares that with the one it dialled (RFC 9728, section 3.3): it
    passes only when the gateway is reached under the server's public name, or as the answer to credentials that the
    client brought by itself.

    Raises:
        UpstreamError: says what to do about it.
    """
    if response.status in REDIRECTS and (location := value(response.headers, b"location")) is not None:
        raise UpstreamError(f"the server redirects to {shown_url(location)}; make that the gateway's URL for it")
    if response.status != 401 or value(client.headers, b"authorization") is not None:
        return
    for challenge in values(response.headers, b"www-authenticate"):
        if challenge.lower().startswith(b"bearer") and not _names(challenge, client.host):
            raise UpstreamError(
                "the server asks for an OAuth login, and such a challenge cannot pass through another URL (RFC 9728); "
                "configure the client with an Authorization header, or serve the gateway under the server's public URL"
            )


def _names(challenge: bytes, host: bytes) -> bool:
    found = _METADATA.search(challenge)
    if found is None:
        return False
    url = urlsplit(found[1].decode("latin-1"))
    default = b":443" if url.scheme == "https" else b":80"
    return url.netloc.encode("latin-1").lower().removesuffix(default) == host.lower().removesuffix(default)


def shown_url(url: bytes | str) -> str:
    """Return a URL without what may be secret in it."""
    split = urlsplit(url.decode("latin-1") if isinstance(url, bytes) else url)
    return split._replace(netloc=split.netloc.rpartition("@")[2], query="", fragment="").geturl() or "another URL"
