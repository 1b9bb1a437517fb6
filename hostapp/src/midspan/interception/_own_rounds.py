"""Asking the user in 2026-07-28: the gateway answers a request with a question, and the client repeats it.

The client carries what is to be remembered until then, sealed, as `requestState`. The server may do the same with the
same request; its state and the answers to its own questions are in the sealed one while a question of the gateway's is
asked, and the gateway's answers are while the server's is.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Sequence
from functools import cached_property
from typing import Any, Final

from midspan.interception._asking import Asking, can_ask, form_of, is_answer, reply_of
from midspan.interception._questions import CANNOT
from midspan.interception._seal import PREFIX, BrokenSealError, ExpiredSealError
from midspan.relay import INTERNAL_ERROR, INVALID_PARAMS, JSONFaultError, MessageId, error_message, object_or_empty
from midspan_sdk import AskError, InvocationContext, Question, Reply
from midspan_sdk.events import ELICITATION_CREATE

logger = logging.getLogger("midspan.gateway")

ROUND_METHODS: Final = frozenset({"tools/call", "prompts/get", "resources/read"})
"""What can be answered with a question."""
_CAPABILITIES_KEY: Final = "io.modelcontextprotocol/clientCapabilities"
_STATE: Final = "requestState"
_RESPONSES: Final = "inputResponses"
_OF_A_ROUND: Final = (_STATE, _RESPONSES, "_meta")
"""Parameters in which the rounds of one call differ."""
_KEPT: Final = 3600.0
"""Seconds for which answers are kept while the server asks questions of its own."""
_MOST_STATE: Final = 1024 * 1024


class Round:
    """One request of the several that make a call.

    Args:
        asking: how the gateway asks.
        method: the request's.
        params: the request's.
        context: where it comes from.
        strict: whether every state that looks like one of the gateway's must be one. Where the chain asks nobody, it
            may as well be that of a gateway behind this one.

    Attributes:
        params: what the server gets: with its own state and answers, without the gateway's.

    Raises:
        JSONFaultError: it carries a state that was not sealed for it, or too long ago.
    """

    def __init__(
        self,
        asking: Asking,
        method: str,
        params: dict[str, Any],
        context: InvocationContext,
        *,
        strict: bool = True,
    ) -> None:
        self.params = params
        self._asking = asking
        self._method = method
        self._context = context
        self._answers: dict[str, dict[str, Any]] = {}
        state: object = params.get(_STATE)
        if isinstance(state, str) and state.startswith(PREFIX):
            self._go_on(state, strict=strict)

    @cached_property
    def _purpose(self) -> list[Any]:
        about = {key: value for key, value in self.params.items() if key not in _OF_A_ROUND}
        digest = hashlib.sha256(json.dumps(about, sort_keys=True, separators=(",", ":")).encode("ascii")).hexdigest()
        principal = self._context.principal
        who = [principal.type, principal.id] if principal is not None else None
        return [who, self._context.server, self._method, digest]

    def _go_on(self, state: str, *, strict: bool) -> None:
        try:
            kept = self._asking.seal.open(state, self._purpose)
        except ExpiredSealError:
            text = "the time to answer is over; send the request without requestState to be asked again"
            raise JSONFaultError(text, INVALID_PARAMS) from None
        except BrokenSealError:
            if not strict:
                return
            raise JSONFaultError("requestState does not belong to this request", INVALID_PARAMS) from None
        self._answers = kept["answers"]
        given: object = self.params.get(_RESPONSES)
        if asked := kept["asked"]:
            for key, answer in object_or_empty(given).items():
                if key not in asked:
                    continue
                if not is_answer(answer):
                    raise JSONFaultError("inputResponses has something else than an answer", INVALID_PARAMS)
                self._answers[key] = answer
            theirs = kept["theirs"]
        else:
            theirs = {**kept["theirs"], **({_RESPONSES: given} if _RESPONSES in self.params else {})}
        others = {key: value for key, value in self.params.items() if key not in (_STATE, _RESPONSES)}
        self.params = {**others, **theirs}

    async def ask(self, question: Question, /) -> Reply | None:
        """Return the answer, or None when the question is still to be put."""
        answer = self._answers.get(question.key)
        if answer is not None:
            return reply_of(question, answer)
        meta = object_or_empty(self.params.get("_meta"))
        if not can_ask(meta.get(_CAPABILITIES_KEY)):
            raise AskError(question.interceptor, CANNOT)
        return None

    def put(self, message_id: MessageId, questions: Sequence[Question]) -> dict[str, Any]:
        """Return the answer that puts these questions."""
        requests = {question.key: {"method": ELICITATION_CREATE, "params": form_of(question)} for question in questions}
        theirs = {key: self.params[key] for key in (_STATE, _RESPONSES) if key in self.params}
        state = self._sealed([*requests], theirs, self._asking.timeout)
        if len(state) > _MOST_STATE:
            logger.error("a question is not put: what is to be kept until its answer comes is too large")
            return error_message(message_id, INTERNAL_ERROR, "midspan: the request is too large to ask the user about")
        result = {"resultType": "input_required", "inputRequests": requests, _STATE: state}
        return {"jsonrpc": "2.0", "id": message_id, "result": result}

    def wrapped(self, result: dict[str, Any]) -> dict[str, Any] | None:
        """Return what the client gets of a server's result that asks something, or None when it passes as it is.

        It does not when there are answers to be remembered; nor when the server's state could be taken for one of this
        gateway's: it may be a gateway too.
        """
        if result.get("resultType") != "input_required":
            return None
        state: object = result.get(_STATE)
        if not self._answers and not (isinstance(state, str) and state.startswith(PREFIX)):
            return None
        theirs = {_STATE: state} if _STATE in result else {}
        return {**result, _STATE: self._sealed([], theirs, _KEPT)}

    def _sealed(self, asked: list[str], theirs: dict[str, Any], seconds: float) -> str:
        kept: dict[str, Any] = {"asked": asked, "answers": self._answers, "theirs": theirs}
        return self._asking.seal.close(kept, self._purpose, seconds=seconds)
