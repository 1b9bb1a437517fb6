"""What is written of a decision: who, what, why, and digests; never a value of the payload.

Texts that come from elsewhere (methods, names, reasons) are cut to a length and lose their control characters, so
that a log shown in a terminal does nothing there.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Mapping
from typing import Any, Final

from midspan_audit._config import AuditConfig
from midspan_audit._seal import Seal
from midspan_sdk import DecisionRecord, EntryDecision, InvocationContext
from midspan_sdk.events import PROMPTS_GET, RESOURCES_READ, RESOURCES_SUBSCRIBE, TOOLS_CALL

MAX_REASONS: Final = 3
MAX_CHANGED: Final = 32
CUT: Final = "..."

_TARGET_KEYS: Final = {
    TOOLS_CALL: "name",
    PROMPTS_GET: "name",
    RESOURCES_READ: "uri",
    RESOURCES_SUBSCRIBE: "uri",
    "resources/unsubscribe": "uri",
}

_UNPRINTABLE: Final = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})

# Keys of a payload are data wherever the protocol does not name them: a secret can stand in a key. Only these names
# appear in `changed`; any other key is `*`.
_PROTOCOL_KEYS: Final = frozenset(
    {
        "_meta",
        "annotations",
        "arguments",
        "blob",
        "completion",
        "content",
        "contents",
        "data",
        "description",
        "error",
        "icons",
        "inputSchema",
        "instructions",
        "logger",
        "message",
        "messages",
        "mimeType",
        "name",
        "outputSchema",
        "params",
        "prompt",
        "prompts",
        "resource",
        "resourceTemplates",
        "resources",
        "result",
        "role",
        "roots",
        "serverInfo",
        "structuredContent",
        "text",
        "title",
        "tools",
        "uri",
        "values",
    }
)
_PATH_PART: Final = re.compile(r"([A-Za-z_]+)((?:\[\d{1,6}\])*)")
_USER_INFO: Final = re.compile(r"^([A-Za-z][A-Za-z0-9+.-]*://)[^/]*@")


def fields_of(record: DecisionRecord, config: AuditConfig, seal: Seal, *, process: int) -> dict[str, Any]:
    """Return the record's fields in the order in which they are written. What is None is left out.

    Args:
        record: the decision.
        config: whether to name the target, and how long texts may be.
        seal: makes digests keyed.
        process: id of this process.
    """
    limit = config.max_field_length
    fields: dict[str, Any] = {
        "timestamp": record.timestamp,
        "decision_id": record.decision_id,
        "process": process,
        **_context(record.context, limit),
        "event": _clean(record.event, limit),
        "phase": record.phase,
        "direction": record.direction,
        "target": _target(record, limit) if config.target else None,
        "status": record.status,
        "blocked_by": _clean(record.blocked_by, limit),
        "reason": _clean(record.reason, limit),
        "answered_by": _clean(record.answered_by, limit),
        "entries": [_entry(entry, limit) for entry in record.entries],
        "changed": _changed(record.changed) or None,
        "arrived_digest": seal.digest(record.arrived_digest),
        # What a mutator answered never leaves towards the other side.
        "leaves_digest": None if record.answered_by else seal.digest(record.leaves_digest),
        "duration_ms": round(record.duration_ms, 3),
    }
    return _present(fields)


def _context(context: InvocationContext, limit: int) -> dict[str, Any]:
    principal = context.principal
    return {
        "server": _clean(context.server, limit),
        "session_id": _clean(context.session_id, limit),
        "flow": _clean(context.flow, limit),
        "trace_id": _clean(context.trace_id, limit),
        # Claims stay out: they may hold a token or a person's data.
        "principal": None
        if principal is None
        else _present({"type": principal.type, "id": _clean(principal.id, limit)}),
    }


def _entry(entry: EntryDecision, limit: int) -> dict[str, Any]:
    return _present(
        {
            "interceptor": _clean(entry.interceptor, limit),
            "type": entry.type,
            "mode": entry.mode,
            "verdict": entry.verdict,
            "blocked": entry.blocked or None,
            "reasons": [_clean(reason, limit) for reason in entry.reasons[:MAX_REASONS]] or None,
            "asked": [*entry.asked[:MAX_REASONS]] or None,
            "duration_ms": round(entry.duration_ms, 3),
        }
    )


def _target(record: DecisionRecord, limit: int) -> str | None:
    """Return which tool, prompt or resource a request names, as it leaves; as it came, when it was blocked."""
    key = _TARGET_KEYS.get(record.event)
    if key is None or record.phase != "request":
        return None
    leaves = record.leaves()
    value = (record.arrived() if leaves is None else leaves).get(key)
    if not isinstance(value, str):
        return None
    return _clean(_bare_uri(value) if key == "uri" else value, limit)


def _bare_uri(uri: str) -> str:
    """Return the URI without the parts that carry values: query, fragment, user, and all of a `data:` URI."""
    if uri[:5].lower() == "data:":
        return "data:"
    return _USER_INFO.sub(r"\1", re.split("[?#]", uri, maxsplit=1)[0])


def _changed(paths: Iterable[str]) -> list[str]:
    """Return the distinct paths, keys that the protocol does not name as `*`."""
    masked = list(dict.fromkeys(_masked(path) for path in paths))
    return masked if len(masked) <= MAX_CHANGED else [*masked[:MAX_CHANGED], CUT]


def _masked(path: str) -> str:
    def part(text: str) -> str:
        found = _PATH_PART.fullmatch(text)
        return text if found is not None and found[1] in _PROTOCOL_KEYS else "*"

    root, *parts = path.split(".")
    return ".".join([root, *map(part, parts)])


def _clean(text: str | None, limit: int) -> str | None:
    if text is None:
        return None
    kept = text if len(text) <= limit else text[: limit - len(CUT)] + CUT
    if kept.isascii() and kept.isprintable():
        return kept
    return "".join("?" if unicodedata.category(letter) in _UNPRINTABLE else letter for letter in kept)


def _present(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in fields.items() if value is not None}
