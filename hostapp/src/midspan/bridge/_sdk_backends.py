"""Servers and transports of the MCP SDK, as connections of lines. Importing this module imports the SDK.

The SDK's streams carry models of its own. Params and results stay as they are; what the models cannot carry (unknown
keys of the envelope) is lost, and text that is not Unicode is refused, since it would end the transport.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import logging
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, Final, Self, cast

import anyio
from mcp.client import Transport
from mcp.server import Server
from mcp.server.mcpserver import MCPServer
from mcp.shared.memory import create_client_server_memory_streams
from mcp.shared.message import ClientMessageMetadata, SessionMessage
from mcp_types import JSONRPCError, JSONRPCResponse, jsonrpc_message_adapter
from pydantic import ValidationError

from midspan.bridge._stamps import Stamps
from midspan.errors import OperatorError, one_line
from midspan.http import DisagreementError
from midspan.relay import (
    INTERNAL_ERROR,
    INVALID_REQUEST,
    ConnectError,
    JSONFaultError,
    LineQueue,
    MessageId,
    as_id,
    classify,
    error_message,
    outline_of,
    read,
    write,
)
from midspan_sdk.events import TOOLS_LIST

logger = logging.getLogger("midspan.gateway")

_END: Final = 2.0
"""Seconds that a transport, or a server in this process, may take to end."""

Streams = AbstractAsyncContextManager[tuple[Any, Any]]


class SDKBackend:
    """A server object, or a transport that leads to a server.

    Args:
        source: an `MCPServer` or low-level `Server`, run once for each connection; a transport, which serves one
            connection; or what returns a new transport for each.
    """

    def __init__(self, source: Server[Any] | MCPServer | Transport | Callable[[], Transport]) -> None:
        self._source: Any = source
        self._taken = False

    async def connect(self, *, limit: int) -> SDKConnection:
        """Run the server, or open the transport.

        Raises:
            ConnectError: it cannot be opened, or serves another connection already.
        """
        connection = SDKConnection(self._streams(), ends_with_client=isinstance(self._source, Server | MCPServer))
        try:
            return await connection.open()
        except asyncio.CancelledError:
            connection.kill()
            raise

    def _streams(self) -> Streams:
        source = self._source
        if isinstance(source, MCPServer):
            source = cast("Any", source)._lowlevel_server  # the SDK's own client takes it from there too
        if isinstance(source, Server):
            return _running(cast("Server[Any]", source))
        if hasattr(source, "__aenter__"):
            if self._taken:
                raise ConnectError("the transport serves one connection; give a function that returns a new one")
            self._taken = True
            return source
        try:
            made = source()
        except Exception as error:
            raise ConnectError(f"the transport cannot be made: {_words(error)}") from error
        if not hasattr(made, "__aenter__"):
            raise ConnectError(f"the function must return one of the SDK's transports, not {type(made).__name__}")
        return made


def sdk_backend(source: object) -> SDKBackend:
    """Return the backend for a server object or a transport.

    Raises:
        OperatorError: it is neither.
    """
    if isinstance(source, type) or inspect.iscoroutinefunction(source):
        raise OperatorError(
            f"the backend must be a function that returns a transport, and {source.__name__} is "
            f"{'a class' if isinstance(source, type) else 'async'}"
        )
    if isinstance(source, Server | MCPServer) or hasattr(source, "__aenter__") or callable(source):
        return SDKBackend(source)  # pyright: ignore[reportArgumentType, reportUnknownArgumentType] - checked as far as can be
    raise OperatorError(
        f"the backend must be a URL, a command as a list, a transport or a server, not {type(source).__name__}"
    )


def _words(error: BaseException) -> str:
    """Return what an exception says, in one line; of a group the first one's."""
    while isinstance(error, BaseExceptionGroup):
        error = cast("BaseExceptionGroup[BaseException]", error).exceptions[0]
    return one_line(str(error) or type(error).__name__)


@asynccontextmanager
async def _running(server: Server[Any]) -> AsyncGenerator[tuple[Any, Any]]:
    async with create_client_server_memory_streams() as (client, inner), anyio.create_task_group() as group:

        async def run() -> None:
            await server.run(*inner, server.create_initialization_options())
            await inner[1].aclose()

        group.start_soon(run)
        try:
            yield client
        finally:
            await client[1].aclose()
            group.cancel_scope.deadline = anyio.current_time() + _END


def _pair(streams: Any) -> tuple[Any, Any]:
    try:
        incoming, outgoing = streams
    except (TypeError, ValueError):
        raise TypeError(f"{type(streams).__name__} is not the pair of streams that a transport gives") from None
    return incoming, outgoing


