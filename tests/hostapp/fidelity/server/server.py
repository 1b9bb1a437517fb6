"""The awkward server: what it does is written once, and knows nothing of how messages travel."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import TypeVar

from tests.hostapp.fidelity.eras import Era, key_of
from tests.hostapp.fidelity.pairs import Form
from tests.hostapp.fidelity.record import Record

from .asked import Asked, Channel, Heard, Peer

T = TypeVar("T")
Script = Callable[[Asked], Awaitable[None]]


class Server:
    """Does with every request what the test says, and notes what it gets.

    Args:
        form: how it answers over HTTP; with "single bytes" it hands over one byte at a time on every transport.

    Attributes:
        heard: every message it got.
        asked: the requests among them.
        said: every message it sent, in the order in which it began to.
        cancelled: requests that were cancelled, in that order.
        complaints: what a message's frame did wrong; a strict server answers it with an error.
    """

    def __init__(self, form: Form = "json") -> None:
        self.form: Form = form
        self.heard: Record[Heard] = Record()
        self.asked: Record[Asked] = Record()
        self.said: Record[bytes] = Record()
        self.cancelled: Record[Asked] = Record()
        self.complaints: list[str] = []
        self.failures: Record[Exception] = Record()
        self._scripts: dict[str, Script] = {}

    def on(self, method: str, script: Script) -> None:
        """Say what to do about the requests of a method."""
        self._scripts[method] = script

    def says(self, method: str, result: object, more: str = "") -> None:
        """Say what to answer to the requests of a method."""

        async def script(asked: Asked) -> None:
            await asked.answer(result, more)

        self.on(method, script)

    async def got(self, method: str, count: int = 1) -> Heard:
        """Wait for a message of this method."""
        return await self.heard.first(lambda heard: heard.method == method, count=count)

    def methods(self) -> list[str]:
        """Return the methods of all that came."""
        return [heard.method for heard in self.heard]

    # What the transports call

    def new_peer(self) -> Peer:
        """Make a client known."""
        return Peer(self.said)

    def hear(self, raw: bytes, peer: Peer, channel: Channel, headers: Mapping[str, str] | None = None) -> Asked | None:
        """Take a message; returns it if it is a request, to be passed to `act`."""
        heard = Heard(raw, peer, headers or {})
        self.heard.note(heard)
        if not heard.method:
            peer.answers.note(heard)
        elif "id" in heard.message:
            asked = Asked(heard, channel, self.said)
            peer.open[key_of(asked.id)] = asked
            self.asked.note(asked)
            return asked
        elif heard.method == "notifications/cancelled":
            cancelled = peer.open.get(key_of(heard.params["requestId"]))
            if cancelled is None:
                self.complaints.append(f"a cancellation of what is not open: {raw!r}")
            else:
                self.cancel(cancelled)
        return None

    def cancel(self, asked: Asked) -> None:
        """Note that the client wants no answer any more."""
        if not asked.cancelled.is_set() and not asked.answered:
            asked.peer.open.pop(key_of(asked.id), None)
            asked.cancelled.set()
            self.cancelled.note(asked)

    async def act(self, asked: Asked) -> None:
        """Do what a request asks for."""
        try:
            await self._scripts.get(asked.method, _unknown)(asked)
            if not asked.answered:
                await asked.end()
        except OSError:
            pass  # the client is gone; what it misses, it will say
        except Exception as error:  # noqa: BLE001 - the test fails with it
            self.failures.note(error)

    def watched(self, handler: Callable[[T], Awaitable[None]]) -> Callable[[T], Awaitable[None]]:
        """Return a handler whose failures fail the test."""

        async def watched(request: T) -> None:
            try:
                await handler(request)
            except OSError:
                raise
            except Exception as error:
                self.failures.note(error)
                raise

        return watched


async def _unknown(asked: Asked) -> None:
    await asked.fail({"code": -32601, "message": f"no {asked.method}"})


DISCOVERED = (
    '{"supportedVersions":["2026-07-28"],"resultType":"complete","capabilities":{"tools":{"listChanged":true}},'
    '"serverInfo":{"version":"1","name":"awkward"},"ttlMs":0,"cacheScope":"private"}'
)


def awkward_server(form: Form = "json") -> Server:
    """Return a server that can be begun with, in both eras."""
    server = Server(form)
    server.says(
        "initialize",
        f'{{"capabilities":{{"tools":{{}}}},"protocolVersion":"{Era.HANDSHAKE}","serverInfo":{{"version":"1","name":"n"}}}}',
    )
    server.says("server/discover", DISCOVERED)
    server.says("ping", "{}")
    return server
