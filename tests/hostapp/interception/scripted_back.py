"""A server that says what a script tells it to: over stdio as a program, over HTTP in `ways`.

    python -I -S scripted_back.py SCRIPT LOG

SCRIPT is a JSON file: for each era lists of messages by method, or by method and name (`tools/call echo`). A message
with a method and an id is a request to the client, and the next one waits for its answer; one with a result or an error
answers the request that the list is for. The text `$token` stands for the request's progress token. LOG gets every
message that arrives, as a line.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Generator, Iterator, Mapping, Sequence
from typing import Any

Script = Mapping[str, Sequence[Mapping[str, Any]]]
VERSION_KEY = "io.modelcontextprotocol/protocolVersion"


def talk(scripts: Mapping[str, Script], message: Mapping[str, Any]) -> Generator[dict[str, Any]]:
    """Yield what is said to a request."""
    params: dict[str, Any] = message.get("params", {})
    script = scripts["stateless" if VERSION_KEY in params.get("_meta", {}) else "handshake"]
    method = message["method"]
    lines = script.get(f"{method} {params.get('name')}", script.get(method, [{"result": {}}]))
    token = params.get("_meta", {}).get("progressToken")
    for line in lines:
        said: dict[str, Any] = {"jsonrpc": "2.0", **line}
        if "method" not in said:
            said["id"] = message["id"]
        elif said.get("params", {}).get("progressToken") == "$token":
            said["params"] = {**said["params"], "progressToken": token}
        yield said


def waits(said: Mapping[str, Any]) -> bool:
    """Tell whether the server waits for an answer to what it said."""
    return "method" in said and "id" in said


def main(scripts: Mapping[str, Script], log: str) -> None:
    with open(log, "a", encoding="utf-8", buffering=1) as notes:

        def messages() -> Iterator[dict[str, Any]]:
            for line in sys.stdin:
                notes.write(line)
                yield json.loads(line)

        arriving = messages()
        for message in arriving:
            if "method" not in message or "id" not in message:
                continue
            for said in talk(scripts, message):
                print(json.dumps(said), flush=True)
                if waits(said):
                    next(arriving, None)


if __name__ == "__main__":
    with open(sys.argv[1], encoding="utf-8") as file:
        main(json.load(file), sys.argv[2])
