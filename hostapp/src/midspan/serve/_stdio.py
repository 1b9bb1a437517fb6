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
    OversizedLine,
    classify,
    error_message,
    id_of,
    open_reader,
    open_writer,
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


class _Requests:
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
            value: object = None
            try:
                if isinstance(line, OversizedLine):
                    raise JSONFaultError("longer than the limit", INVALID_REQUEST)
                document = read(line)
                value = document.value
                return _message(value, document.fault)
            except JSONFaultError as fault:
                logger.warning("refused a message: %s", fault.reason)
                if isinstance(value, dict) and "id" not in value:
                    continue  # a notification, which nobody answers
                await self._answers.refuse(id_of(value), fault)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> SessionMessage | Exception:
        try:
            return await self.receive()
        except anyio.EndOfStream:
            raise StopAsyncIteration from None

    async def aclose(self) -> None:
        """Do nothing: whoever opened the lines closes them."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc_val: BaseException | None, exc_tb: TracebackType | None
    ) -> None:
        await self.aclose()


def _message(value: object, fault: str | None) -> SessionMessage:
    kind = classify(value).kind
    if fault is not None:
        raise JSONFaultError(fault, INVALID_REQUEST)
    try:
        message = jsonrpc_message_adapter.validate_python(value, by_name=False)
    except ValidationError:
        raise JSONFaultError("not a JSON-RPC 2.0 message", INVALID_REQUEST) from None
    if kind == "request" and not isinstance(message, JSONRPCRequest):
        # The SDK's reader takes a request with such an id for a notification.
        raise JSONFaultError("the id must be a string or an integer", INVALID_REQUEST)
    return SessionMessage(message)


class _Answers:
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

    async def refuse(self, message_id: MessageId | None, fault: JSONFaultError) -> None:
        """Answer a message that could not be read."""
        try:
            await self._send(write(error_message(message_id, fault.code, f"refused the message: {fault.reason}")))
        except anyio.BrokenResourceError:
            logger.debug("the client is gone")

    async def _send(self, line: bytes) -> None:
        try:
            await self._writer.send(line)
        except BrokenPipeError:
            raise anyio.BrokenResourceError from None

    async def aclose(self) -> None:
        """Do nothing: whoever opened the writer closes it."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc_val: BaseException | None, exc_tb: TracebackType | None
    ) -> None:
        await self.aclose()
