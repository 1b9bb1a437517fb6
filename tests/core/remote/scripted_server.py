"""A server of interceptors that does what a plan says: `scripted_server.py PLAN LOG`.

Bare JSON lines without the MCP SDK, so that it starts fast and can misbehave. The plan, a JSON object, is read anew
for every message:

- `start`: `exit` ends the process before it says anything, `silent` never answers the handshake.
- `name`: what the server calls itself. `settings`: of its capability.
- `descriptors`: what `interceptors/list` answers; `list`: `hang` to answer nothing, `die` to end instead.
- `invoke`: by interceptor name or `*`, `die`, `hang`, `deaf` (stop reading), `code` (an error without data), a result
  object, or nothing: then the result is a friendly one of the descriptor's type.
- `stubborn`: stay when stdin ends and when told to terminate.

The log gets one JSON line for the start, with the process's id, and one for every message that arrives.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any, cast

PLAN, LOG = Path(sys.argv[1]), Path(sys.argv[2])
VERDICTS = {"validation": {"valid": True}, "mutation": {"modified": False}, "sink": {"recorded": True}}


def plan() -> dict[str, Any]:
    return json.loads(PLAN.read_text(encoding="utf-8"))


def note(**line: Any) -> None:
    with LOG.open("a", encoding="utf-8") as log:
        log.write(json.dumps({"pid": os.getpid(), **line}) + "\n")


def say(message: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def listed(current: dict[str, Any]) -> dict[str, Any] | None:
    if current.get("list") == "hang":
        return None
    if current.get("list") == "die":
        os._exit(1)
    return {"interceptors": current.get("descriptors", [])}


def planned(current: dict[str, Any], name: str) -> Any:
    behaviours = current.get("invoke", {})
    return behaviours.get(name, behaviours.get("*"))


def invoked(current: dict[str, Any], params: dict[str, Any]) -> dict[str, Any] | None:
    name = params["name"]
    what = planned(current, name)
    if what == "die":
        os._exit(1)
    if what == "deaf":
        time.sleep(3600)
    if what == "hang":
        return None
    if isinstance(what, dict):
        return cast("dict[str, Any]", what)
    kind = next(one["type"] for one in current["descriptors"] if one["name"] == name)
    payload = {"payload": params["payload"]} if kind == "mutation" else {}
    return {"interceptor": name, "type": kind, "phase": params["phase"], **VERDICTS[kind], **payload}


def initialized(current: dict[str, Any]) -> dict[str, Any] | None:
    if current.get("start") == "silent":
        return None
    capability = {"io.modelcontextprotocol/interceptors": current.get("settings", {})}
    return {
        "protocolVersion": "2025-06-18",
        "serverInfo": {"name": current.get("name", "scripted"), "version": "1"},
        "capabilities": {"experimental": capability},
    }


def answer(message: dict[str, Any]) -> None:
    current, method, params = plan(), message["method"], message.get("params", {})
    error, result = None, None
    if method == "initialize":
        result = initialized(current)
    elif method == "interceptors/list":
        result = listed(current)
    elif method == "interceptor/invoke" and planned(current, params["name"]) == "code":
        error = {"code": -32600, "message": "Session terminated"}
    elif method == "interceptor/invoke":
        result = invoked(current, params)
    else:
        error = {"code": -32601, "message": "Method not found"}
    if error is not None:
        say({"id": message["id"], "error": error})
    elif result is not None:
        say({"id": message["id"], "result": result})


def main() -> None:
    note(started=True)
    if plan().get("start") == "exit":
        return
    if plan().get("stubborn"):
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    for line in sys.stdin:
        message = json.loads(line)
        params = message.get("params", {})
        note(method=message["method"], name=params.get("name"), params=params if len(line) < 10_000 else None)
        if "id" in message:
            answer(message)
    note(ended=True)
    while plan().get("stubborn"):
        time.sleep(0.05)


if __name__ == "__main__":
    main()
