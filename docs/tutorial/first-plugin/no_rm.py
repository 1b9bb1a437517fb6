from typing import Any

from midspan_sdk import hookimpl, validator


@validator(events=["tools/call"], phase="request")
def no_rm(payload: dict[str, Any]) -> str | None:
    return "destructive shell command" if "rm -rf" in str(payload.get("arguments")) else None


@hookimpl
def midspan_interceptors():
    return [no_rm]
