"""A user who answers the questions of handlers, in tests."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from midspan_sdk._asking import Asker, Question, Reply
from midspan_sdk.errors import AskError

Given = Mapping[str, Any] | bool | None
Answers = Mapping[str, Given] | Callable[[str, Mapping[str, Any] | None], Given]


def asker_of(answers: Answers | None) -> Asker | None:
    """Return what gives these answers to handlers; None where there are none to give."""
    if answers is None:
        return None

    async def ask(question: Question, /) -> Reply:
        if callable(answers):
            given = answers(question.message, question.schema)
        elif question.message in answers:
            given = answers[question.message]
        else:
            raise AskError(question.interceptor, f"the test has no answer to {question.message!r}")
        if given is None or given is False:
            return Reply(action="decline")
        return Reply(action="accept", content=None if given is True else given)

    return ask