class SDKConnection:
    """One connection.

    Args:
        streams: opens them.
        ends_with_client: whether the server notices that its client has no more to say. A transport does not tell it;
            there, leaving the transport is what ends the server.
    """

    def __init__(self, streams: Streams, *, ends_with_client: bool) -> None:
        self.from_server = LineQueue()
        self._streams = streams
        self._ends_with_client = ends_with_client
        self._owed: set[MessageId] = set()
        self._settled = asyncio.Event()
        self._scope = anyio.CancelScope()
        self._lines = LineQueue()
        self._stamps = Stamps()
        self._listings: set[object] = set()
        self._failed = False
        self._opened: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        # A task of its own: the SDK's transports are left by the task that entered them.
        self._running = asyncio.create_task(self._run())

    async def open(self) -> Self:
        """Wait until the streams are open.

        Raises:
            ConnectError: they cannot be opened.
        """
        await asyncio.wait({self._opened, self._running}, return_when=asyncio.FIRST_COMPLETED)
        if not self._opened.done():
            error = self._running.exception()
            raise ConnectError(f"cannot connect: {_words(error) if error else 'it was closed'}") from error
        return self

    async def _run(self) -> None:
        try:
            with self._scope:
                async with self._streams as streams, anyio.create_task_group() as group:
                    incoming, outgoing = _pair(streams)
                    self._opened.set_result(None)
                    group.start_soon(self._speak, outgoing, group.cancel_scope)
                    with contextlib.suppress(BrokenPipeError):  # nobody takes what it says any more
                        async for item in incoming:
                            await self._take(item)
                    group.cancel_scope.cancel()
        except Exception as error:
            if not self._opened.done():
                raise
            self._failed = True
            logger.exception("the server ended with an error", exc_info=error)
        finally:
            self._lines.close()
            self.from_server.close()

    async def _speak(self, outgoing: Any, scope: anyio.CancelScope) -> None:
        """Say all that the client says, and see to the end."""
        await self._say(outgoing)
        if self._ends_with_client:
            await outgoing.aclose()
            return
        while self._owed:
            self._settled.clear()
            await self._settled.wait()
        scope.cancel()

    async def _take(self, item: SessionMessage | Exception) -> None:
        if isinstance(item, SessionMessage):
            await self._hear(item)
        else:  # its text may quote what the server said
            logger.warning("dropped what the server said: its transport cannot read it (%s)", type(item).__name__)

    async def _hear(self, item: SessionMessage) -> None:
        message = item.message
        try:
            line = message.model_dump_json(by_alias=True, exclude_unset=True).encode()
        except ValueError as error:  # the cause quotes the text, so it stays out of the log
            logger.error("a message of the server cannot be written: %s", type(error).__name__)
            if not isinstance(message, JSONRPCResponse | JSONRPCError):
                return
            line = write(error_message(message.id, INTERNAL_ERROR, "midspan: the answer cannot be written as JSON"))
        if isinstance(message, JSONRPCResponse) and message.id in self._listings:
            self._listings.discard(message.id)
            self._stamps.learn(line)
        await self.from_server.send(line)
        if isinstance(message, JSONRPCResponse | JSONRPCError):
            self._settle(as_id(message.id))

    def _settle(self, message_id: MessageId | None) -> None:
        if message_id is not None:
            self._owed.discard(message_id)
            self._settled.set()

    async def _say(self, outgoing: Any) -> None:
        async for line in self._lines:
            assert isinstance(line, bytes)
            try:
                message = self._message(line)
            except (ValueError, DisagreementError) as error:
                await self._refuse(line, error)
                continue
            try:
                await outgoing.send(message)
            except (anyio.BrokenResourceError, anyio.ClosedResourceError):
                break

    def _message(self, line: bytes) -> SessionMessage:
        message = jsonrpc_message_adapter.validate_json(line, by_name=False)
        message.model_dump_json(by_alias=True, exclude_unset=True)  # what cannot be written ends the transport
        read_message = classify(read(line).value)
        headers = {name.decode(): value.decode("latin-1") for name, value in self._stamps.of(read_message)}
        if read_message.method == TOOLS_LIST:
            self._listings.add(read_message.id)
        if read_message.kind == "request" and read_message.id is not None:
            self._owed.add(read_message.id)
        elif (cancelled := read_message.cancels()) is not None:
            self._settle(cancelled)
        return SessionMessage(message, ClientMessageMetadata(headers=headers) if headers else None)

    async def _refuse(self, line: bytes, error: Exception) -> None:
        outline = outline_of(line)
        text = error.reason if isinstance(error, JSONFaultError) else "it cannot be carried by the SDK's transports"
        if isinstance(error, ValidationError):
            text = "it is no JSON-RPC message"
        logger.warning("refused a message: %s", text)
        if outline.is_call and outline.id is not None:
            await self.from_server.send(write(error_message(outline.id, INVALID_REQUEST, f"midspan: {text}")))

    @property
    def to_server(self) -> Self:
        """The writer: the object itself."""
        return self

    async def send(self, line: bytes) -> None:
        """Send a message.

        Raises:
            BrokenPipeError: the server is gone.
        """
        await self._lines.send(line)

    async def aclose(self) -> None:
        """Say that the client has no more to say."""
        self._lines.close()

    def abort(self) -> None:
        """Say so, drop what waits, and wait for nothing."""
        self._owed.clear()
        self._settled.set()
        self._lines.abort()

    def signal(self, number: int) -> None:
        """Do nothing: the server is no process of its own here."""

    async def stop(self, *, signalled: bool = False) -> int:
        """End the connection. Returns 0, or 1 when it had failed."""
        self._lines.close()
        self._owed.clear()
        self._settled.set()
        await asyncio.wait({self._running}, timeout=_END)
        self.kill()
        await asyncio.gather(self._running, return_exceptions=True)
        return 1 if self._failed else 0

    def kill(self) -> None:
        """End the connection at once. A transport may take a moment to end the server that it started."""
        self._scope.cancel()  # not the task, which would break into the transport's orderly end
        self.from_server.close()
