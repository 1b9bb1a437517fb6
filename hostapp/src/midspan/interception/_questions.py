"""Asking the user in the handshake revisions: the gateway sends `elicitation/create` of its own.

It never reaches the server, no interceptor judges it, and its answer goes to the handler that asked. Its id is random,
so that no request of the server's has the same, and nobody answers it who was not asked.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import secrets
from dataclasses import dataclass
from typing import Any, Final

import anyio

from midspan.interception._asking import form_of, reply_of
from midspan.relay import CANCELLED, Message, MessageId, Voice, write
from midspan_sdk import AskError, Question, Reply
from midspan_sdk.events import ELICITATION_CREATE

logger = logging.getLogger("midspan.gateway")

CANNOT: Final = "the client cannot ask its user"
_MOST: Final = 16
"""Questions that are with one user at once."""
_FAREWELL: Final = 1.0
"""Seconds in which a question is taken back."""


class _NoAnswerError(Exception):
    """There will be no answer.

    Attributes:
        take_back: whether the client is to be told, since it still asks.
    """

    def __init__(self, reason: str, *, take_back: bool = False) -> None:
        self.take_back = take_back
        super().__init__(reason)


@dataclass(frozen=True, slots=True, eq=False)
class _Open:
    """A question that is with the user.

    Attributes:
        about: the client's request for whose sake it is put, or None.
        answer: comes to the client's result.
    """

    about: MessageId | None
    answer: asyncio.Future[object]

    def fail(self, reason: str, *, take_back: bool = False) -> None:
        if not self.answer.done():
            self.answer.set_exception(_NoAnswerError(reason, take_back=take_back))

    def end(self) -> None:
        if not self.answer.cancel() and not self.answer.cancelled():
            self.answer.exception()  # nobody may have waited for it any more, and that is no fault


class Questions:
    """The questions that are with one client's user.

    Attributes:
        possible: whether the client puts forms to its user; its handshake says so.
    """

    def __init__(self) -> None:
        self.possible = False
        self._open: dict[MessageId, _Open] = {}

    async def ask(self, question: Question, /, *, voice: Voice | None, timeout: float) -> Reply:
        """Put a question and wait for the answer.

        Args:
            question: of a handler.
            voice: with which the client is spoken to.
            timeout: seconds in which the user answers.

        Raises:
            AskError: it cannot be put, or is not answered.
        """
        if not self.possible or voice is None:
            raise AskError(question.interceptor, CANNOT)
        if len(self._open) >= _MOST:
            raise AskError(question.interceptor, "too many questions are with the user already")
        message_id = f"midspan-{secrets.token_hex(16)}"
        opened = self._open[message_id] = _Open(voice.about, asyncio.get_running_loop().create_future())
        untell = voice.hang_up.tell(lambda: opened.fail("the client is gone"))
        try:
            result = await self._answer_of(message_id, opened, question, voice, timeout)
        except _NoAnswerError as no_answer:
            raise AskError(question.interceptor, str(no_answer)) from None
        finally:
            del self._open[message_id]
            untell()
            opened.end()
        return reply_of(question, result)

    async def _answer_of(
        self, message_id: str, opened: _Open, question: Question, voice: Voice, seconds: float
    ) -> object:
        request = {"jsonrpc": "2.0", "id": message_id, "method": ELICITATION_CREATE, "params": form_of(question)}
        try:
            async with asyncio.timeout(seconds):
                await voice.say(write(request))
                return await opened.answer
        except BrokenPipeError:
            raise _NoAnswerError("the client cannot be reached") from None
        except TimeoutError:
            reason = f"the user did not answer within {seconds:g} s"
            await _take_back(message_id, reason, voice)
            raise _NoAnswerError(reason) from None
        except _NoAnswerError as no_answer:
            if no_answer.take_back:
                await _take_back(message_id, str(no_answer), voice)
            raise
        except asyncio.CancelledError:
            await _take_back(message_id, "the request was cancelled", voice)
            raise

    @property
    def waiting(self) -> bool:
        """Whether any is with the user."""
        return bool(self._open)

    def take(self, message: Message, fault: str | None) -> bool:
        """Take an answer of the client's. Return whether it was one to a question of the gateway's."""
        opened = self._open.get(message.id) if message.id is not None else None
        if opened is None:
            return False
        if fault is not None:
            opened.fail("the client's answer cannot be read")
        elif message.kind == "error":
            opened.fail("the client could not ask its user")
        elif not opened.answer.done():
            opened.answer.set_result(message.envelope["result"])
        return True

    def refuse(self, message_id: MessageId | None) -> None:
        """Note that the client's answer, if it was one, cannot be read."""
        if message_id is not None and (opened := self._open.get(message_id)) is not None:
            opened.fail("the client's answer cannot be read")

    def cancel(self, about: MessageId) -> None:
        """Take back what is asked for the sake of a request."""
        for opened in list(self._open.values()):
            if opened.about == about:
                opened.fail("the request was cancelled", take_back=True)


async def _take_back(message_id: str, reason: str, voice: Voice) -> None:
    params: dict[str, Any] = {"requestId": message_id, "reason": reason}
    line = write({"jsonrpc": "2.0", "method": CANCELLED, "params": params})
    with anyio.move_on_after(_FAREWELL, shield=True), contextlib.suppress(BrokenPipeError):
        await voice.say(line)
