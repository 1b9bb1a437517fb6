"""A planted key reaches the client on no way at all, and whatever was redacted has a record."""

from __future__ import annotations

import base64
import json
import random
import string
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import anyio
import pytest

from .ways import EACH_WAY, Era, RawClient, Way, linked

pytestmark = pytest.mark.anyio

_LETTERS: Final = string.ascii_uppercase + "234567"
KEY: Final = "AKIA" + "".join(random.choices(_LETTERS, k=16))
GONE: Final = "[REDACTED:aws-access-key-id]"
LOOKS_LIKE: Final = "AKIA" + "".join(random.choices(_LETTERS, k=16))
"""What stands in media by chance."""
MEDIA: Final = base64.b64encode(bytes(range(48))).decode() + LOOKS_LIKE + base64.b64encode(bytes(range(45))).decode()

QUESTION: Final = {
    "message": f"Is {KEY} yours?",
    "requestedSchema": {"type": "object", "properties": {"a": {"type": "string", "description": KEY, "title": KEY}}},
}
SAMPLING: Final = {
    "messages": [{"role": "user", "content": {"type": "text", "text": f"complete {KEY}"}}],
    "systemPrompt": f"You know {KEY}.",
    "maxTokens": 5,
}
EXTRA: Final = {"example.org/note": {"why": KEY}}
LISTED: Final[dict[str, dict[str, Any]]] = {
    "tools/list": {
        "tools": [
            {
                "name": "t",
                "title": f"T {KEY}",
                "description": f"Use {KEY} for it.",
                "inputSchema": {"type": "object", "properties": {"a": {"type": "string", "description": KEY}}},
                "annotations": {"title": KEY},
                "_meta": EXTRA,
            }
        ]
    },
    "resources/list": {
        "resources": [{"uri": "x://r", "name": "r", "title": f"R {KEY}", "description": KEY, "_meta": EXTRA}]
    },
    "resources/templates/list": {
        "resourceTemplates": [{"uriTemplate": f"x://{{a}}?k={KEY}", "name": "r", "title": KEY}]
    },
    "prompts/list": {
        "prompts": [{"name": "p", "title": KEY, "description": KEY, "arguments": [{"name": "a", "description": KEY}]}]
    },
}
RESULTS: Final[dict[str, dict[str, Any]]] = {
    **LISTED,
    "tools/call text": {"content": [{"type": "text", "text": f"It is {KEY}."}], "_meta": EXTRA},
    "tools/call json": {"content": [{"type": "text", "text": json.dumps({"k": [KEY], KEY: json.dumps({"in": KEY})})}]},
    "tools/call structured": {"content": [], "structuredContent": {"k": KEY, KEY: {"deep": [{"a": KEY}]}}},
    "tools/call failed": {"content": [{"type": "text", "text": f"bad key {KEY}"}], "isError": True},
    "tools/call embedded": {
        "content": [
            {"type": "resource", "resource": {"uri": f"x://r?{KEY}", "text": KEY, "mimeType": "text/plain"}},
            {"type": "resource_link", "uri": f"x://r?{KEY}", "name": KEY, "description": KEY},
        ]
    },
    "tools/call media": {
        "content": [
            {"type": "text", "text": KEY},
            {"type": "image", "data": MEDIA, "mimeType": "image/png"},
            {"type": "audio", "data": MEDIA, "mimeType": "audio/wav"},
            {"type": "resource", "resource": {"uri": "x://b", "blob": MEDIA, "mimeType": "application/pdf"}},
        ]
    },
    "resources/read": {
        "contents": [
            {"uri": f"x://r?{KEY}", "text": f"r {KEY}", "_meta": EXTRA},
            {"uri": "x://b", "blob": MEDIA, "mimeType": "application/pdf"},
        ]
    },
    "prompts/get": {
        "description": f"about {KEY}",
        "messages": [{"role": "user", "content": {"type": "text", "text": f"say {KEY}"}}],
    },
    "completion/complete": {"completion": {"values": [KEY, f"a {KEY}"], "total": 2}},
    "custom/thing": {"anything": {"at": ["all", KEY]}},
}
ERROR: Final = {"code": -32050, "message": f"no access with {KEY}", "data": {"tried": [KEY], KEY: 1}}
PROGRESS: Final = {"progressToken": "$token", "progress": 1, "total": 2, "message": f"using {KEY}"}
LOGS: Final = [
    {"level": "info", "data": f"with {KEY}"},
    {"level": "error", "logger": KEY, "data": {"k": KEY, "in": [json.dumps({"k": KEY})]}},
]
TARGETS: Final[dict[str, dict[str, Any]]] = {
    "resources/read": {"uri": "x://r"},
    "prompts/get": {"name": "p"},
    "completion/complete": {"ref": {"type": "ref/prompt", "name": "p"}, "argument": {"name": "a", "value": "A"}},
}


TOLD: Final = [f"notifications/{what}" for what in ("progress", "message", "message", "custom")]
"""What arrives meanwhile. A message that has the key as its target cannot be redacted, and is dropped."""


