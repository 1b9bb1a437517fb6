"""A raw client: what a row's test needs of it, whatever carries the messages."""

from __future__ import annotations

import itertools
import json
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, cast

from tests.hostapp.fidelity.eras import CLIENT_CAPABILITIES, CLIENT_INFO, STATELESS_META, Era, dig, key_of, text_of
from tests.hostapp.fidelity.record import Record

Params = Mapping[str, Any] | str
"""Params as a value, or as the JSON of an object."""


@dataclass(frozen=True, kw_only=True)
class Arrival:
    """A message that reached the client.

    Attributes:
        raw: its bytes.
        message: the JSON in them.
        where: the id of the request on whose response it came; None for the one stream that there is for all else,
            or that there is at all.
        status: of the HTTP response, or None.
    """

    raw: bytes
    message: dict[str, Any]
    where: object = None
    status: int | None = None

    @property
    def is_answer(self) -> bool:
        """Whether it answers a request of the client's."""
        return "method" not in self.message

    @property
    def method(self) -> str:
        """The method; empty for an answer."""
        return self.message.get("method", "")


class Link(ABC):
    """A client's connection.

    Attributes:
        carrier: what carries the messages.
        era: how it speaks.
        sent: every message that it sent.
        arrived: every message that came, in order.
    """

    carrier: Literal["stdio", "http", "sse"]

    def __init__(self, era: Era) -> None:
        self.era = era
        self.version: str = era.value
        self.sent: list[bytes] = []
        self.arrived: Record[Arrival] = Record()
        self._taken = 0
        self._ids = itertools.count(100)

    # What carries the messages

    @abstractmethod
    async def send(self, raw: bytes, *, headers: Mapping[str, str] | None = None) -> None:
        """Send a message; of a request the answer is not waited for.

        Args:
            raw: the message.
            headers: sent along over HTTP.
        """

    @abstractmethod
    async def cancel(self, message_id: object) -> None:
        """Cancel a request in the way of the era and the carrier."""

    @abstractmethod
    async def listen(self) -> None:
        """Make sure that what belongs to no request can come."""

    @abstractmethod
    async def close(self) -> None:
        """Hang up."""

    # Messages

    def compose(self, method: str, params: Params | None = None, *, more: str = "", **envelope: Any) -> bytes:
        """Write a message of this era.

        Args:
            method: its method.
            params: its params; those of a request get what the era wants in `_meta`, before all else.
            more: further keys of the envelope, as JSON that begins with a comma.
            envelope: the id of a request.
        """
        if self.era is Era.STATELESS and "id" in envelope:
            params = _with_meta(params or "{}")
        body = "" if params is None else f',"params":{text_of(params)}'
        head = "".join(f'"{key}":{json.dumps(value)},' for key, value in envelope.items())
        return f'{{{head}"method":"{method}"{body}{more},"jsonrpc":"2.0"}}'.encode()

    async def start(
        self,
        method: str,
        params: Params | None = None,
        *,
        message_id: object = None,
        more: str = "",
        headers: Mapping[str, str] | None = None,
    ) -> Any:
        """Send a request; returns its id."""
        message_id = next(self._ids) if message_id is None else message_id
        await self.send(self.compose(method, params, id=message_id, more=more), headers=headers)
        return message_id

    async def request(self, method: str, params: Params | None = None, **options: Any) -> Arrival:
        """Send a request and wait for its answer."""
        before = len(self.arrived)  # an id may have been used for what is over
        return await self.answer_to(await self.start(method, params, **options), after=before)

    async def notify(self, method: str, params: Params | None = None) -> None:
        """Send a notification."""
        await self.send(self.compose(method, params))

    async def answer(self, asked: Arrival, result: object, more: str = "") -> None:
        """Answer a request of the server's."""
        await self.send(
            f'{{"result":{text_of(result)},"id":{json.dumps(asked.message["id"])}{more},"jsonrpc":"2.0"}}'.encode()
        )

    async def refuse(self, asked: Arrival, error: object) -> None:
        """Answer a request of the server's with an error."""
        await self.send(f'{{"jsonrpc":"2.0","error":{text_of(error)},"id":{json.dumps(asked.message["id"])}}}'.encode())

    async def answer_to(self, message_id: object, *, after: int = 0) -> Arrival:
        """Wait for the answer to a request, after so many other messages."""
        key = key_of(message_id)

        def answers(arrival: Arrival) -> bool:
            return arrival.is_answer and key_of(arrival.message.get("id")) == key

        return await self.arrived.first(answers, after=after)

    async def next(self) -> Arrival:
        """Wait for the next request or notification of the server's."""
        arrival = await self.arrived.first(lambda arrival: not arrival.is_answer, after=self._taken)
        self._taken = (
            next(place for place in range(self._taken, len(self.arrived)) if self.arrived[place] is arrival) + 1
        )
        return arrival

    async def begin(self, version: str | None = None) -> Arrival:
        """Say hello in the way of the era; returns the server's answer."""
        if self.era is Era.STATELESS:
            return await self.request("server/discover")
        hello = {
            "protocolVersion": version or self.version,
            "capabilities": CLIENT_CAPABILITIES,
            "clientInfo": CLIENT_INFO,
        }
        answer = await self.request("initialize", hello)
        if "result" in answer.message:
            self.version = answer.message["result"]["protocolVersion"]
            await self.notify("notifications/initialized")
            await self.listen()
        return answer

    def arrive(self, raw: bytes, where: object = None, status: int | None = None) -> Arrival:
        """Take a message."""
        arrival = Arrival(raw=raw, message=json.loads(raw), where=where, status=status)
        self.arrived.note(arrival)
        return arrival


def _with_meta(params: Params) -> str:
    text = text_of(params)
    own = dig(json.loads(text), "_meta")
    if own is None:
        rest = text.lstrip()[1:]
        comma = "" if rest.lstrip() == "}" else ","
        return f'{{"_meta":{json.dumps(STATELESS_META)}{comma}{rest}'
    fields = cast("dict[str, Any]", json.loads(text))
    return json.dumps({**fields, "_meta": {**STATELESS_META, **own}})
