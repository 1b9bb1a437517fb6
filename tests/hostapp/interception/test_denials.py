"""What the sender of a blocked message is told, and that nobody else hears of it."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from midspan.interception import VERDICT_KEY, Denials
from midspan_sdk import DecisionRecord, Interceptor, deny, mutator, validator
from tests.hostapp.relay.harness import b64, guarded, notification, request, result, send

pytestmark = pytest.mark.anyio

STATELESS = {"_meta": {"io.modelcontextprotocol/protocolVersion": "2026-07-28"}}
SECRET_REASON = "because of the pattern s3cr3t-detail"


def denying(event: str, phase: Any = "request", **options: Any) -> Interceptor[..., Any]:
    @validator(events=[event], phase=phase, name="guard", **options)
    def guard(payload: dict[str, Any]) -> Any:
        return deny(SECRET_REASON, info={"rule": "deny[0]"})

    return guard


class Kept:
    """An observer that keeps what it sees."""

    name = "kept"
    durable = True

    def __init__(self) -> None:
        self.records: list[DecisionRecord] = []

    async def observe(self, record: DecisionRecord) -> None:
        self.records.append(record)


class Broken:
    """An observer that cannot write."""

    name = "broken"
    durable = True

    async def observe(self, record: DecisionRecord) -> None:
        raise OSError("no space left")


async def test_a_denied_tool_call_is_answered_with_a_tool_result_that_says_it_did_not_run(log: Path) -> None:
    kept = Kept()
    async with guarded(log, denying("tools/call"), observers=[kept]) as link:
        answer = await link.call(5, "tools/call", {"name": "x", "arguments": {}})
        await link.works()
        assert [message["method"] for message in link.seen_messages()] == ["ping"]
    decision = kept.records[0].decision_id
    assert answer == {
        "jsonrpc": "2.0",
        "id": 5,
        "result": {
            "content": [
                {
                    "type": "text",
                    "text": f"Blocked by guard/deny[0]. The tool did not run. Decision {decision}.",
                }
            ],
            "isError": True,
            "_meta": {
                VERDICT_KEY: {
                    "decision": "deny",
                    "decisionId": decision,
                    "phase": "request",
                    "ran": False,
                    "rule": "guard/deny[0]",
                }
            },
        },
    }


@pytest.mark.parametrize("phase", ["request", "response"])
async def test_in_the_stateless_era_a_denial_names_its_result_type(log: Path, phase: str) -> None:
    async with guarded(log, denying("tools/call", phase)) as link:
        answer = await link.call(5, "tools/call", {"name": "x", **STATELESS})
        assert answer["result"]["resultType"] == "complete"
        answer = await link.call(6, "tools/call", {"name": "x"})
        assert "resultType" not in answer["result"]


async def test_a_denied_result_says_that_the_tool_ran_and_must_not_be_retried(log: Path) -> None:
    async with guarded(log, denying("tools/call", "response")) as link:
        answer = await link.call(5, "tools/call", {"name": "x"}, send(result(5, {"content": "p4ssw0rd"})))
        (block,) = answer["result"]["content"]
        assert "The tool ran" in block["text"]
        assert "Do not retry" in block["text"]
        assert answer["result"]["isError"] is True
        verdict = answer["result"]["_meta"][VERDICT_KEY]
        assert (verdict["phase"], verdict["ran"], verdict["retry"]) == ("response", True, False)
        assert verdict["decisionId"] in block["text"]
        assert "p4ssw0rd" not in json.dumps(answer)
        assert len(link.seen()) == 1


@pytest.mark.parametrize(
    ("detail", "rule", "reason"), [("none", False, False), ("rule", True, False), ("reason", True, True)]
)
@pytest.mark.parametrize("method", ["tools/call", "prompts/get"])
@pytest.mark.parametrize("form", ["result", "error"])
async def test_a_denial_says_as_much_as_the_operator_wants(
    log: Path, detail: Any, rule: bool, reason: bool, method: str, form: Any
) -> None:
    async with guarded(log, denying(method), denials=Denials(detail=detail, form=form)) as link:
        await link.send(request(1, method, {"name": "x"}))
        line = (await link.receive()).decode()
    answer = json.loads(line)
    assert ("error" in answer) == (form == "error" or method != "tools/call")
    assert ("deny[0]" in line, "s3cr3t-detail" in line) == (rule, reason)
    assert "decisionId" in line


async def test_another_denied_method_is_answered_with_the_protocols_error(log: Path) -> None:
    async with guarded(log, denying("prompts/get"), denials=Denials(detail="reason")) as link:
        answer = await link.call(1, "prompts/get", {"name": "x"})
        await link.works()
        assert len(link.seen()) == 1
    assert (answer["error"]["code"], answer["error"]["message"]) == (-32602, "Interceptor validation failed")
    assert answer["error"]["data"]["validationErrors"] == [
        {"interceptor": "guard", "severity": "error", "message": SECRET_REASON}
    ]
    assert answer["error"]["data"][VERDICT_KEY]["ran"] is False


async def test_a_failed_mutator_is_answered_with_the_protocols_error(log: Path) -> None:
    @mutator(events=["prompts/get"], phase="request")
    def shaky(payload: dict[str, Any]) -> dict[str, Any]:
        raise RuntimeError("s3cr3t-detail")

    async with guarded(log, shaky) as link:
        answer = await link.call(1, "prompts/get", {"name": "x"})
        await link.works()
        assert len(link.seen()) == 1
    assert (answer["error"]["code"], answer["error"]["message"]) == (-32603, "Interceptor mutation failed")
    assert answer["error"]["data"]["failedInterceptor"] == "shaky"
    assert "RuntimeError" in answer["error"]["data"]["reason"]
    assert "s3cr3t-detail" not in json.dumps(answer)


async def test_a_passed_deadline_is_answered_with_the_protocols_error(log: Path) -> None:
    @validator(events=["prompts/get"], phase="request", timeout=0.05)
    async def stuck(payload: dict[str, Any]) -> None:
        await asyncio.Event().wait()

    async with guarded(log, stuck) as link:
        answer = await link.call(1, "prompts/get", {"name": "x"})
        await link.works()
        assert len(link.seen()) == 1
    assert (answer["error"]["code"], answer["error"]["message"]) == (-32000, "Interceptor execution timeout")
    data = answer["error"]["data"]
    assert (data["interceptor"], data["phase"], data["timeoutMs"]) == ("stuck", "request", 50)


async def test_the_chains_own_deadline_is_answered_with_the_protocols_error(log: Path) -> None:
    @validator(events=["prompts/get"], phase="request", timeout=10, fail_open=True)
    async def stuck(payload: dict[str, Any]) -> None:
        await asyncio.Event().wait()

    async with guarded(log, stuck, timeout=0.05, denials=Denials(timeout_ms=50)) as link:
        answer = await link.call(1, "prompts/get", {"name": "x"})
        await link.works()
    assert answer["error"]["code"] == -32000
    assert answer["error"]["data"]["timeoutMs"] == 50
    assert "interceptor" not in answer["error"]["data"]


async def test_a_decision_that_cannot_be_recorded_blocks(log: Path) -> None:
    async with guarded(log, observers=[Broken()]) as link:
        answer = await link.call(1, "tools/call", {"name": "x"})
        assert answer["result"]["isError"] is True
        assert not link.seen()


async def test_denied_notifications_vanish(log: Path) -> None:
    noisy = notification("notifications/message", {"data": "p4ssw0rd"})
    async with guarded(log, denying("notifications/*")) as link:
        await link.send(notification("notifications/roots/list_changed"))
        answer = await link.call(1, "go", None, send(noisy, result(1, {})))
        assert answer["id"] == 1
        await link.works()
        assert len(link.seen()) == 2


async def test_a_denied_request_of_the_server_is_answered_to_the_server_and_never_seen_by_the_client(log: Path) -> None:
    ask = request("s1", "sampling/createMessage", {"messages": []})
    async with guarded(log, denying("sampling/createMessage")) as link:
        answer = await link.call(1, "go", None, send(ask), ("read", 1), send(result(1, {"done": True})))
        assert answer == {"jsonrpc": "2.0", "id": 1, "result": {"done": True}}
        _, denial = link.seen_messages()
        assert denial["id"] == "s1"
        assert (denial["error"]["code"], denial["error"]["message"]) == (-32602, "Interceptor validation failed")


async def test_a_denial_that_the_server_does_not_take_any_more_ends_nothing(log: Path) -> None:
    ask = request("s1", "sampling/createMessage", {"messages": []})
    said = [("close", 0), ("flood", b64(ask + b"\n"), 200), send(notification("last"))]
    async with guarded(log, denying("sampling/createMessage"), at_start=said, stay=True) as link:
        assert (await link.read())["method"] == "last"


async def test_a_denied_answer_of_the_client_reaches_the_server_as_an_error(log: Path) -> None:
    ask = request("s1", "elicitation/create", {"message": "?"})
    async with guarded(log, denying("elicitation/create", "response")) as link:
        await link.send(request(1, "go", None, send(ask), ("read", 1), send(result(1, {}))))
        assert (await link.read())["id"] == "s1"
        await link.send(result("s1", {"action": "accept", "content": {"password": "p4ssw0rd"}}))
        assert (await link.read())["id"] == 1
        _, denial = link.seen_messages()
        assert denial["id"] == "s1"
        assert denial["error"]["code"] == -32602
        assert "p4ssw0rd" not in json.dumps(denial)


ERROR = {"jsonrpc": "2.0", "id": 1, "error": {"code": -32050, "message": "p4ssw0rd", "data": {"key": "p4ssw0rd"}}}


@pytest.mark.parametrize("method", ["tools/call", "prompts/get"])
async def test_a_denied_error_is_replaced_by_a_generic_one(log: Path, method: str) -> None:
    async with guarded(log, denying(method, "response", errors=True)) as link:
        answer = await link.call(1, method, {"name": "x"}, send(json.dumps(ERROR)))
        assert answer["error"]["message"] == "Interceptor validation failed"
        assert "p4ssw0rd" not in json.dumps(answer)


async def test_an_error_is_no_business_of_interceptors_that_do_not_ask_for_errors(log: Path) -> None:
    async with guarded(log, denying("*", "response")) as link:
        assert await link.call(1, "tools/call", {"name": "x"}, send(json.dumps(ERROR))) == ERROR


async def test_a_mutator_may_change_an_errors_text_and_data_but_not_its_code(log: Path) -> None:
    @mutator(events=["tools/call"], phase="response", errors=True)
    def redact(payload: dict[str, Any]) -> dict[str, Any]:
        return {"error": {**payload["error"], "message": "***", "data": None}}

    async with guarded(log, redact) as link:
        answer = await link.call(1, "tools/call", {"name": "x"}, send(json.dumps(ERROR)))
        assert answer == {"jsonrpc": "2.0", "id": 1, "error": {"code": -32050, "message": "***", "data": None}}

    @mutator(events=["tools/call"], phase="response", errors=True)
    def recode(payload: dict[str, Any]) -> dict[str, Any]:
        return {"error": {**payload["error"], "code": 0}}

    async with guarded(log, recode) as link:
        answer = await link.call(1, "tools/call", {"name": "x"}, send(json.dumps(ERROR)))
        assert answer["error"]["message"] == "Interceptor mutation failed"


@pytest.mark.parametrize("broken", [{"error": None}, {"error": "text"}, {"result": {}}], ids=range(3))
@pytest.mark.parametrize("slow", [False, True])
async def test_a_mutator_that_breaks_an_error_leaves_nobody_waiting(
    log: Path, broken: dict[str, Any], slow: bool
) -> None:
    @mutator(events=["tools/call"], phase="response", errors=True)
    async def breaks(payload: dict[str, Any]) -> dict[str, Any]:
        if slow:
            await asyncio.sleep(0)
        return broken

    async with guarded(log, breaks) as link:
        answer = await link.call(1, "tools/call", {"name": "x"}, send(json.dumps(ERROR)))
        assert answer["id"] == 1
        assert "p4ssw0rd" not in json.dumps(answer)
        assert answer["error"]["code"] != -32050
        await link.works()


@pytest.mark.parametrize("phase", ["request", "response"])
@pytest.mark.parametrize("slow", [False, True])
async def test_a_payload_that_cannot_be_written_leaves_nobody_waiting(log: Path, phase: Any, slow: bool) -> None:
    @mutator(events=["tools/call"], phase=phase)
    async def huge(payload: dict[str, Any]) -> dict[str, Any]:
        if slow:
            await asyncio.sleep(0)
        return {**payload, "number": 10**5000}

    async with guarded(log, huge) as link:
        answer = await link.call(1, "tools/call", {"name": "x"})
        assert answer["id"] == 1
        assert answer["error"]["code"] == -32603
        await link.works()
        assert len(link.seen()) == (1 if phase == "request" else 2)


async def test_what_was_denied_in_the_request_phase_has_no_response_phase(log: Path) -> None:
    asked: list[str] = []

    @validator(events=["tools/call"], phase="response")
    def later(payload: dict[str, Any]) -> None:
        asked.append("response")

    async with guarded(log, denying("tools/call"), later) as link:
        await link.call(1, "tools/call", {"name": "x"})
    assert asked == []
