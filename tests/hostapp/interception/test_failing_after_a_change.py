"""When a mutator fails after another one changed the payload, the original goes nowhere and nothing partial leaves."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import pytest

from .ways import EACH_WAY, Era, RawClient, Way, linked

pytestmark = pytest.mark.anyio

ORIGINAL: Final = "the-original-text"
PARTIAL: Final = "what-the-first-made-of-it"
PLUGIN: Final = f"""
import asyncio
import json
from midspan_sdk import Answer, MutationResult, hookimpl, mutator

@mutator(events=["*"], phase="both", errors=True, priority_hint=1)
def first(payload):
    changed = json.dumps(payload).replace("{ORIGINAL}", "{PARTIAL}")
    return json.loads(changed) if changed != json.dumps(payload) else None

@mutator(events=["*"], phase="both", errors=True, priority_hint=2, timeout=0.05)
async def second(payload):
    text = json.dumps(payload)
    if "{PARTIAL}" not in text:
        return None
    if "fails:raise" in text:
        raise RuntimeError("on {ORIGINAL} and {PARTIAL}")
    if "fails:type" in text:
        return 7
    if "fails:late" in text:
        await asyncio.Event().wait()
    if "fails:protected" in text:
        return {{**payload, "requestState": "mine"}}
    if "fails:no json" in text:
        return {{**payload, "x": float("nan")}}
    if "fails:edit" in text:
        payload["x"] = 1
        return None
    if "fails:answer" in text:
        return Answer({{"not": {{1, 2}}}})
    raise AssertionError

@mutator(events=["*"], phase="both", errors=True, priority_hint=3)
def third(payload):
    return {{**payload, "third": True}} if "{ORIGINAL}" in json.dumps(payload) else None

@hookimpl
def midspan_interceptors():
    return [first, second, third]
"""
FAILURES: Final = ("raise", "type", "late", "protected", "no json", "edit", "answer")
QUESTION: Final[dict[str, Any]] = {
    "message": f"{ORIGINAL}, fails:raise",
    "requestedSchema": {"type": "object", "properties": {}},
}


def script_of(era: Era) -> dict[str, list[dict[str, Any]]]:
    envelope = {"resultType": "complete"} if era == "stateless" else {}

    def said(text: str) -> dict[str, Any]:
        return {"result": {"content": [{"type": "text", "text": text}], **envelope}}

    script: dict[str, list[dict[str, Any]]] = {
        f"tools/call {failure}": [said(f"{ORIGINAL}, fails:{failure}")] for failure in FAILURES
    }
    script["resources/read"] = [{"result": {"contents": [{"uri": "x:", "text": f"{ORIGINAL}, fails:raise"}]}}]
    script["prompts/get"] = [{"error": {"code": -32001, "message": f"{ORIGINAL}, fails:raise"}}]
    script["tools/call busy"] = [
        {"method": "notifications/message", "params": {"level": "info", "data": f"{ORIGINAL}, fails:raise"}},
        said("done"),
    ]
    script["tools/call ask"] = [{"id": "q", "method": "elicitation/create", "params": QUESTION}, said("asked")]
    script["tools/call listen"] = [
        {"id": "r", "method": "elicitation/create", "params": {**QUESTION, "message": "Well?"}},
        said("heard"),
    ]
    return script


def failed(answer: dict[str, Any], *, ran: bool) -> bool:
    """Tell whether an answer says that a mutator failed."""
    if "error" in answer:
        return answer["error"]["code"] in (-32603, -32000)
    result = answer["result"]
    return result["isError"] and result["_meta"]["midspan/verdict"]["ran"] is ran


async def check_requests(client: RawClient) -> None:
    for failure in FAILURES:
        arguments = {"text": f"{ORIGINAL}, fails:{failure}"}
        (answer,) = await client.ask("tools/call", {"name": "good", "arguments": arguments})
        assert failed(answer, ran=False), failure
    (answer,) = await client.ask("custom/thing", {"text": f"{ORIGINAL}, fails:raise"})
    assert failed(answer, ran=False)
    await client.tell("notifications/custom", {"text": f"{ORIGINAL}, fails:raise"})
    await client.works()


async def check_answers(client: RawClient) -> None:
    for failure in FAILURES:
        if failure != "answer":  # of a request only
            (answer,) = await client.ask("tools/call", {"name": failure, "arguments": {}})
            assert failed(answer, ran=True), failure
    for method, params in {"resources/read": {"uri": "x:"}, "prompts/get": {"name": "p"}}.items():
        (answer,) = await client.ask(method, params)
        assert failed(answer, ran=True), method
    wants = {"_meta": {"io.modelcontextprotocol/logLevel": "debug"}} if client.era == "stateless" else {}
    assert len(await client.ask("tools/call", {"name": "busy", "arguments": {}, **wants})) == 1
    await client.works()


async def check_questions(client: RawClient) -> None:
    """Let the server ask twice: the first question fails on the way, of the second one the answer."""
    answer = {"result": {"action": "accept", "content": {"a": f"{ORIGINAL}, fails:raise"}}}
    replies = {"elicitation/create": answer}
    for name, questions in {"ask": 0, "listen": 1}.items():
        client.asked.clear()
        came = await client.ask("tools/call", {"name": name, "arguments": {}}, replies=replies)
        assert "isError" not in came[-1]["result"]
        assert len(client.asked) == questions


@pytest.mark.parametrize(("way", "eras"), EACH_WAY, ids=str)
async def test_neither_the_original_nor_what_was_made_of_it_leaves(
    tmp_path: Path, way: Way, eras: Sequence[Era]
) -> None:
    plugin = tmp_path / "fails.py"
    plugin.write_text(PLUGIN)
    async with linked(way, eras, tmp_path, script_of, "--plugin-file", str(plugin)) as link:
        for client in link.clients:
            await client.open()
            await check_requests(client)
            await check_answers(client)
            if client.era == "handshake":
                await check_questions(client)
            for text in (ORIGINAL, PARTIAL):
                assert text.encode() not in client.received
        reached = link.reached()
        for text in (ORIGINAL, PARTIAL):
            assert text not in json.dumps(reached)
        if "handshake" in eras:
            told = {message["id"]: message["error"] for message in reached if message.get("id") in ("q", "r")}
            assert told.keys() == {"q", "r"}
            assert {error["code"] for error in told.values()} == {-32603}