def script_of(era: Era) -> dict[str, list[dict[str, Any]]]:
    """Return a server's whole talk."""
    opening = {
        "capabilities": {"tools": {}, "experimental": {"x": {"k": KEY}}},
        "serverInfo": {"name": "s", "version": "1", "title": f"S {KEY}"},
        "instructions": f"Always send {KEY}.",
    }
    envelope: dict[str, Any] = {"resultType": "complete"} if era == "stateless" else {}
    caching: dict[str, Any] = {"ttlMs": 0, "cacheScope": "private"} if era == "stateless" else {}
    script: dict[str, list[dict[str, Any]]] = {
        "initialize": [{"result": {"protocolVersion": "2025-11-25", **opening}}],
        "server/discover": [{"result": {"supportedVersions": ["2026-07-28"], **opening, **envelope, **caching}}],
        "tools/call refused": [{"error": ERROR}],
        "tools/call busy": [
            {"method": "notifications/progress", "params": PROGRESS},
            *({"method": "notifications/message", "params": log} for log in LOGS),
            {"method": "notifications/resources/updated", "params": {"uri": f"x://{KEY}"}},
            {"method": "notifications/custom", "params": {KEY: [KEY]}},
            {"result": {"content": [{"type": "text", "text": "done"}], **envelope}},
        ],
    }
    for place, result in RESULTS.items():
        script[place] = [{"result": {**result, **envelope, **(caching if place in LISTED else {})}}]
    if era == "handshake":
        asks = [
            {"id": "q1", "method": "elicitation/create", "params": QUESTION},
            {"id": "q2", "method": "sampling/createMessage", "params": SAMPLING},
        ]
        script["tools/call ask"] = [*asks, {"result": {"content": [{"type": "text", "text": "asked"}]}}]
    else:
        asked = {
            "one": {"method": "elicitation/create", "params": QUESTION},
            "two": {"method": "sampling/createMessage", "params": SAMPLING},
        }
        interim = {"resultType": "input_required", "inputRequests": asked, "requestState": "s"}
        script["tools/call ask"] = [{"result": interim}]
    return script


async def everything(client: RawClient) -> dict[str, list[dict[str, Any]]]:
    """Ask for all that there is; returns what came, by what was asked for."""
    came = {"open": [await client.open()]}
    for place in [*RESULTS, "tools/call refused"]:
        method, _, name = place.partition(" ")
        params: dict[str, Any] = {"name": name, "arguments": {}} if name else TARGETS.get(method, {})
        came[place] = await client.ask(method, params)
    replies = {"elicitation/create": {"result": {"action": "decline"}}}
    # Since 2026-07-28 a request says that it wants to hear of what goes on.
    wants = {"_meta": {"io.modelcontextprotocol/logLevel": "debug"}} if client.era == "stateless" else {}
    came["busy"] = await client.ask("tools/call", {"name": "busy", "arguments": {}, **wants}, token="t")
    came["ask"] = await client.ask("tools/call", {"name": "ask", "arguments": {}}, replies=replies)
    return came


@pytest.mark.parametrize(("way", "eras"), EACH_WAY, ids=str)
async def test_a_planted_key_never_arrives_and_each_redaction_is_recorded(
    tmp_path: Path, way: Way, eras: Sequence[Era]
) -> None:
    config, audit = tmp_path / "midspan.toml", tmp_path / "audit.jsonl"
    config.write_text(f"[plugins.audit.config]\npath = {json.dumps(str(audit))}\n")
    options = ("--config", str(config), "--plugin", "secrets", "--plugin", "audit")
    async with linked(way, eras, tmp_path, script_of, *options) as link:
        known = 0
        for client in link.clients:
            came = await everything(client)
            await client.works()
            assert KEY.encode() not in client.received
            check(client, came)
            content = await anyio.Path(audit).read_text()
            assert KEY not in content
            records = [json.loads(line) for line in content.splitlines()]
            check_records(client.era, records[known:])
            known = len(records)


def check(client: RawClient, came: dict[str, list[dict[str, Any]]]) -> None:
    """Assert that all of it came, without the key."""
    opening = came["open"][0]["result"]
    assert opening["instructions"] == f"Always send {GONE}."
    assert opening["serverInfo"]["title"] == f"S {GONE}"
    for place in RESULTS:
        assert GONE in json.dumps(came[place][-1]["result"]), place
    assert came["tools/call refused"][-1]["error"]["code"] == ERROR["code"]
    assert GONE in came["tools/call refused"][-1]["error"]["message"]
    arrived = [message["method"] for message in came["busy"][:-1]]
    assert arrived == TOLD
    assert all(GONE in json.dumps(message) for message in came["busy"][:-1])
    if client.era == "handshake":
        assert [request["method"] for request in client.asked] == ["elicitation/create", "sampling/createMessage"]
        assert all(GONE in json.dumps(request) for request in client.asked)
    else:
        interim = came["ask"][-1]["result"]
        assert interim["requestState"] == "s"
        assert all(GONE in json.dumps(request) for request in interim["inputRequests"].values())
    # Media that only looks like a key is what it was.
    _, image, sound, blob = came["tools/call media"][-1]["result"]["content"]
    assert (image["data"], sound["data"], blob["resource"]["blob"]) == (MEDIA, MEDIA, MEDIA)
    assert came["resources/read"][-1]["result"]["contents"][1]["blob"] == MEDIA


def check_records(era: Era, records: list[dict[str, Any]]) -> None:
    """Assert that each redaction has a record."""
    redacted = [
        record["event"]
        for record in records
        for entry in record.get("entries", [])
        if entry["interceptor"] == "secrets.redact" and entry["verdict"] == "modified"
    ]
    results = [place.partition(" ")[0] for place in RESULTS]
    opened = "initialize" if era == "handshake" else "server/discover"
    asks = ["elicitation/create", "sampling/createMessage"]
    assert sorted(redacted) == sorted([opened, *results, "tools/call", *TOLD, *asks])
    blocked = [record["event"] for record in records if record.get("blocked_by") == "secrets.protected"]
    assert blocked == ["notifications/resources/updated"]
