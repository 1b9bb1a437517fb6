"""Run by the tests as a process of its own: `audited_process.py LOG NAME COUNT`.

Prints `ready` when the log is open and begins at the first line on standard input. Then sends COUNT calls through a
chain under audit and prints the decision id of each, once it may leave. COUNT 0 never ends.
"""

from __future__ import annotations

import itertools
import sys
from pathlib import Path

import anyio

import midspan_audit
from midspan_audit import AuditConfig
from midspan_sdk import Chain, InvocationContext


async def main(path: Path, name: str, count: int) -> None:
    config = AuditConfig(path=path)
    context = InvocationContext(server=name)
    async with midspan_audit.midspan_lifespan(config, "audit"):
        chain = Chain(observers=midspan_audit.midspan_observers(config, "audit"))
        print("ready", flush=True)
        sys.stdin.readline()
        for number in range(count) if count else itertools.count():
            payload = {"name": "tool", "arguments": {"number": number}}
            result = await chain.execute(event="tools/call", phase="request", payload=payload, context=context)
            assert result.status == "success"
            print(result.decision_id, flush=True)


anyio.run(main, Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]))
