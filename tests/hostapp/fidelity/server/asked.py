"""A request as the awkward server sees it, and what the server may do about it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import Any, Protocol

from tests.hostapp.fidelity.eras import dig, key_of, text_of
from tests.hostapp.fidelity.record import Record


class Channel(Protocol):
    """Where the server speaks."""

    async def send(self, message: bytes, *, last: bool = False, status: str = "200 OK") -> None:
        """Say a message.

        Args:
            message: JSON on one line.
            last: whether it is the answer to the request that the channel belongs to, if it belongs to one.
            status: of the response, where the transport has one and it has not begun.
        """
        ...

    async def end(self) -> None:
        """Say no more about the request that the channel belongs to."""
        ...


class Heard:
    """A message as the server got it.

    Attributes:
        raw: its bytes.
        message: the JSON in them.
        headers: of the HTTP request it came with; empty on stdio.
        peer: who sent it.
    """

    def __init__(self, raw: bytes, peer: Peer, headers: Mapping[str, str]) -> None:
        self.raw = raw
        self.message: dict[str, Any] = json.loads(raw)
        self.headers = headers
        self.peer = peer

    @property
    def method(self) -> str:
        """The method; empty for an answer."""
        return self.message.get("method", "")

    @property
    def params(self) -> dict[str, Any]:
        """The params."""
        return self.message.get("params", {})


class Peer:
    """One client, as far as the transport can tell: a process, a session, or a single stateless request.

    Attributes:
        version: what the handshake settled.
        answers: the client's answers to the server's requests.
        open: requests that are neither answered nor cancelled.
    """

    def __init__(self, said: Record[bytes]) -> None:
        self.version: str | None = None
        self.answers: Record[Heard] = Record()
        self.open: dict[tuple[str, object], Asked] = {}
        self._said = said
        self._ear: asyncio.Future[Channel] = asyncio.get_running_loop().create_future()

    def listens_at(self, channel: Channel) -> None:
        """Name the channel for what belongs to no request of the client's."""
        if not self._ear.done():
            self._ear.set_result(channel)

    async def push(self, message: str) -> None:
        """Say a message that belongs to no request, as soon as the client listens."""
        channel = await asyncio.shield(self._ear)
        self._said.note(message.encode())
        await channel.send(message.encode())

    async def answer_to(self, message_id: object, *, after: int = 0) -> Heard:
        """Wait for the client's answer to a request of the server's, after so many other answers."""
        key = key_of(message_id)
        return await self.answers.first(lambda heard: key_of(heard.message["id"]) == key, after=after)


class Asked(Heard):
    """A request of the client's.

    Attributes:
        cancelled: set when the client wants no answer any more.
    """

    def __init__(self, heard: Heard, channel: Channel, said: Record[bytes]) -> None:
        super().__init__(heard.raw, heard.peer, heard.headers)
        self.id: Any = self.message["id"]
        self.cancelled = asyncio.Event()
        self.answered = False
        self._channel = channel
        self._said = said

    @property
    def id_text(self) -> str:
        """The id as it stands in JSON."""
        return json.dumps(self.id)

    @property
    def token_text(self) -> str:
        """The progress token as it stands in JSON."""
        return json.dumps(dig(self.params, "_meta", "progressToken"))

    async def _say(self, message: str, *, last: bool = False, status: str = "200 OK") -> None:
        self._said.note(message.encode())
        await self._channel.send(message.encode(), last=last, status=status)

    async def say(self, message: str) -> None:
        """Say something about the request, before it is answered."""
        await self._say(message)

    async def ask(self, message_id: object, method: str, params: Any = None) -> Heard:
        """Ask the client something, and wait for the answer."""
        text = "" if params is None else f',"params":{text_of(params)}'
        before = len(self.peer.answers)
        await self.say(f'{{"jsonrpc":"2.0","id":{json.dumps(message_id)},"method":"{method}"{text}}}')
        return await self.peer.answer_to(message_id, after=before)

    async def answer(self, result: Any, more: str = "") -> None:
        """Answer with a result.

        Args:
            result: as JSON or as a value.
            more: keys of the envelope, as JSON that begins with a comma.
        """
        text = text_of(result)
        if self.method == "initialize":
            self.peer.version = json.loads(text)["protocolVersion"]
        await self._over(f'{{"jsonrpc":"2.0","id":{self.id_text},"result":{text}{more}}}', "200 OK")

    async def fail(self, error: Any, more: str = "", *, status: str = "200 OK") -> None:
        """Answer with an error."""
        await self._over(f'{{"jsonrpc":"2.0","id":{self.id_text},"error":{text_of(error)}{more}}}', status)

    async def _over(self, message: str, status: str) -> None:
        self.answered = True
        self.peer.open.pop(key_of(self.id), None)
        await self._say(message, last=True, status=status)

    async def end(self) -> None:
        """End without an answer."""
        await self._channel.end()
