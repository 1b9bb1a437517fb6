"""Serving MCP over two descriptors, so that no message can end the server or stay without an answer.

The SDK's own stdio transport drops a line that it cannot read, without a word to the client, and ends when it is to
write text that is not Unicode. Here the line is answered with an error, and so is the request whose answer cannot be
written.
"""

from __future__ import annotations

import asyncio
import logging
import signal
from collections.abc import AsyncIterator
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Final, Protocol, Self

import anyio
from mcp.server import Server
from mcp.shared.message import SessionMessage
from mcp_types import JSONRPCError, JSONRPCRequest, JSONRPCResponse, jsonrpc_message_adapter
from pydantic import ValidationError

from midspan.relay import (
    INTERNAL_ERROR,
    INVALID_REQUEST,
    JSONFaultError,
    MessageId,
    Outline,
    OversizedLine,
    classify,
    error_message,
    open_reader,
    open_writer,
    outline_of,
    outline_of_text,
    outlines_of_value,
    read,
    write,
)

logger = logging.getLogger("midspan.serve")

_FLUSH: Final = 1.0
"""Seconds that the client may take for the last answers."""
_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


async def serve_stdio(server: Server[Any], streams: tuple[int, int]) -> None:
    """Serve one client, in either protocol era, until it closes its end or a signal says so.

    Args:
        server: what to serve.
        streams: descriptors of the client's input and output, from `claim_standard_streams`; closed in the end.
    """
    reader, writer = await open_reader(streams[0]), await open_writer(streams[1])
    answers = _Answers(writer)
    try:
        async with anyio.create_task_group() as group:
            group.start_soon(_cancel_on_loss, writer.lost, group.cancel_scope)
            group.start_soon(_cancel_on_signal, group.cancel_scope)
            await server.run(_Requests(reader, answers), answers, server.create_initialization_options())
            group.cancel_scope.cancel()
    finally:
        reader.close()
        with anyio.move_on_after(_FLUSH, shield=True):
            await writer.aclose()


async def _cancel_on_loss(lost: asyncio.Event, scope: anyio.CancelScope) -> None:
    await lost.wait()
    scope.cancel()


async def _cancel_on_signal(scope: anyio.CancelScope) -> None:
    with anyio.open_signal_receiver(*_SIGNALS) as signals:
        async for _ in signals:
            scope.cancel()
            return


class _Writer(Protocol):
    async def send(self, line: bytes) -> None: ...


class _Stream:
    """One half of what the SDK calls a transport; it has nothing to close."""

    async def aclose(self) -> None:
        """Do nothing: whoever opened the descriptors closes them."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc_val: BaseException | None, exc_tb: TracebackType | None
    ) -> None:
        await self.aclose()


class _Requests(_Stream):
    """What the client sends, as the SDK reads it. Lines that it could not read are answered and left out."""

    def __init__(self, lines: AsyncIterator[bytes | OversizedLine], answers: _Answers) -> None:
        self._lines = lines
        self._answers = answers

    async def receive(self) -> SessionMessage | Exception:
        """Return the next message."""
        while True:
            try:
                line = await anext(self._lines)
            except StopAsyncIteration:
                raise anyio.EndOfStream from None
            found = _read(line)
            if isinstance(found, SessionMessage):
                return found
            logger.warning("refused a message: %s", found[0].fault.reason)
            for refusal in found:
                if refusal.wants_answer:
                    await self._answers.refuse(refusal)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> SessionMessage | Exception:
        try:
            return await self.receive()
        except anyio.EndOfStream:
            raise StopAsyncIteration from None


@dataclass(frozen=True, slots=True)
class _Refusal:
    """A message that cannot be read, or not as one thing.

    Attributes:
        fault: why.
        id: its id, where that is certain.
        wants_answer: whether its sender may wait for an answer. It does not for a notification, or for an answer.
    """

    fault: JSONFaultError
    id: MessageId | None
    wants_answer: bool


def _read(line: bytes | OversizedLine) -> SessionMessage | list[_Refusal]:
    if isinstance(line, OversizedLine):
        fault = JSONFaultError("longer than the limit", INVALID_REQUEST)
        return [_refusal(fault, outline_of_text(line.head, line.tail))]
    try:
        document = read(line)
    except JSONFaultError as fault:
        return [_refusal(fault, outline_of(line))]
    try:
        kind = classify(document.value).kind
        if document.fault is not None:
            raise JSONFaultError(document.fault, INVALID_REQUEST)
        message = jsonrpc_message_adapter.validate_python(document.value, by_name=False)
        if kind == "request" and not isinstance(message, JSONRPCRequest):
            # The SDK's reader takes a request with such an id for a notification.
            raise JSONFaultError("the id must be a string or an integer", INVALID_REQUEST)
    except ValidationError:
        fault = JSONFaultError("not a JSON-RPC 2.0 message", INVALID_REQUEST)
    except JSONFaultError as error:
        fault = error
    else:
        return SessionMessage(message)
    is_object = isinstance(document.value, dict)
    return [
        _refusal(fault, outline, is_notification=is_object and outline.is_call and "id" not in document.value)
        for outline in outlines_of_value(document.value, document.duplicates)
    ]


def _refusal(fault: JSONFaultError, outline: Outline, *, is_notification: bool = False) -> _Refusal:
    is_answer = outline.is_answer and not outline.is_call
    return _Refusal(fault, outline.id, wants_answer=not (is_notification or is_answer))


class _Answers(_Stream):
    """Where the SDK writes. An answer that cannot be written is replaced by an error."""

    def __init__(self, writer: _Writer) -> None:
        self._writer = writer

    async def send(self, item: SessionMessage) -> None:
        """Write a message."""
        message = item.message
        try:
            line = message.model_dump_json(by_alias=True, exclude_unset=True).encode()
        except ValueError as error:  # the cause quotes the text, so it stays out of the log
            logger.error("an answer could not be written: %s", type(error).__name__)
            if not isinstance(message, JSONRPCResponse | JSONRPCError):
                return
            line = write(error_message(message.id, INTERNAL_ERROR, "the answer cannot be written as JSON"))
        await self._send(line)

    async def refuse(self, refusal: _Refusal) -> None:
        """Answer a message that could not be read."""
        text = f"refused the message: {refusal.fault.reason}"
        try:
            await self._send(write(error_message(refusal.id, refusal.fault.code, text)))
        except anyio.BrokenResourceError:
            logger.debug("the client is gone")

    async def _send(self, line: bytes) -> None:
        try:
            await self._writer.send(line)
        except BrokenPipeError:
            raise anyio.BrokenResourceError from None
