"""Messages that the conformance check sends: ordinary ones, and what a peer can send although no schema allows it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from midspan_sdk.wire import Phase

Message = tuple[str, Phase, Mapping[str, Any]]
"""Event, phase and payload."""

_TEXT: Final = "ordinary text, \u00fcml\u00e4uts, \U0001f310 and a \u202e mark"
_TOOL: Final = {"name": "echo", "description": _TEXT, "inputSchema": {"type": "object"}}
ORDINARY: Final[tuple[Message, ...]] = (
    (
        "tools/call",
        "request",
        {"name": "echo", "arguments": {"text": _TEXT, "n": 1, "deep": [{"a": [None, True, 0.5]}]}},
    ),
    ("tools/call", "request", {"name": "echo"}),
    ("tools/call", "response", {"content": [{"type": "text", "text": _TEXT}], "structuredContent": {"text": _TEXT}}),
    ("tools/call", "response", {"content": [{"type": "image", "data": "aGk=", "mimeType": "image/png"}]}),
    ("tools/call", "response", {"content": [{"type": "text", "text": "no such file"}], "isError": True}),
    ("tools/list", "request", {}),
    ("tools/list", "response", {"tools": [_TOOL], "nextCursor": "2"}),
    ("prompts/get", "request", {"name": "greet", "arguments": {"who": _TEXT}}),
    ("prompts/get", "response", {"messages": [{"role": "user", "content": {"type": "text", "text": _TEXT}}]}),
    ("prompts/list", "request", {}),
    ("prompts/list", "response", {"prompts": [{"name": "greet", "arguments": [{"name": "who"}]}]}),
    ("resources/read", "request", {"uri": "file:///notes.txt"}),
    ("resources/read", "response", {"contents": [{"uri": "file:///notes.txt", "text": _TEXT}]}),
    ("resources/list", "response", {"resources": [{"uri": "file:///notes.txt", "name": "notes"}]}),
    ("resources/templates/list", "response", {"resourceTemplates": [{"uriTemplate": "file:///{name}", "name": "all"}]}),
    ("resources/subscribe", "request", {"uri": "file:///notes.txt"}),
    ("completion/complete", "request", {"ref": {"type": "ref/prompt", "name": "greet"}, "argument": {"name": "who"}}),
    ("sampling/createMessage", "request", {"messages": [], "maxTokens": 10}),
    ("sampling/createMessage", "response", {"role": "assistant", "content": {"type": "text", "text": _TEXT}}),
    ("elicitation/create", "request", {"message": _TEXT, "requestedSchema": {"type": "object", "properties": {}}}),
    ("elicitation/create", "response", {"action": "accept", "content": {"answer": _TEXT}}),
    ("roots/list", "response", {"roots": [{"uri": "file:///work"}]}),
    ("notifications/message", "request", {"level": "info", "data": {"text": _TEXT}}),
    ("notifications/progress", "request", {"progressToken": 1, "progress": 0.5, "message": _TEXT}),
)
# What a peer can send although no schema allows it. A guard that fails on it denies the message (fail-closed) with a
# reason that helps nobody, or with fail-open lets it pass unseen.
_ODD: Final[tuple[dict[str, Any], ...]] = (
    {},
    {"name": None, "uri": 5, "arguments": "text", "content": {"type": "text"}, "tools": {"a": 1}, "contents": None},
    {"name": ["echo"], "uri": {}, "arguments": [1, [2, [3]]], "content": ["text", None, 7], "tools": [None, "x", {}]},
    {"name": 1, "arguments": {"": {"": ""}}, "content": [{"type": "text", "text": 5}, {"type": 3}], "messages": 1},
    {"_meta": "x", "content": [{"type": "resource", "resource": None}], "structuredContent": [1], "contents": [[]]},
)


def _route(message: Message) -> tuple[str, Phase]:
    return message[0], message[1]


ODD: Final[tuple[Message, ...]] = tuple(
    (event, phase, odd) for event, phase in dict.fromkeys(map(_route, ORDINARY)) for odd in _ODD
)
