"""Writing a stream as the response to an HTTP request: one JSON body where that is enough, else events."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import Final

from midspan.bridge._stream import Stream
from midspan.http import JSON_TYPE, VERSION_HEADER, Client, Headers, media_type, value, values

_PING_EVERY: Final = 15.0
"""Seconds of silence after which a comment keeps the connection; proxies close idle ones after half a minute."""
_EVENTS: Final = ((b"content-type", b"text/event-stream"), (b"cache-control", b"no-cache, no-transform"))
_PRIMED: Final = b"2025-11-25"
"""The revision whose streams begin with an empty event, which has an id; clients of older ones cannot read it."""


def accepts_events(client: Client) -> bool:
    """Tell whether a client takes a stream of events."""
    ranges = [one for field in values(client.headers, b"accept") for one in field.split(b",")]
    return not ranges or any(media_type(one) in ("text/event-stream", "text/*", "*/*") for one in ranges)


async def respond(
    client: Client, stream: Stream, *, headers: Headers = (), resumable: bool, status_of: Callable[[bytes], int]
) -> None:
    """Answer a request with what its stream says.

    Args:
        client: the request; it is the stream's reader from now on.
        stream: ends with the answer.
        headers: for the response.
        resumable: whether events have ids, so that a client whose connection breaks can go on.
        status_of: the HTTP status for an answer that comes alone.
    """
    stream.attach(client, 0)
    try:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_PING_EVERY if stream.takes_events else None):
                await stream.wait_for_change()
        answer = stream.only_answer() if stream.takes_events else stream.answer()
        if answer is not None:
            await client.answer(status_of(answer), answer, [*headers, JSON_TYPE])
        else:
            await write_events(client, stream, headers=headers, resumable=resumable)
    finally:
        stream.detach(client)


async def write_events(client: Client, stream: Stream, *, headers: Headers = (), resumable: bool) -> None:
    """Write what a stream says as events, from where the client is, which is its reader."""
    await client.start(200, [*headers, *_EVENTS])
    if resumable and value(client.headers, VERSION_HEADER) == _PRIMED:
        stream.resumable = True
        await client.write(b"id: %d-%d\ndata: \n\n" % (stream.number, stream.read))
    messages = stream.messages(client)
    following = asyncio.ensure_future(anext(messages, None))
    try:
        while True:
            done, _ = await asyncio.wait({following}, timeout=_PING_EVERY)
            if not done:
                await client.write(b": ping\n\n")
                continue
            found = following.result()
            if found is None:
                break
            number, message = found
            stream.resumable = resumable
            name = b"id: %d-%d\n" % (stream.number, number) if resumable else b""
            await client.write(b"%sevent: message\ndata: %s\n\n" % (name, message))
            following = asyncio.ensure_future(anext(messages, None))
    finally:
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)
        await messages.aclose()
    await client.finish()
