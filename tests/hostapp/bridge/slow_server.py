"""A server that answers when it likes: out of order, in pieces, and not at all what waits to be cancelled.

Every message says for whom it is, as the request did in `arguments.me`. The only argument is the seed.
"""

from __future__ import annotations

import json
import os
import random
import select
import sys
from typing import Any

choice = random.Random(int(sys.argv[1]))
held: list[dict[str, Any]] = []
buffered = b""


def say(**message: Any) -> None:
    os.write(1, json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")


def progress(request: dict[str, Any]) -> None:
    params = {"progressToken": request["params"]["_meta"]["progressToken"], "message": me(request)}
    say(method="notifications/progress", params=params)


def me(request: dict[str, Any]) -> str:
    return request["params"]["arguments"]["me"]


def take(message: dict[str, Any]) -> None:
    if message["method"] == "initialize":
        say(id=message["id"], result={})
    elif message["method"] == "notifications/cancelled":
        held[:] = [one for one in held if one["id"] != message["params"]["requestId"]]
    else:
        progress(message)
        held.append(message)


while True:
    ready = [one for one in held if not one["params"]["arguments"]["waits"]]
    if not ready or select.select([0], [], [], 0)[0]:
        chunk = os.read(0, 65536)
        if not chunk:
            break
        *lines, buffered = (buffered + chunk).split(b"\n")
        for line in lines:
            take(json.loads(line))
    else:
        request = choice.choice(ready)
        progress(request)
        if choice.random() < 0.5:
            say(id=request["id"], result={"for": me(request)})
            held.remove(request)
