"""A client that the gateway itself may speak to before the response to its request is there."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from midspan.http._client import Client
from midspan.http._headers import Headers, media_type, value, values
from midspan.relay import INTERNAL_ERROR, JSONFaultError, MessageId, error_message, object_or_empty, read, write

_EVENTS: Final = ((b"content-type", b"text/event-stream"), (b"cache-control", b"no-cache, no-transform"))
_EVENT_STREAM: Final = "text/event-stream"


class SpokenTo:
    """The response to a client's request, as its exchange writes it.

    As soon as something is said, the response is a stream of events with status 200, and what would have been the
    response is its last event.

    Args:
        client: the request.
        message_id: of the JSON-RPC request in it, or None.
    """

    def __init__(self, client: Client, message_id: MessageId | None) -> None:
        self._client = client
        self._id = message_id
        self._streams = False
        self._began = False
        self._withheld: int | None = None

    async def say(self, line: bytes) -> None:
        """Send a message to the client.

        Raises:
            BrokenPipeError: the client takes no stream, or the response is complete or of another kind.
        """
        client = self._client
        if not client.started:
            if not _takes_events(client.headers):
                raise BrokenPipeError
            self._streams = self._began = True
            await client.start(200, _EVENTS)
        if not self._streams or client.finished:
            raise BrokenPipeError
        await client.write(_event(line))

    @property
    def spoken_to(self) -> bool:
        """Whether the response is a stream that began with what the gateway said, and has not ended."""
        return self._began and not self._client.finished

    async def start(self, status: int, headers: Headers) -> None:
        """Begin the response, whose body comes in pieces."""
        if not self._client.started:
            self._streams = status == 200 and media_type(value(headers, b"content-type")) == _EVENT_STREAM
            await self._client.start(status, headers)
        elif media_type(value(headers, b"content-type")) != _EVENT_STREAM:
            self._withheld = status  # a page, which no event can be

    async def write(self, chunk: bytes) -> None:
        """Send a piece of the body."""
        if self._withheld is None:
            await self._client.write(chunk)

    async def finish(self) -> None:
        """End the response."""
        if self._withheld is not None:
            await self._client.write(_event(self._failure(self._withheld)))
        await self._client.finish()

    async def answer(self, status: int, body: bytes = b"", headers: Headers | None = None) -> None:
        """Send a whole response."""
        if not self._client.started:
            await self._client.answer(status, body, headers)
            return
        await self._client.finish(_event(body if _is_answer(body) else self._failure(status)))

    async def fail(self, code: int, reason: str) -> None:
        """Answer with a JSON-RPC error, when something was said already."""
        await self._client.finish(_event(write(error_message(self._id, code, f"midspan: {reason}"))))

    def _failure(self, status: int) -> bytes:
        text = f"midspan: the server answered with HTTP status {status}"
        return write(error_message(self._id, INTERNAL_ERROR, text))


def _takes_events(headers: Headers) -> bool:
    ranges = [one for field in values(headers, b"accept") for one in field.split(b",")]
    return any(media_type(one) in (_EVENT_STREAM, "text/*", "*/*") for one in ranges)


def _event(line: bytes) -> bytes:
    data = line.replace(b"\r", b" ").replace(b"\n", b" ")  # white space of JSON
    return b"event: message\ndata: %s\n\n" % data


def _is_answer(body: bytes) -> bool:
    try:
        message: Mapping[str, Any] = object_or_empty(read(body).value)
    except JSONFaultError:
        return False
    return message.get("id") is not None and bool(message.keys() & {"result", "error"})
