"""A plugin that asks a person before anything is deleted, and why."""

from collections.abc import Sequence
from typing import Any

from midspan_sdk import Ask, Interceptor, deny, hookimpl, validator

REASON = {
    "type": "object",
    "properties": {"reason": {"type": "string", "title": "Why?", "minLength": 1}},
    "required": ["reason"],
}


@validator(events=["tools/call"], phase="request")
async def confirm_deletion(payload: dict[str, Any], ask: Ask) -> Any:
    """Ask before a tool deletes something."""
    if not payload["name"].startswith("delete"):
        return None
    if await ask(f"{payload['name']} is about to run. Go on?") is None:
        return deny("a person said no")
    if payload["arguments"].get("recursive") and await ask("Everything below it, too?", schema=REASON) is None:
        return deny("a person said no to the whole folder")
    return None


@hookimpl
def midspan_interceptors() -> Sequence[Interceptor[..., Any]]:
    """Contribute the validator."""
    return [confirm_deletion]
