"""What the sender of a blocked message is told.

Too much explanation teaches a model the way around a rule, so by default a denial names the rule and no reason.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, Literal

from midspan.relay import INTERNAL_ERROR, INVALID_PARAMS, MessageId, error_message
from midspan_sdk import AbortedAt, AskError, ChainEntry, ChainExecutionResult, ValidationResult
from midspan_sdk.events import TOOLS_CALL
from midspan_sdk.wire import (
    EXECUTION_TIMEOUT,
    EXECUTION_TIMEOUT_MESSAGE,
    MUTATION_FAILED_MESSAGE,
    VALIDATION_FAILED_MESSAGE,
)

DenialDetail = Literal["none", "rule", "reason"]
DenialForm = Literal["result", "error"]

VERDICT_KEY: Final = "midspan/verdict"
"""`_meta` key of the machine-readable verdict."""


class Denials:
    """Builds denials.

    Args:
        detail: how much a denial says: `none`, the `rule`, or the `reason` too.
        form: `result` answers a blocked `tools/call` with a tool result `isError: true`; `error` with a JSON-RPC error.
            All other methods are answered with an error.
        timeout_ms: the chain's own deadline, named when it passed.
    """

    def __init__(self, *, detail: DenialDetail = "rule", form: DenialForm = "result", timeout_ms: int = 10_000) -> None:
        self._detail = detail
        self._form = form
        self._timeout_ms = timeout_ms

    def answer(
        self,
        event: str,
        message_id: MessageId | None,
        result: ChainExecutionResult,
        *,
        ran: bool,
        stateless: bool,
        error: bool = False,
    ) -> dict[str, Any]:
        """Build the answer to a blocked request, or in the place of a blocked answer.

        Args:
            event: the request's method.
            message_id: the request's id.
            result: the chain's result that blocked.
            ran: whether the other side got the request.
            stateless: whether the request is of the era whose results carry `resultType`.
            error: whether a JSON-RPC error was blocked; another error takes its place.
        """
        if event == TOOLS_CALL and self._form == "result" and not error:
            return self._tool_result(message_id, result, ran=ran, stateless=stateless)
        return self._error(message_id, result, ran=ran)

    def _tool_result(
        self, message_id: MessageId | None, result: ChainExecutionResult, *, ran: bool, stateless: bool
    ) -> dict[str, Any]:
        sentence = self._sentence(result, ran=ran)
        tool_result: dict[str, Any] = {
            "content": [{"type": "text", "text": sentence}],
            "isError": True,
            "_meta": {VERDICT_KEY: self._verdict(result, ran=ran)},
        }
        if stateless:
            tool_result["resultType"] = "complete"
        return {"jsonrpc": "2.0", "id": message_id, "result": tool_result}

    def _error(self, message_id: MessageId | None, result: ChainExecutionResult, *, ran: bool) -> dict[str, Any]:
        data: dict[str, Any]
        named = self._detail != "none"
        if result.status == "validation_failed":
            code, text = INVALID_PARAMS, VALIDATION_FAILED_MESSAGE
            data = {"validationErrors": self._validation_errors(result)} if named else {}
        elif result.status == "timeout":
            code, text = EXECUTION_TIMEOUT, EXECUTION_TIMEOUT_MESSAGE
            data = {"phase": result.phase, "timeoutMs": self._timeout_of(result)}
            if named and (at := _aborted_at(result)).type != "chain":
                data["interceptor"] = at.interceptor
        else:
            code, text = INTERNAL_ERROR, MUTATION_FAILED_MESSAGE
            failed = _aborted_at(result).interceptor
            data = {"failedInterceptor": failed, "reason": self._reason(result)} if named else {}
        return error_message(message_id, code, text, {**data, VERDICT_KEY: self._verdict(result, ran=ran)})

    def _validation_errors(self, result: ChainExecutionResult) -> list[dict[str, Any]]:
        errors: list[dict[str, Any]] = []
        for entry, value in _blocking(result):
            if entry.mode != "active":
                continue
            found: list[dict[str, Any]] = []
            if self._detail == "reason" and isinstance(value, ValidationResult):
                for message in value.messages:
                    path = {"path": message.path} if message.path is not None else {}
                    found.append({"severity": message.severity, "message": message.message, **path})
            named = found or [{"severity": "error", "message": self._reason(result)}]
            errors += [{"interceptor": entry.name, **each} for each in named]
        return errors

    def _timeout_of(self, result: ChainExecutionResult) -> int:
        return next((round(entry.timeout * 1000) for entry, _ in _blocking(result)), self._timeout_ms)

    def _reason(self, result: ChainExecutionResult) -> str:
        if self._detail == "reason" or result.status != "validation_failed" or _nobody_answered(result):
            return _aborted_at(result).reason
        return f"denied by {rule_of(result)}"

    def _sentence(self, result: ChainExecutionResult, *, ran: bool) -> str:
        what = (
            "The tool ran, and its result was withheld. Do not retry: it would run again."
            if ran
            else "The tool did not run."
        )
        by = f" by {rule_of(result)}" if self._detail != "none" else ""
        at = _aborted_at(result)
        # The gateway's own reasons say nothing of an operator's rules, and a client can do something with them.
        told = self._detail == "reason" or (self._detail == "rule" and (at.type == "mount" or _nobody_answered(result)))
        why = f": {at.reason}" if told else ""
        return f"Blocked{by}{why}. {what} Decision {result.decision_id}."

    def _verdict(self, result: ChainExecutionResult, *, ran: bool) -> dict[str, Any]:
        verdict: dict[str, Any] = {
            "decision": "deny",
            "decisionId": result.decision_id,
            "phase": result.phase,
            "ran": ran,
        }
        if ran:
            verdict["retry"] = False
        if self._detail != "none":
            verdict["rule"] = rule_of(result)
        if self._detail == "reason":
            verdict["reason"] = _aborted_at(result).reason
        return verdict


def rule_of(result: ChainExecutionResult) -> str:
    """Return the id of the rule that blocked: the interceptor's name, and the rule it named in `info`, if any."""
    name = _aborted_at(result).interceptor
    for _, value in _blocking(result):
        if isinstance(value, ValidationResult):
            rule: object = (value.info or {}).get("rule")
            if isinstance(rule, str):
                return f"{name}/{rule}"
    return name


def _aborted_at(result: ChainExecutionResult) -> AbortedAt:
    assert result.aborted_at is not None, "only what was blocked is denied"
    return result.aborted_at


def _blocking(result: ChainExecutionResult) -> Iterator[tuple[ChainEntry, object]]:
    """Yield the entry that blocked, with what it returned; nothing when the chain's deadline or an observer did."""
    name = _aborted_at(result).interceptor
    return ((outcome.entry, outcome.value) for outcome in result.outcomes if outcome.entry.name == name)


def _nobody_answered(result: ChainExecutionResult) -> bool:
    name = _aborted_at(result).interceptor
    return any(outcome.entry.name == name and isinstance(outcome.error, AskError) for outcome in result.outcomes)


def payload_of_answer(answer: dict[str, Any], event: str, *, stateless: bool) -> dict[str, Any]:
    """Complete an interceptor's answer with the envelope of its era.

    Since 2026-07-28 every result names its type, and a listing says how long it may be kept.
    """
    if not stateless:
        return answer
    complete = {"resultType": "complete", **answer}
    if event.endswith("/list") or event == "resources/read":
        complete = {"ttlMs": 0, "cacheScope": "private", **complete}
    return complete
