"""How a gateway asks users: what both eras of the protocol have in common."""

from __future__ import annotations

import math
from typing import Any, Final, cast

from midspan.errors import OperatorError
from midspan.interception._json_schema import TooCostlyError, compiled
from midspan.interception._seal import SHORTEST_KEY, Seal
from midspan.relay import object_or_empty
from midspan_sdk import Asker, AskError, Question, Reply

ASK_TIMEOUT: Final = 300.0
"""Seconds in which a user answers, by default."""

_ACTIONS: Final = ("accept", "decline", "cancel")
_NOTHING_TO_FILL_IN: Final[dict[str, Any]] = {"type": "object", "properties": {}}


class Asking:
    """How a gateway asks users; shared by all its judges, so that one can go on with what another began.

    Args:
        timeout: seconds in which a user answers.
        key: seals what clients of 2026-07-28 carry from round to round; at least 32 letters or digits at random. The
            same for all processes behind one address. None makes one for this process.

    Raises:
        OperatorError: the timeout is not positive, or the key is too short.
    """

    def __init__(self, *, timeout: float = ASK_TIMEOUT, key: str | None = None) -> None:
        if not 0 < timeout < math.inf:
            raise OperatorError(f"ask_timeout is a positive number of seconds, not {timeout!r}")
        if key is not None and len(key) < SHORTEST_KEY:
            raise OperatorError(
                f"the key that seals questions (MIDSPAN_STATE_KEY) has fewer than {SHORTEST_KEY} letters; make one "
                'with python -c "import secrets; print(secrets.token_hex(32))"'
            )
        self.timeout = timeout
        self.seal = Seal(key)

    def lasting(self, timeout: float) -> Asking:
        """Return one with another timeout, which goes on with what this one began.

        Raises:
            OperatorError: the timeout is not positive.
        """
        other = Asking(timeout=timeout)
        other.seal = self.seal
        return other


def can_ask(capabilities: object) -> bool:
    """Tell whether a client with these capabilities puts forms to its user."""
    declared = object_or_empty(capabilities).get("elicitation")
    if not isinstance(declared, dict):
        return False
    modes = cast("dict[str, object]", declared)
    return "form" in modes or "url" not in modes  # an empty one is a form's, as before there were modes


def refusing(reason: str) -> Asker:
    """Return an asker that asks nobody, for this reason."""

    async def ask(question: Question, /) -> Reply:
        raise AskError(question.interceptor, reason)

    return ask


def form_of(question: Question) -> dict[str, Any]:
    """Return the `params` of `elicitation/create`."""
    schema = question.schema if question.schema is not None else _NOTHING_TO_FILL_IN
    return {"message": question.message, "requestedSchema": schema}


def is_answer(result: object) -> bool:
    """Tell whether this is a result of `elicitation/create`."""
    answer = object_or_empty(result)
    content: object = answer.get("content")
    return answer.get("action") in _ACTIONS and (content is None or isinstance(content, dict))


def reply_of(question: Question, result: object) -> Reply:
    """Read the client's answer to a question.

    Raises:
        AskError: it is none, or it does not fit the question's schema.
    """
    if not is_answer(result):
        raise AskError(question.interceptor, "the client's answer cannot be read")
    answer = object_or_empty(result)
    if answer["action"] != "accept" or question.schema is None:
        return Reply(action=answer["action"])
    content = object_or_empty(answer.get("content"))
    schema = compiled(question.schema)
    if schema is None:
        raise AskError(question.interceptor, "the question's schema cannot be used")
    try:
        fits = schema.fault_of(content) is None
    except TooCostlyError:
        fits = False
    if not fits:
        raise AskError(question.interceptor, "the answer does not fit the question's schema")
    return Reply(action="accept", content=content)
