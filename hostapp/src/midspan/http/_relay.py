"""Relays HTTP to a server that speaks streamable HTTP.

Sessions, resumption, status codes and headers pass by themselves: nothing ends here but the two connections. Without
interceptors a body passes as it comes; with them, each message in it is judged.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Final

import anyio

from midspan.http._budget import Budget, Reservation
from midspan.http._client import Client, id_in
from midspan.http._conversations import Conversations
from midspan.http._errors import ClientGoneError, RefusedError, UpstreamError
from midspan.http._headers import Headers, media_type, value
from midspan.http._judged import JudgedExchange
from midspan.http._response_check import check_response
from midspan.http._upstream import Upstream
from midspan.relay import INTERNAL_ERROR

logger = logging.getLogger("midspan.gateway")

_BUDGETS: Final = 4
"""How many bodies of the longest kind may be in memory at once, each way."""
_REPLIES_AT_ONCE: Final = 32
_METHODS: Final = ("GET", "POST", "DELETE", "OPTIONS", "HEAD")


class HTTPRelay:
    """An endpoint that relays to a server; use it as an async context manager.

    Args:
        upstream: the server.
        conversations: judge what passes; None, or those of a chain that is empty at the start, relay without reading.
        max_message: the longest message in bytes.
    """

    def __init__(self, upstream: Upstream, conversations: Conversations | None, *, max_message: int) -> None:
        self._upstream = upstream
        self._conversations = conversations
        self._limit = max_message
        self._requests = Budget(_BUDGETS * max_message)
        self._responses = Budget(_BUDGETS * max_message)
        self._replies: set[asyncio.Task[None]] = set()
        self._streams: set[anyio.CancelScope] = set()
        self._stopping = False
        self._may_reply = asyncio.Semaphore(_REPLIES_AT_ONCE)

    async def __aenter__(self) -> HTTPRelay:
        """Make ready."""
        self._stopping = False
        if self._conversations is not None and not self._conversations.acting:
            self._conversations = None
        await self._upstream.__aenter__()
        return self

    async def __aexit__(self, *error: object) -> None:
        """Close all connections to the server."""
        for task in self._replies:
            task.cancel()
        await asyncio.gather(*self._replies, return_exceptions=True)
        if self._conversations is not None:
            self._conversations.clear()
        await self._upstream.__aexit__(*error)

    async def serve(self, client: Client) -> None:
        """Answer one request."""
        if client.method not in _METHODS:
            await client.answer(405, headers=[(b"allow", ", ".join(_METHODS).encode())])
            return
        body = b""
        with Reservation() as room:
            try:
                body = await client.body(self._limit, self._requests, room)
                await self._work(client, body)
            except ClientGoneError:
                pass
            except RefusedError as refused:
                logger.warning("refused a request: %s", refused.reason)
                if not client.started:
                    await client.refuse(refused.status, refused.code, refused.reason, id_in(body))
            except UpstreamError as error:
                logger.warning("%s", error)
                if not client.started:
                    await client.refuse(502, INTERNAL_ERROR, str(error), id_in(body))
                # Else the response stays incomplete, and the front breaks the connection as the server did.

    async def _work(self, client: Client, body: bytes) -> None:
        scope = anyio.CancelScope()
        if client.method == "GET":
            self._streams.add(scope)
        try:
            await client.unless_gone(self._exchange(client, body), scope)
        finally:
            self._streams.discard(scope)
        if self._stopping and client.started and not client.finished:
            await client.finish()

    def stop(self) -> None:
        """End the streams that servers keep open for what they may want to say; requests go on."""
        self._stopping = True
        for scope in self._streams:
            scope.cancel()

    async def _exchange(self, client: Client, body: bytes) -> None:
        if self._conversations is None:
            await self._pass(client, body)
            return
        exchange = JudgedExchange(
            client,
            body,
            upstream=self._upstream,
            conversations=self._conversations,
            limit=self._limit,
            budget=self._responses,
            reply=self._reply,
        )
        await exchange.run()

    async def _pass(self, client: Client, body: bytes) -> None:
        async with self._upstream.request(client.method, client.headers, body, query=client.query) as response:
            check_response(client, response)
            await client.start(response.status, response.headers)
            try:
                async for chunk in response.chunks:
                    await client.write(chunk)
            except UpstreamError as error:
                if media_type(value(response.headers, b"content-type")) != "text/event-stream":
                    raise
                # A stream may end at any time; the client resumes it, or takes its request for lost.
                logger.warning("%s", error)
            await client.finish()

    async def _reply(self, message: bytes, headers: Headers) -> None:
        """Post a message to the server in a client's name, in the background; waits while there are many."""
        await self._may_reply.acquire()
        task = asyncio.create_task(self._post(message, headers))
        self._replies.add(task)
        task.add_done_callback(self._replied)

    def _replied(self, task: asyncio.Task[None]) -> None:
        self._replies.discard(task)
        self._may_reply.release()

    async def _post(self, message: bytes, headers: Headers) -> None:
        for line in message.split(b"\n"):
            try:
                async with self._upstream.request("POST", headers, line) as response:
                    if response.status >= 400:
                        logger.warning("the server did not take a denial of its request: HTTP %d", response.status)
            except (UpstreamError, RefusedError) as error:
                logger.warning("a denial did not reach the server: %s", error)
