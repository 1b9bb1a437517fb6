"""The interceptors of the servers in these tests; as a plugin file, those of `midspan interceptors serve`."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from midspan_sdk import hookimpl, mutator, validator

Payload = dict[str, Any]

if folder := os.environ.get("NOTE_PROCESS_IN"):
    (Path(folder) / f"{os.getpid()}.pid").touch()


@validator(events=["tools/call"], phase="request")
def no_rm(payload: Payload) -> str | None:
    """Deny `rm -rf`; end the whole server when asked to."""
    if "end your process" in json.dumps(payload):
        os._exit(1)
    return "destructive" if "rm -rf" in json.dumps(payload) else None


@validator(events=["tools/call"], phase="request")
def no_sudo(payload: Payload) -> str | None:
    """Deny `sudo`."""
    return "not as root" if "sudo" in json.dumps(payload) else None


@validator(events=["tools/call"], phase="request")
def environment(payload: Payload) -> str | None:
    """Deny what asks for a variable, and say what it is."""
    found = [word for word in json.dumps(payload).replace('"', " ").split() if word.startswith("env:")]
    return None if not found else f"<{os.environ.get(found[0].removeprefix('env:'))}>"


@mutator(events=["tools/call"], phase="response")
def redact(payload: Payload) -> Payload:
    """Redact the secret."""
    return json.loads(json.dumps(payload).replace("s3cret", "***"))


ALL = (no_rm, no_sudo, environment, redact)


@hookimpl
def midspan_interceptors() -> list[Any]:
    """Return all of them."""
    return list(ALL)
